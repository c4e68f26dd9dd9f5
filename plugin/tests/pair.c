/* SPDX-License-Identifier: Apache-2.0
 * Two processes, one sending and one receiving, each through a table of its own choice: every byte is
 * compared, with guards around each buffer.
 *
 * usage: pair PLUGIN SENDER_VERSION RECEIVER_VERSION */
#include "common.h"

enum { SLOTS = 8, GUARD = 64, LARGEST = 4 << 20, ROUNDS = 1500 };

static const int sizes[] = {0,    1,    13,    63,     64,     128,        4095,    8192, 8193,
                            9000, 65536, 65537, 131073, 262145, (1 << 20) + 5, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

struct setup {
    const char *plugin;
    int sender, receiver;
};

struct slot {
    unsigned char *memory, *data;
    void *mr, *request;
    unsigned message;
};

/* What both sides know of message n: mostly small ones, each size now and then. */
static int size_of(unsigned message)
{
    if (message < SIZES)
        return sizes[message];
    return message % 50 == 0 ? sizes[(message / 50) % SIZES] : sizes[message % 10];
}

static void open_slots(struct net *net, void *comm, struct slot *slots)
{
    for (int i = 0; i < SLOTS; i++) {
        slots[i].memory = malloc(LARGEST + 2 * GUARD);
        CHECK(slots[i].memory != NULL, "no memory");
        slots[i].data = slots[i].memory + GUARD;
        slots[i].request = NULL;
        EXPECT(0, PICK(net, regMr)(comm, slots[i].data, LARGEST, OFI_NCCL_PTR_HOST, &slots[i].mr));
    }
}

static void close_slots(struct net *net, void *comm, struct slot *slots)
{
    for (int i = 0; i < SLOTS; i++) {
        EXPECT(0, PICK(net, deregMr)(comm, slots[i].mr));
        free(slots[i].memory);
    }
}

static void check_guards(const struct slot *slot, int size)
{
    for (int i = 0; i < GUARD; i++) {
        CHECK(slot->data[i - GUARD] == 0xEE, "message %u: byte %d before it", slot->message, i);
        CHECK(slot->data[size + i] == 0xEE, "message %u: byte %d after it", slot->message, i);
    }
}

/* Whether a receive is done before its data is here, by the rules of protocol 2e.10. */
static int completes_early(void)
{
    const char *eager = getenv("OFI_NCCL_EAGER_MAX_SIZE");
    return eager && !strcmp(eager, "-1") && moves_by_itself();
}

/* The bytes of a message come without a call. */
static void await_bytes(const unsigned char *data, size_t size, unsigned message)
{
    double end = now() + 20;
    while (first_wrong(data, size, message) < size) {
        CHECK(now() < end, "message %u never came", message);
        __asm__ volatile("" ::: "memory"); /* somebody else writes them */
        sched_yield();
    }
}

/* A flush is read back from what was received, then the data is looked at. */
static void received(struct net *net, void *comm, struct slot *slot, int size)
{
    int want = size_of(slot->message), flushed = -1;
    void *request;
    if (completes_early()) {
        CHECK(size == 0, "message %u is early, and has %d bytes", slot->message, size);
        await_bytes(slot->data, (size_t)want, slot->message);
        size = want;
    }
    CHECK(size == want, "message %u has %d bytes, not %d", slot->message, size, want);
    if (slot->message % 16 == 0) {
        EXPECT(0, net_iflush(net, comm, slot->data, size, slot->mr, &request));
        CHECK((request != NULL) == (size > 0), "a flush of %d bytes", size);
        if (request)
            EXPECT(0, net_wait(net, request, &flushed, 20));
    }
    verify(slot->data, (size_t)size, slot->message);
    check_guards(slot, want);
}

static void prepare(struct slot *slot, int is_sender)
{
    int size = size_of(slot->message);
    memset(slot->data - GUARD, 0xEE, (size_t)size + 2 * GUARD);
    if (is_sender)
        fill(slot->data, (size_t)size, slot->message);
}

/* Keeps SLOTS messages in flight, in order, until ROUNDS are done. */
static void run(struct net *net, void *comm, int is_sender)
{
    struct slot slots[SLOTS];
    unsigned posted = 0, finished = 0, prepared = 0;
    double end = now() + 90;
    open_slots(net, comm, slots);
    while (finished < ROUNDS) {
        struct slot *next = &slots[posted % SLOTS], *oldest = &slots[finished % SLOTS];
        if (posted < ROUNDS && posted - finished < SLOTS) {
            if (prepared == posted) {
                next->message = posted;
                prepare(next, is_sender);
                prepared++;
            }
            /* `*request == 1` is an input of irecv, read at each try. */
            next->request = is_sender ? NULL : OFI_NCCL_OPTIONAL_RECV_COMPLETION;
            EXPECT(0, is_sender ? net_isend(net, comm, next->data, size_of(posted), next->mr, &next->request)
                                : net_irecv(net, comm, next->data, size_of(posted), next->mr, &next->request));
            posted += next->request != NULL;
        }
        if (finished < posted) {
            int done = 0, size = -7;
            EXPECT(0, PICK(net, test)(oldest->request, &done, &size));
            CHECK(done || size == -7, "size was written before done");
            if (done && is_sender)
                CHECK(size == size_of(oldest->message), "sent %d bytes", size);
            if (done && !is_sender)
                received(net, comm, oldest, size);
            finished += done != 0;
        }
        CHECK(now() < end, "message %u is not done", finished);
    }
    close_slots(net, comm, slots);
}

/* More sent than there is room for, with and without a receive posted first: both report what fit. */
static void truncate_messages(struct net *net, void *comm, int is_sender, int socket)
{
    static unsigned char data[70000];
    const int pairs[][2] = {{5000, 4096}, {70000, 30000}, {100, 0}};
    void *mr;
    char token = 0;
    EXPECT(0, PICK(net, regMr)(comm, data, sizeof data, OFI_NCCL_PTR_HOST, &mr));
    for (size_t i = 0; i < 2 * sizeof pairs / sizeof *pairs; i++) {
        int sent = pairs[i / 2][0], room = pairs[i / 2][1], size = -1, receiver_first = i % 2;
        void *request = NULL;
        double end = now() + 20;
        if (receiver_first == is_sender)
            take(socket, &token, 1);
        memset(data, 0xEE, sizeof data);
        if (is_sender)
            fill(data, (size_t)sent, (unsigned)i);
        while (!request) {
            EXPECT(0, is_sender ? net_isend(net, comm, data, sent, mr, &request)
                                : net_irecv(net, comm, data, room, mr, &request));
            CHECK(now() < end, "no request");
        }
        if (receiver_first != is_sender)
            put(socket, &token, 1);
        EXPECT(0, net_wait(net, request, &size, 20));
        CHECK(size == room, "%d bytes into %d: %s reports %d", sent, room,
              is_sender ? "sender" : "receiver", size);
        if (!is_sender) {
            verify(data, (size_t)room, (unsigned)i);
            CHECK(data[room] == 0xEE, "more than there is room for");
        }
    }
    EXPECT(0, PICK(net, deregMr)(comm, mr));
}

/* SENDRECV knows of no room: what becomes of more than there is, is the provider's. */
static int tells_room(void)
{
    const char *protocol = getenv("OFI_NCCL_PROTOCOL");
    return protocol != NULL && strcmp(protocol, "RDMA") == 0;
}

static void receive(int socket, void *argument)
{
    struct setup *setup = argument;
    struct net net = load(setup->plugin, setup->receiver);
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, token = 0;
    void *listener, *comm;
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    put(socket, handle, sizeof handle);
    EXPECT(0, net_accept(&net, listener, &comm, 30));
    run(&net, comm, 0);
    if (tells_room())
        truncate_messages(&net, comm, 0, socket);
    EXPECT(0, PICK(&net, closeRecv)(comm));
    EXPECT(0, PICK(&net, closeListen)(listener));
    put(socket, &token, 1);
    take(socket, &token, 1);
    finish(&net);
    CHECK(warnings == 0, "the receiver warned: %s", last_warning);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: pair PLUGIN SENDER_VERSION RECEIVER_VERSION");
    watchdog(120);
    struct setup setup = {argv[1], atoi(argv[2]), atoi(argv[3])};
    struct peer peer = fork_peer(receive, &setup);
    struct net net = load(setup.plugin, setup.sender);
    char handle[OFI_NCCL_HANDLE_BYTES], token = 0;
    void *comm;
    start(&net);
    take(peer.socket, handle, sizeof handle);
    EXPECT(0, net_connect(&net, handle, &comm, 30));
    run(&net, comm, 1);
    if (tells_room())
        truncate_messages(&net, comm, 1, peer.socket);
    take(peer.socket, &token, 1);
    EXPECT(0, PICK(&net, closeSend)(comm));
    put(peer.socket, &token, 1);
    finish(&net);
    CHECK(warnings == 0, "the sender warned: %s", last_warning);
    join(peer);
    puts("ok");
    return 0;
}
