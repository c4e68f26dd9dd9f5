/* SPDX-License-Identifier: Apache-2.0
 * Memory of an emulated device, in two processes that send to each other: what the plugin is given are
 * addresses that nobody may touch (PROT_NONE), which the emulated NIC reaches by its own mapping. A byte that
 * the plugin copied by CPU would end the process. Every byte is compared, through another mapping.
 *
 * usage: device PLUGIN VERSION HOW
 *   HOW: address   registered by its address
 *        dmabuf    by a dma-buf, closed at once, with addresses that are of no memory at all
 *        refused   by a dma-buf where the NIC takes none: by its address then, and one warning
 *        bad       what is no dma-buf, and what is no memory of the device
 *        einval    the NIC refuses it, though it says that it reaches such memory
 *        nocuda    there is no CUDA
 *        nodevice  the provider has no memory of devices */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>

#ifdef OFI_TEST_NCCL
enum { DEVICE_TYPE = OFI_NCCL_PTR_CUDA };
#else
enum { DEVICE_TYPE = OFI_NEURON_PTR_NEURON };
#endif

enum { PAGE = 4096, OFFSET = 3 * PAGE, LARGEST = (1 << 20) + 77, BYTES = OFFSET + LARGEST + PAGE, ROUNDS = 60 };

static const int sizes[] = {0, 1, 31, 32, 33, 4096, 8192, 8193, 65537, 262145, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

struct setup {
    const char *plugin, *how;
    int version;
};

/* Device memory: `seen` is how this test looks at it, `named` what the plugin is told. */
struct memory {
    int fd;
    unsigned char *seen, *named;
    void *mr;
};

static int is(const struct setup *setup, const char *how)
{
    return strcmp(setup->how, how) == 0;
}

/* The fake driver, where it is found: it is loaded as a program that uses CUDA has loaded the real one. */
static void own(void *start, size_t bytes)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void (*own_)(uint64_t, uint64_t) = library ? (void (*)(uint64_t, uint64_t))dlsym(library, "fake_cuda_own") : NULL;
    if (own_)
        own_((uintptr_t)start, bytes);
}

static struct memory allocate(const struct setup *setup)
{
    struct memory memory = {.fd = memfd_create("dmabuf", 0)};
    CHECK(memory.fd >= 0 && ftruncate(memory.fd, BYTES) == 0, "memfd: %s", strerror(errno));
    memory.seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
    /* By dma-buf the file is all there is: the addresses are of other pages, which nobody may touch. */
    memory.named = is(setup, "dmabuf")
                       ? mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : mmap(NULL, BYTES, PROT_NONE, MAP_SHARED, memory.fd, 0);
    CHECK(memory.seen != MAP_FAILED && memory.named != MAP_FAILED, "mmap: %s", strerror(errno));
    own(memory.named, BYTES);
    return memory;
}

static int supported(struct net *net)
{
#ifdef OFI_TEST_NCCL
    ofi_nccl_properties_v12_t props; /* ptrSupport is at the same place in all of them */
    EXPECT(0, PICK(net, getProperties)(0, &props));
#else
    ofi_neuron_properties_v5_t props;
    EXPECT(0, net->version == 5 ? net->v5->getProperties(0, &props) : net->v6->getProperties(0, &props));
#endif
    return props.ptrSupport;
}

/* Whether dma-bufs are offered; Neuron's tables do not say. */
static int offers_dmabuf(struct net *net)
{
#ifdef OFI_TEST_NCCL
    return (supported(net) & OFI_NCCL_PTR_DMABUF) != 0;
#else
    (void)net;
    return 0;
#endif
}

static int reg_dmabuf(struct net *net, void *comm, void *data, size_t size, uint64_t offset, int fd, void **mr)
{
#ifndef OFI_TEST_NCCL
    if (net->version == 5)
        return net->v5->regMrDmaBuf(comm, data, size, DEVICE_TYPE, offset, fd, mr);
    return net->v6->regMrDmaBuf(comm, data, size, DEVICE_TYPE, offset, fd, mr);
#else
    return PICK(net, regMrDmaBuf)(comm, data, size, DEVICE_TYPE, offset, fd, mr);
#endif
}

/* Registers what lies OFFSET bytes into the memory; whether it could be. */
static void register_(struct net *net, const struct setup *setup, void *comm, struct memory *memory)
{
    if (is(setup, "address")) {
        EXPECT(0, PICK(net, regMr)(comm, memory->named + OFFSET, LARGEST, DEVICE_TYPE, &memory->mr));
        return;
    }
    int before = warnings, offered = offers_dmabuf(net);
    for (int again = 0; again < 3; again++) {
        EXPECT(0, reg_dmabuf(net, comm, memory->named, LARGEST, OFFSET, memory->fd, &memory->mr));
        if (again < 2)
            EXPECT(0, PICK(net, deregMr)(comm, memory->mr));
    }
    CHECK(close(memory->fd) == 0, "close");
    if (is(setup, "dmabuf"))
        CHECK(warnings == before && offers_dmabuf(net) == offered, "a warning: %s", last_warning);
    else
        CHECK(!offers_dmabuf(net) && strstr(last_warning, "OFI-W0318"), "not given up: %s", last_warning);
}

static void connect_(struct net *net, int socket, int sends, void **comm)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener;
    if (sends) {
        take(socket, handle, sizeof handle);
        EXPECT(0, net_connect(net, handle, comm, 30));
        return;
    }
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    put(socket, handle, sizeof handle);
    EXPECT(0, net_accept(net, listener, comm, 30));
    EXPECT(0, PICK(net, closeListen)(listener));
}

/* One message, with its receive posted before the send, or after what is eager has come. */
static void message(struct net *net, void *comm, int sends, int socket, struct memory *memory, unsigned n)
{
    unsigned char *seen = memory->seen + OFFSET, *named = memory->named + OFFSET;
    int size = sizes[n % SIZES], got = -1, receiver_first = n / SIZES % 2;
    char token = 0;
    void *request = NULL;
    double end = now() + 30;
    memset(seen, 0xEE, LARGEST);
    if (sends)
        fill(seen, (size_t)size, n);
    if (receiver_first == sends)
        take(socket, &token, 1);
    while (!request) {
        EXPECT(0, sends ? net_isend(net, comm, named, size, memory->mr, &request)
                        : net_irecv(net, comm, named, size, memory->mr, &request));
        CHECK(now() < end, "no request");
    }
    if (receiver_first != sends)
        put(socket, &token, 1);
    EXPECT(0, net_wait(net, request, &got, 30));
    CHECK(got == size, "message %u: %d bytes, not %d", n, got, size);
    if (sends)
        return;
    EXPECT(0, net_iflush(net, comm, named, size, memory->mr, &request));
    CHECK((request != NULL) == (size > 0), "memory of a device is flushed");
    if (request)
        EXPECT(0, net_wait(net, request, &got, 30));
    verify(seen, (size_t)size, n);
    for (int i = size; i < size + 64 && i < LARGEST; i++)
        CHECK(seen[i] == 0xEE, "message %u: byte %d behind it", n, i);
}

static void run(const struct setup *setup, int socket, int first)
{
    struct net net = load(setup->plugin, setup->version);
    char token = 0;
    start(&net);
    CHECK(supported(&net) & DEVICE_TYPE, "ptrSupport %#x", supported(&net));
    for (int turn = 0; turn < 2; turn++) {
        struct memory memory = allocate(setup);
        int sends = turn == first;
        void *comm;
        connect_(&net, socket, sends, &comm);
        register_(&net, setup, comm, &memory);
        for (unsigned n = 0; n < ROUNDS; n++)
            message(&net, comm, sends, socket, &memory, n);
        EXPECT(0, PICK(&net, deregMr)(comm, memory.mr));
        put(socket, &token, 1);
        take(socket, &token, 1);
        EXPECT(0, sends ? PICK(&net, closeSend)(comm) : PICK(&net, closeRecv)(comm));
    }
    int expected = is(setup, "refused");
    CHECK(warnings == expected, "%d warnings: %s", warnings, last_warning);
    finish(&net);
}

static void be_second(int socket, void *argument)
{
    run(argument, socket, 1);
}

/* A communicator to register with. */
static void alone(struct net *net, void **sender, void **receiver)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener;
    double end = now() + 30;
    *sender = *receiver = NULL;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    while (!*sender || !*receiver) {
        if (!*sender)
            EXPECT(0, PICK(net, connect)(0, handle, sender));
        if (!*receiver)
            EXPECT(0, PICK(net, accept)(listener, receiver));
        CHECK(now() < end, "no connection to itself");
    }
    EXPECT(0, PICK(net, closeListen)(listener));
}

static void refuse(struct net *net, int result, const char *code, int got)
{
    CHECK(got == result, "%d and not %d: %s", got, result, last_warning);
    CHECK(warnings == 1 && strstr(last_warning, code), "not %s: %s", code, last_warning);
    warnings = 0;
    check_health(net);
    CHECK(warnings == 0, "a warning: %s", last_warning);
}

static void refusals(const struct setup *setup)
{
    struct net net = load(setup->plugin, setup->version);
    static unsigned char host[3 * PAGE];
    void *sender, *receiver, *mr;
    struct memory memory = allocate(setup);
    start(&net);
    alone(&net, &sender, &receiver);
    if (is(setup, "nodevice")) {
        CHECK(supported(&net) == OFI_NCCL_PTR_HOST, "ptrSupport %#x", supported(&net));
        refuse(&net, 3, "OFI-E0312", PICK(&net, regMr)(sender, memory.named, PAGE, DEVICE_TYPE, &mr));
    } else if (is(setup, "nocuda")) {
        int got = PICK(&net, regMr)(sender, memory.named, PAGE, DEVICE_TYPE, &mr);
        if (strstr(last_warning, "OFI-E0317"))
            puts("skipped: no libcuda.so.1 (this machine has one)");
        else
            refuse(&net, 2, "OFI-E0316", got);
    } else if (is(setup, "einval")) {
        CHECK(supported(&net) & DEVICE_TYPE, "ptrSupport %#x", supported(&net));
        refuse(&net, 3, "OFI-E0319", PICK(&net, regMr)(sender, memory.named, LARGEST, DEVICE_TYPE, &mr));
        refuse(&net, 3, "FI_EFA_SET_CUDA_SYNC_MEMOPS=0",
               PICK(&net, regMr)(receiver, memory.named, LARGEST, DEVICE_TYPE, &mr));
    } else {
        if (DEVICE_TYPE == 2) /* CUDA is asked, Neuron is not */
            refuse(&net, 3, "OFI-E0317", PICK(&net, regMr)(sender, host, PAGE, DEVICE_TYPE, &mr));
        /* A number that is no descriptor: the caller is told, and dma-bufs are tried on. */
        int closed = dup(memory.fd);
        CHECK(close(closed) == 0, "close");
        refuse(&net, 2, "OFI-E0501", reg_dmabuf(&net, sender, memory.named, PAGE, 0, closed, &mr));
        /* A file that is none: its memory goes by its address. */
        int file = open("/dev/null", 0);
        EXPECT(0, reg_dmabuf(&net, sender, memory.named, PAGE, 0, file, &mr));
        EXPECT(0, PICK(&net, deregMr)(sender, mr));
        EXPECT(0, reg_dmabuf(&net, sender, memory.named, PAGE, 0, file, &mr));
        EXPECT(0, PICK(&net, deregMr)(sender, mr));
        CHECK(warnings == 1 && strstr(last_warning, "OFI-W0318"), "%d: %s", warnings, last_warning);
#ifdef OFI_TEST_NCCL
        CHECK(offers_dmabuf(&net), "one bad file is not all");
#endif
    }
    EXPECT(0, PICK(&net, closeSend)(sender));
    EXPECT(0, PICK(&net, closeRecv)(receiver));
    finish(&net);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: device PLUGIN VERSION HOW");
    watchdog(120);
    struct setup setup = {.plugin = argv[1], .version = atoi(argv[2]), .how = argv[3]};
    if (is(&setup, "bad") || is(&setup, "einval") || is(&setup, "nocuda") || is(&setup, "nodevice")) {
        refusals(&setup);
    } else {
        struct peer peer = fork_peer(be_second, &setup);
        run(&setup, peer.socket, 0);
        join(peer);
    }
    puts("ok");
    return 0;
}
