/* SPDX-License-Identifier: Apache-2.0
 * Loads NCCL's plugin as NCCL does and misuses it, through every version, in every way that the ABI
 * allows: symbols, slots and names, NULLs, calls out of order, stale words, lives, forks.
 *
 * usage: nccl_abi PLUGIN */
#include "common.h"
#include "object.h"

static const size_t table_bytes[] = {[6] = 136, 152, 152, 160, 160, 176, 176};

/* getDeviceMr and irecvConsumed, makeVDevice, setNetAttr. */
static unsigned null_slots(int version)
{
    return (version >= 7 ? 3u << 17 : 0) | (version >= 9 ? 1u << 19 : 0) |
           (version >= 11 ? 1u << 21 : 0);
}

static void check_tables(const char *path, const char *called)
{
    for (int version = FIRST_VERSION; version <= LAST_VERSION; version++) {
        struct net net = load(path, version);
        char name[32];
        snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
        check_symbol(name, net.table, table_bytes[version], called, null_slots(version));
        /* Loaders have been seen to write the name: it must not be in read-only memory. */
        *(const char *volatile *)&net.v6->name = net.v6->name;
        /* Versions of other generations are not there. */
        CHECK(!dlsym(net.library, "ncclNetPlugin_v5") && !dlsym(net.library, "ncclNetPlugin_v13"),
              "an unknown table");
        CHECK(dlclose(net.library) == 0, "%s", dlerror());
    }
}

/* The name is right before anything is called: NCCL compares it with NCCL_NET at once. */
static void check_names(const char *path)
{
    static const char *const cases[][2] = {{"AWS Libfabric", "AWS Libfabric"},
                                           {"OFI", "OFI"},
                                           {"ofi", "ofi"},
                                           {"Libfabric", "Libfabric"},
                                           {"", "Libfabric"},
                                           {"IB", "Libfabric"},
                                           {"OFI ", "Libfabric"},
                                           {"AWS Libfabric and more", "Libfabric"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("NCCL_NET", cases[i][0], 1);
        check_tables(path, cases[i][1]);
    }
    unsetenv("NCCL_NET");
    check_tables(path, "Libfabric");
}

/* Every call with arguments that would do if the plugin were initialised. */
static void check_uninitialised(struct net *net)
{
    char handle[128] = {0}, byte = 0, props[256];
    void *comm = NULL, *request = NULL, *word = (void *)0x4000000000000001, *data = &byte;
    int count, done, small = 1, tag = 0;
    int64_t size = 1;
    EXPECT(4, PICK(net, devices)(&count));
    EXPECT(4, PICK(net, getProperties)(0, props));
    EXPECT(4, PICK(net, listen)(0, handle, &comm));
    EXPECT(4, PICK(net, connect)(0, handle, &comm));
    EXPECT(4, PICK(net, accept)(word, &comm));
    EXPECT(4, PICK(net, regMr)(word, data, 1, OFI_NCCL_PTR_HOST, &comm));
    EXPECT(4, PICK(net, regMrDmaBuf)(word, data, 1, OFI_NCCL_PTR_HOST, 0, -1, &comm));
    EXPECT(4, PICK(net, deregMr)(word, word));
    EXPECT(4, PICK(net, isend)(word, data, 1, word, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, &data, &size, &tag, &word, &request));
    EXPECT(4, PICK(net, iflush)(word, 1, &data, &small, &word, &request));
    EXPECT(4, PICK(net, test)(word, &done, &small));
    EXPECT(4, PICK(net, closeSend)(word));
    EXPECT(4, PICK(net, closeRecv)(word));
    EXPECT(4, PICK(net, closeListen)(word));
    if (net->version >= 11)
        EXPECT(4, net->v11->finalize(net->ctx));
}

static void check_nulls(struct net *net)
{
    char handle[128] = {0};
    void *comm = NULL, *word = (void *)0x4000000000000001, *data = handle, *request = NULL;
    int small = 1, tag = 0, done;
    int64_t size = 1;
    EXPECT(4, PICK(net, devices)(NULL));
    EXPECT(4, PICK(net, getProperties)(0, NULL));
    EXPECT(4, PICK(net, listen)(0, NULL, &comm));
    EXPECT(3, PICK(net, listen)(0, handle, NULL));
    EXPECT(4, PICK(net, connect)(0, NULL, &comm));
    EXPECT(3, PICK(net, connect)(0, handle, NULL));
    EXPECT(3, PICK(net, accept)(NULL, &comm));
    EXPECT(3, PICK(net, accept)(word, NULL));
    EXPECT(3, PICK(net, regMr)(NULL, data, 1, OFI_NCCL_PTR_HOST, &comm));
    EXPECT(3, PICK(net, regMr)(word, data, 1, OFI_NCCL_PTR_HOST, NULL));
    EXPECT(3, PICK(net, regMrDmaBuf)(NULL, data, 1, OFI_NCCL_PTR_HOST, 0, -1, &comm));
    EXPECT(3, PICK(net, deregMr)(NULL, NULL));
    EXPECT(3, PICK(net, isend)(NULL, data, 1, word, &request));
    EXPECT(3, PICK(net, isend)(word, data, 1, word, NULL));
    EXPECT(4, PICK(net, irecv)(NULL, 1, &data, &size, &tag, &word, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, NULL, &size, &tag, &word, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, &data, NULL, &tag, &word, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, &data, &size, NULL, &word, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, &data, &size, &tag, NULL, &request));
    EXPECT(4, PICK(net, irecv)(word, 1, &data, &size, &tag, &word, NULL));
    for (int n = -1; n <= 9; n++)
        if (n != 1) {
            EXPECT(4, PICK(net, irecv)(word, n, &data, &size, &tag, &word, &request));
            EXPECT(3, PICK(net, iflush)(word, n, &data, &small, &word, &request));
        }
    EXPECT(3, PICK(net, iflush)(NULL, 1, &data, &small, &word, &request));
    EXPECT(3, PICK(net, iflush)(word, 1, &data, &small, &word, NULL));
    EXPECT(3, PICK(net, test)(NULL, &done, &small));
    EXPECT(3, PICK(net, test)(word, NULL, &small));
    EXPECT(3, PICK(net, closeSend)(NULL));
    EXPECT(3, PICK(net, closeRecv)(NULL));
    EXPECT(3, PICK(net, closeListen)(NULL));
}

/* Words that no call gave, and devices that are not there. */
static void check_strangers(struct net *net)
{
    char handle[128] = {0}, props[256];
    void *comm, *request, *mr, *data = handle;
    int devices, done = 1, tag = 0;
    int64_t size = 1;
    EXPECT(0, PICK(net, devices)(&devices));
    const int strange[] = {-1, devices, 1 << 30, -2147483647 - 1};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        EXPECT(3, PICK(net, getProperties)(strange[i], props));
        EXPECT(3, PICK(net, listen)(strange[i], handle, &comm));
        EXPECT(3, PICK(net, connect)(strange[i], handle, &comm));
    }
    const uintptr_t words[] = {1, 0x4000000000000000, 0x8000000000000007, UINTPTR_MAX,
                               (uintptr_t)handle, (uintptr_t)net->ctx + 7};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        void *word = (void *)words[i];
        EXPECT(3, PICK(net, accept)(word, &comm));
        EXPECT(3, PICK(net, regMr)(word, data, 1, OFI_NCCL_PTR_HOST, &mr));
        CHECK(mr == NULL, "a handle after a failure");
        EXPECT(3, PICK(net, deregMr)(word, word));
        EXPECT(3, PICK(net, isend)(word, data, 1, word, &request));
        EXPECT(3, PICK(net, irecv)(word, 1, &data, &size, &tag, &word, &request));
        EXPECT(3, PICK(net, test)(word, &done, NULL));
        CHECK(done == 0, "done after a failure");
        EXPECT(3, PICK(net, closeSend)(word));
        EXPECT(3, PICK(net, closeListen)(word));
        if (net->version >= 11) {
            EXPECT(4, net->v11->finalize(word));
            EXPECT(4, net->v11->listen(word, 0, handle, &comm));
            EXPECT(4, net->v11->connect(word, 0, handle, &comm, NULL));
        }
    }
}

/* One communicator pair, and what may be done with it and what not. */
static void check_objects(struct net *net)
{
    char handle[128] = {0};
    static char data[8192];
    void *listener, *sender = NULL, *receiver = NULL, *mr, *other, *request, *at = data;
    int done, tag = 0;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, PICK(net, connect)(0, handle, &sender));
        if (!receiver)
            EXPECT(0, PICK(net, accept)(listener, &receiver));
    }
    EXPECT(3, PICK(net, regMr)(listener, data, 64, OFI_NCCL_PTR_HOST, &mr));
    EXPECT(3, PICK(net, regMr)(sender, data, 64, 4, &mr)); /* Neuron's number */
    CHECK(PICK(net, regMrDmaBuf)(sender, data, 64, OFI_NCCL_PTR_HOST, 0, 0, &mr) != 0, "a dma-buf");
    if (net->version <= 7)
        EXPECT(3, net->v6->regMr(sender, data, -1, OFI_NCCL_PTR_HOST, &mr));
    EXPECT(0, PICK(net, regMrDmaBuf)(sender, data, sizeof data, OFI_NCCL_PTR_HOST, 0, -1, &mr));
    EXPECT(0, PICK(net, deregMr)(sender, NULL));
    EXPECT(3, PICK(net, isend)(receiver, data, 64, mr, &request));
    EXPECT(3, net_irecv(net, sender, data, 64, mr, &request));
    EXPECT(3, PICK(net, isend)(sender, data, 64, sender, &request));
    /* Longer than a message can be: an int that is negative, a size_t that no int holds. */
    const int64_t sizes[] = {-1, (int64_t)1 << 31, ((int64_t)1 << 32) + 64, INT64_MIN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && net->version >= 9; i++) {
        int64_t size = sizes[i];
        request = &data;
        EXPECT(5, PICK(net, isend)(sender, data, size, mr, &request));
        EXPECT(5, PICK(net, irecv)(receiver, 1, &at, &size, &tag, &mr, &request));
    }
    if (net->version <= 8) {
        EXPECT(3, PICK(net, isend)(sender, data, -1, mr, &request));
        EXPECT(3, PICK(net, irecv)(receiver, 1, &at, (int64_t[]){-1}, &tag, &mr, &request));
    }
    EXPECT(3, PICK(net, closeRecv)(sender));
    /* None of that did any harm; and words are stale after their objects. */
    EXPECT(0, net_irecv(net, receiver, data, 64, mr, &request));
    CHECK(request != NULL, "no request");
    EXPECT(0, PICK(net, closeRecv)(receiver));
    EXPECT(0, PICK(net, deregMr)(sender, mr));
    EXPECT(3, PICK(net, test)(request, &done, NULL));
    EXPECT(3, PICK(net, closeRecv)(receiver));
    CHECK(PICK(net, accept)(listener, &other) != 0 && !other, "a listener gave two communicators");
    EXPECT(3, PICK(net, deregMr)(sender, mr));
    EXPECT(0, PICK(net, closeSend)(sender));
    EXPECT(3, PICK(net, closeSend)(sender));
    EXPECT(0, PICK(net, closeListen)(listener));
}

/* Of the providers that these tests have, the emulated EFA alone. */
static int has_device_memory(void)
{
    return strstr(chosen_provider, "provider efa") != NULL;
}

/* All versions say the same, each in its own struct, and nothing is left as it was. */
static void check_properties(const char *path)
{
    struct net net = load(path, 6);
    ofi_nccl_properties_v6_t v6;
    ofi_nccl_properties_v7_t v7;
    ofi_nccl_properties_v8_t v8;
    ofi_nccl_properties_v9_t v9, v10;
    ofi_nccl_properties_v11_t v11;
    ofi_nccl_properties_v12_t v12;
    void *into[] = {[6] = &v6, &v7, &v8, &v9, &v10, &v11, &v12};
    const size_t bytes[] = {[6] = sizeof v6, sizeof v7,  sizeof v8, sizeof v9,
                            sizeof v10,      sizeof v11, sizeof v12};
    int devices;
    start(&net);
    EXPECT(0, net.v6->devices(&devices));
    for (int dev = 0; dev < devices; dev++) {
        for (int version = 6; version <= 12; version++) {
            struct net table = load(path, version);
            memset(into[version], 0xAA, bytes[version]);
            EXPECT(0, PICK(&table, getProperties)(dev, into[version]));
            CHECK(dlclose(table.library) == 0, "%s", dlerror());
        }
        CHECK(v12.name && v12.name[0] && v12.port == 1 && v12.maxRecvs == 1, "v12");
        CHECK((v12.ptrSupport & ~(OFI_NCCL_PTR_CUDA | OFI_NCCL_PTR_DMABUF)) == OFI_NCCL_PTR_HOST, "v12: memory");
        CHECK((v12.ptrSupport != OFI_NCCL_PTR_HOST) == has_device_memory(), "v12: device memory");
        CHECK(v12.maxComms == 262144, "v12: comms");
        CHECK(v12.speed >= 0 && v12.latency >= 0 && v12.forceFlush == 0, "v12: speed, latency");
        CHECK(v12.netDeviceType == OFI_NCCL_DEVICE_HOST && v12.netDeviceVersion == 0, "v12: device");
        CHECK(v12.vProps.ndevs == 1 && v12.vProps.devs[0] == dev && v12.vProps.devs[7] == 0, "vProps");
        CHECK(v12.maxP2pBytes > 1 << 20 && v12.maxP2pBytes <= 2147483647, "maxP2pBytes");
        CHECK(v12.maxCollBytes == v12.maxP2pBytes && v12.maxMultiRequestSize == 1, "v12: sizes");
        CHECK(v12.railId == -1 && v12.planeId == -1, "v12: rail and plane");
        struct {
            const char *name, *pciPath;
            uint64_t guid;
            int ptrSupport, speed, port, maxComms, maxRecvs;
            float latency;
        } seen[7] = {
#define SEEN(p) {p.name, p.pciPath, p.guid, p.ptrSupport, p.speed, p.port, p.maxComms, p.maxRecvs, p.latency}
            SEEN(v6), SEEN(v7), SEEN(v8), SEEN(v9), SEEN(v10), SEEN(v11), SEEN(v12)};
        for (int i = 0; i < 6; i++)
            CHECK(seen[i].name == seen[6].name && seen[i].pciPath == seen[6].pciPath &&
                      seen[i].guid == seen[6].guid && seen[i].ptrSupport == seen[6].ptrSupport &&
                      seen[i].speed == seen[6].speed && seen[i].port == seen[6].port &&
                      seen[i].maxComms == seen[6].maxComms && seen[i].maxRecvs == 1 &&
                      seen[i].latency == seen[6].latency,
                  "v%d differs from v12", i + 6);
        CHECK(v7.netDeviceType == 0 && v8.netDeviceType == 0 && v9.netDeviceType == 0, "HOST");
        CHECK(v8.regIsGlobal == v12.regIsGlobal && v9.regIsGlobal == v12.regIsGlobal, "global");
        CHECK(v9.forceFlush == 0 && v10.forceFlush == 0 && v11.forceFlush == 0, "forceFlush");
        CHECK(v9.vProps.ndevs == 1 && v9.vProps.devs[0] == dev && v11.vProps.ndevs == 1, "vProps");
        CHECK(v9.maxP2pBytes == v12.maxP2pBytes && v11.maxMultiRequestSize == 1, "sizes");
    }
    finish(&net);
}

/* Life after life in one process: nothing is left of a past one. */
static void check_lives(const char *path, int version, int lives)
{
    int threads = 0, descriptors = 0;
    for (int life = 0; life < lives; life++) {
        struct net net = load(path, version);
        start(&net);
        if (version <= 10)
            EXPECT(2, PICK(&net, init)(logger)); /* a second init */
        if (life % 10 == 0)
            check_health(&net);
        if (version >= 11 && life % 3 == 0) { /* again without loading again */
            EXPECT(0, net_end(&net));
            EXPECT(4, net_end(&net));
            check_uninitialised(&net);
            EXPECT(0, PICK(&net, init)(NULL));
        }
        finish(&net);
        if (life == lives / 2) { /* libfabric itself has settled */
            threads = count_entries("/proc/self/task");
            descriptors = count_entries("/proc/self/fd");
        }
    }
    CHECK(!is_mapped("nccl_net") && !is_mapped("nccl-net"), "still mapped after dlclose");
    CHECK(count_entries("/proc/self/task") <= threads, "threads were left behind");
    CHECK(count_entries("/proc/self/fd") <= descriptors, "descriptors were left behind: %d, then %d",
          descriptors, count_entries("/proc/self/fd"));
}

/* A fork gets errors, and its end changes nothing for its parent (decision 22). */
static void check_fork(const char *path, int version)
{
    struct net net = load(path, version);
    int status;
    start(&net);
    check_health(&net);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        char handle[128] = {0};
        void *comm = NULL;
        int before = warnings;
        CHECK(PICK(&net, listen)(0, handle, &comm) != 0, "a fork may listen");
        CHECK(PICK(&net, devices)(&status) != 0, "a fork may count devices");
        CHECK(version < 11 || net_end(&net) > 0, "a fork may finalize");
        CHECK(PICK(&net, init)(logger) != 0, "a fork may init");
        CHECK(warnings > before && strstr(last_warning, "fork"), "not told why: %s", last_warning);
        exit(0); /* with all handlers, those of libfabric included */
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the fork ended with %#x", status);
    check_health(&net);
    finish(&net);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: nccl_abi PLUGIN");
    watchdog(300);
    check_names(argv[1]);
    for (int version = FIRST_VERSION; version <= LAST_VERSION; version++) {
        struct net net = load(argv[1], version);
        check_uninitialised(&net);
        warnings = 0;
        start(&net);
        CHECK(warnings == 0, "a healthy init warns: %s", last_warning);
        check_nulls(&net);
        check_strangers(&net);
        check_objects(&net);
        check_health(&net);
        finish(&net);
    }
    check_properties(argv[1]);
    check_lives(argv[1], 10, 100);
    check_lives(argv[1], 12, 100);
    for (int version = FIRST_VERSION; version <= LAST_VERSION; version++)
        check_lives(argv[1], version, 4);
    check_fork(argv[1], 10);
    check_fork(argv[1], 11);
    puts("ok");
    return 0;
}
