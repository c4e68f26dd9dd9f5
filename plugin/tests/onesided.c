/* SPDX-License-Identifier: Apache-2.0
 * One-sided calls between two processes: the sender writes into the receiver's memory, inline and not,
 * and the receiver reads the sender's. Each side knows of the other an address and a key. What was
 * written is looked at by its owner, with guards around it.
 *
 * usage: onesided PLUGIN VERSION (5 or 6) */
#include "common.h"

enum { GUARD = 64, LARGEST = 1 << 20, ROUNDS = 200 };

/* What a side tells the other of its memory. */
struct place {
    uint64_t address, key;
};

/* The one-sided calls of the table. */
struct calls {
    ofi_nccl_result_t (*write)(void *, void *, size_t, void *, uint64_t, uint64_t, void **);
    ofi_nccl_result_t (*write_inline)(void *, void *, size_t, uint64_t, uint64_t, void **);
    ofi_nccl_result_t (*read)(void *, void *, size_t, void *, uint64_t, uint64_t, void **);
    ofi_nccl_result_t (*key)(void *, uint64_t *);
};

struct setup {
    const char *plugin;
    int version;
};

static struct calls calls_of(struct net *net)
{
    if (net->version == 5)
        return (struct calls){net->v5->iwrite, net->v5->iwriteInline, net->v5->iread, net->v5->getMrKey};
    return (struct calls){net->v6->iwrite, net->v6->iwriteInline, net->v6->iread, net->v6->getMrKey};
}

static size_t inline_max(struct net *net)
{
    ofi_neuron_properties_v5_t props;
    EXPECT(0, net->version == 5 ? net->v5->getProperties(0, &props) : net->v6->getProperties(0, &props));
    CHECK(props.rmaSupported == 1, "rma_supported is %d", props.rmaSupported);
    return props.maxWriteInlineSize;
}

static size_t size_of(unsigned round, size_t most)
{
    static const size_t sizes[] = {1, 8, 64, 4096, 65537, LARGEST};
    size_t size = sizes[round % (sizeof sizes / sizeof *sizes)];
    return size < most ? size : most;
}

static void wait_for(struct net *net, void *request, size_t size)
{
    int told = -1;
    EXPECT(0, net_wait(net, request, &told, 30));
    CHECK(told == (int)size, "%d bytes moved, not %zu", told, size);
}

static void write_round(struct net *net, void *comm, unsigned char *data, void *mr, struct place to,
                        unsigned round)
{
    struct calls calls = calls_of(net);
    int is_inline = round % 3 == 2;
    size_t size = size_of(round, is_inline ? inline_max(net) : LARGEST);
    void *request = NULL;
    double end = now() + 30;
    fill(data, size, round);
    while (!request) {
        if (is_inline)
            EXPECT(0, calls.write_inline(comm, data, size, to.address, to.key, &request));
        else
            EXPECT(0, calls.write(comm, data, size, mr, to.address, to.key, &request));
        CHECK(now() < end, "no request");
    }
    if (is_inline)
        memset(data, 0xDD, size);
    wait_for(net, request, size);
}

/* Waits for a byte from the other side. Meanwhile a listener that nobody connects to is asked: that
 * makes progress, which the other side's operations need on some providers, and nothing else. */
static void await_word(struct net *net, void *idle, int socket)
{
    char token;
    double end = now() + 30;
    while (recv(socket, &token, 1, MSG_DONTWAIT) != 1) {
        void *none = NULL;
        EXPECT(0, PICK(net, accept)(idle, &none));
        CHECK(now() < end, "no word from the peer");
        between_calls();
    }
}

/* The connecting side: writes, then waits while the other reads. */
static void run_sender(struct net *net, void *comm, void *idle, int socket)
{
    unsigned char *memory = malloc(2 * LARGEST), token = 0, *shown = memory + LARGEST;
    struct place there, here = {.address = (uintptr_t)shown};
    void *mr, *shown_mr;
    CHECK(memory != NULL, "no memory");
    EXPECT(0, PICK(net, regMr)(comm, memory, LARGEST, OFI_NCCL_PTR_HOST, &mr));
    EXPECT(0, PICK(net, regMr)(comm, shown, LARGEST, OFI_NCCL_PTR_HOST, &shown_mr));
    EXPECT(0, calls_of(net).key(shown_mr, &here.key));
    put(socket, &here, sizeof here);
    take(socket, &there, sizeof there);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fill(shown, LARGEST, round + 1000);
        write_round(net, comm, memory, mr, there, round);
        put(socket, &token, 1);
        await_word(net, idle, socket);
    }
    EXPECT(0, PICK(net, deregMr)(comm, mr));
    EXPECT(0, PICK(net, deregMr)(comm, shown_mr));
    free(memory);
}

static void check_guards(const volatile unsigned char *at, size_t size, unsigned round)
{
    for (int i = 1; i <= GUARD; i++)
        CHECK(at[-i] == 0xEE && at[size + (size_t)i - 1] == 0xEE, "round %u: a guard changed", round);
}

/* A write is complete when it left: its last byte may still be on its way. */
static void await_bytes(struct net *net, void *idle, const volatile unsigned char *at, size_t size,
                        unsigned round)
{
    double end = now() + 30;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)(i * 131 + (i >> 8) * 17 + round * 29 + 1);
        while (at[i] != byte) {
            void *none = NULL;
            EXPECT(0, PICK(net, accept)(idle, &none));
            CHECK(now() < end, "round %u: byte %zu of %zu never came", round, i, size);
        }
    }
}

static void run_receiver(struct net *net, void *comm, void *idle, int socket)
{
    static unsigned char memory[2 * LARGEST + 4 * GUARD], token;
    unsigned char *data = memory + GUARD, *into = memory + LARGEST + 3 * GUARD;
    struct place there, here = {.address = (uintptr_t)data};
    void *mr;
    size_t most = inline_max(net);
    memset(memory, 0xEE, sizeof memory);
    EXPECT(0, PICK(net, regMr)(comm, memory, sizeof memory, OFI_NCCL_PTR_HOST, &mr));
    EXPECT(0, calls_of(net).key(mr, &here.key));
    put(socket, &here, sizeof here);
    take(socket, &there, sizeof there);
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = size_of(round, round % 3 == 2 ? most : LARGEST);
        void *request = NULL;
        double end = now() + 30;
        await_word(net, idle, socket);
        await_bytes(net, idle, data, size, round);
        check_guards(data, size, round);
        memset(data, 0xEE, size);
        memset(into, 0xEE, LARGEST);
        while (!request) {
            EXPECT(0, calls_of(net).read(comm, into, size, mr, there.address, there.key, &request));
            CHECK(now() < end, "no request");
        }
        wait_for(net, request, size);
        verify(into, size, round + 1000);
        CHECK(size == LARGEST || into[size] == 0xEE, "round %u: more was read", round);
        put(socket, &token, 1);
    }
    EXPECT(0, PICK(net, deregMr)(comm, mr));
}

static void receive(int socket, void *argument)
{
    struct setup *setup = argument;
    struct net net = load(setup->plugin, setup->version);
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, again[OFI_NCCL_HANDLE_BYTES] = {0}, token = 0;
    void *listener, *idle, *comm;
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    /* Nobody connects to this one: asking it makes progress, and nothing else. */
    EXPECT(0, PICK(&net, listen)(0, again, &idle));
    put(socket, handle, sizeof handle);
    EXPECT(0, net_accept(&net, listener, &comm, 30));
    run_receiver(&net, comm, idle, socket);
    EXPECT(0, PICK(&net, closeRecv)(comm));
    EXPECT(0, PICK(&net, closeListen)(listener));
    EXPECT(0, PICK(&net, closeListen)(idle));
    put(socket, &token, 1);
    take(socket, &token, 1);
    finish(&net);
    CHECK(warnings == 0, "the receiver warned: %s", last_warning);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: onesided PLUGIN VERSION");
    watchdog(120);
    struct setup setup = {argv[1], atoi(argv[2])};
    CHECK(setup.version == 5 || setup.version == 6, "v4 has no one-sided calls");
    struct peer peer = fork_peer(receive, &setup);
    struct net net = load(setup.plugin, setup.version);
    char handle[OFI_NCCL_HANDLE_BYTES], own[OFI_NCCL_HANDLE_BYTES], token = 0;
    void *comm, *idle;
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, own, &idle));
    take(peer.socket, handle, sizeof handle);
    EXPECT(0, net_connect(&net, handle, &comm, 30));
    run_sender(&net, comm, idle, peer.socket);
    EXPECT(0, PICK(&net, closeListen)(idle));
    take(peer.socket, &token, 1);
    EXPECT(0, PICK(&net, closeSend)(comm));
    put(peer.socket, &token, 1);
    finish(&net);
    CHECK(warnings == 0, "the sender warned: %s", last_warning);
    join(peer);
    puts("ok");
    return 0;
}
