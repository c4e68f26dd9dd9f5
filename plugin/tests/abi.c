/* SPDX-License-Identifier: Apache-2.0
 * Loads the plugin as a collectives library does and misuses it in every way that an ABI allows:
 * symbols and sizes, NULLs, calls out of order, stale words, a hundred lives, a fork.
 *
 * usage: abi PLUGIN */
#include "common.h"
#include "object.h"

static void check_tables(const char *path)
{
    struct net net = load(path, 6);
    check_symbol("ncclNetPlugin_v4", net.v4, 128, "AWS Libfabric", 0);
    check_symbol("ncclNetPlugin_v5", net.v5, 168, "AWS Libfabric", 0);
    check_symbol("ncclNetPlugin_v6", net.v6, 176, "AWS Libfabric", 0);
    /* Loaders have been seen to write the name: it must not be in read-only memory. */
    *(const char *volatile *)&net.v6->name = net.v6->name;
    CHECK(dlclose(net.library) == 0, "%s", dlerror());
}

/* Every call with arguments that would do if the plugin were initialised: `closed` is what close
 * gives, all others give 4. */
static void check_uninitialised(struct net *net)
{
    char handle[128] = {0}, byte = 0;
    void *comm = NULL, *request = NULL, *word = (void *)0x4000000000000001, *data = &byte;
    int count, done, size = 1, tag = 0;
    uint64_t key;
    ofi_neuron_properties_v4_t v4;
    ofi_neuron_properties_v5_t v5;
    EXPECT(4, net->v6->devices(&count));
    EXPECT(4, net->v6->getProperties(0, &v5));
    EXPECT(4, net->v4->getProperties(0, &v4));
    EXPECT(4, net->v6->listen(0, handle, &comm));
    EXPECT(4, net->v4->listen(0, handle, &comm));
    EXPECT(4, net->v6->connect(0, handle, &comm));
    EXPECT(4, net->v6->accept(word, &comm));
    EXPECT(2, net->v4->accept(word, &comm)); /* any failure becomes 2 */
    EXPECT(4, net->v6->regMr(word, data, 1, OFI_NCCL_PTR_HOST, &comm));
    EXPECT(4, net->v6->regMrDmaBuf(word, data, 1, OFI_NCCL_PTR_HOST, 0, -1, &comm));
    EXPECT(4, net->v6->deregMr(word, word));
    EXPECT(4, net->v6->isend(word, data, 1, 0, word, &request));
    EXPECT(4, net->v4->isend(word, data, 1, word, &request));
    EXPECT(4, net->v6->irecv(word, 1, &data, &size, &tag, &word, &request));
    EXPECT(4, net->v6->iflush(word, 1, &data, &size, &word, &request));
    EXPECT(4, net->v6->test(word, &done, &size));
    EXPECT(4, net->v6->closeSend(word));
    EXPECT(4, net->v6->closeRecv(word));
    EXPECT(4, net->v6->closeListen(word));
    EXPECT(4, net->v6->getMrKey(word, &key));
    EXPECT(4, net->v6->iwrite(word, data, 1, word, 0, 0, &request));
    EXPECT(4, net->v6->iwriteInline(word, data, 1, 0, 0, &request));
    EXPECT(4, net->v6->iread(word, data, 1, word, 0, 0, &request));
    EXPECT(2, net->v6->fini());
}

static void check_nulls(struct net *net)
{
    char handle[128] = {0};
    void *comm = NULL, *word = (void *)0x4000000000000001, *data = handle, *request = NULL;
    int size = 1, tag = 0, done;
    uint64_t key;
    EXPECT(4, net->v6->devices(NULL));
    CHECK(net->v6->getProperties(0, NULL) != 0 && net->v4->getProperties(0, NULL) != 0, "props");
    EXPECT(4, net->v6->listen(0, NULL, &comm));
    EXPECT(3, net->v6->listen(0, handle, NULL));
    EXPECT(4, net->v6->connect(0, NULL, &comm));
    EXPECT(3, net->v6->connect(0, handle, NULL));
    EXPECT(4, net->v4->connect(0, NULL, &comm));
    EXPECT(3, net->v6->accept(NULL, &comm));
    EXPECT(3, net->v6->accept(word, NULL));
    EXPECT(3, net->v6->regMr(NULL, data, 1, OFI_NCCL_PTR_HOST, &comm));
    EXPECT(3, net->v6->regMr(word, data, 1, OFI_NCCL_PTR_HOST, NULL));
    EXPECT(3, net->v6->deregMr(NULL, NULL));
    EXPECT(3, net->v6->isend(NULL, data, 1, 0, word, &request));
    EXPECT(3, net->v6->isend(word, data, 1, 0, word, NULL));
    EXPECT(4, net->v6->irecv(NULL, 1, &data, &size, &tag, &word, &request));
    EXPECT(4, net->v6->irecv(word, 1, NULL, &size, &tag, &word, &request));
    EXPECT(4, net->v6->irecv(word, 1, &data, NULL, &tag, &word, &request));
    EXPECT(4, net->v6->irecv(word, 1, &data, &size, NULL, &word, &request));
    EXPECT(4, net->v6->irecv(word, 1, &data, &size, &tag, NULL, &request));
    EXPECT(4, net->v6->irecv(word, 1, &data, &size, &tag, &word, NULL));
    for (int n = -1; n <= 9; n++)
        if (n != 1) {
            EXPECT(4, net->v6->irecv(word, n, &data, &size, &tag, &word, &request));
            EXPECT(3, net->v6->iflush(word, n, &data, &size, &word, &request));
        }
    EXPECT(3, net->v6->iflush(NULL, 1, &data, &size, &word, &request));
    EXPECT(3, net->v6->iflush(word, 1, &data, &size, &word, NULL));
    EXPECT(3, net->v6->test(NULL, &done, &size));
    EXPECT(3, net->v6->test(word, NULL, &size));
    EXPECT(3, net->v6->closeSend(NULL));
    EXPECT(3, net->v6->closeRecv(NULL));
    EXPECT(3, net->v6->closeListen(NULL));
    EXPECT(3, net->v6->getMrKey(NULL, &key));
    EXPECT(3, net->v6->getMrKey(word, NULL));
    EXPECT(3, net->v6->iwrite(NULL, data, 1, word, 0, 0, &request));
    EXPECT(3, net->v6->iread(word, data, 1, word, 0, 0, NULL));
}

/* Words that no call gave, and devices that are not there. */
static void check_strangers(struct net *net)
{
    char handle[128] = {0};
    void *comm, *request, *mr, *data = handle;
    int devices, size = 1, tag = 0, done = 1;
    ofi_neuron_properties_v5_t props;
    EXPECT(0, net->v6->devices(&devices));
    const int strange[] = {-1, devices, 1 << 30, -2147483647 - 1};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        EXPECT(3, net->v6->getProperties(strange[i], &props));
        EXPECT(3, net->v6->listen(strange[i], handle, &comm));
        EXPECT(3, net->v6->connect(strange[i], handle, &comm));
        EXPECT(3, net->v4->connect(strange[i], handle, (comm = NULL, &comm)));
    }
    const uintptr_t words[] = {1,          0x4000000000000000, 0x4000000000000001, 0x8000000000000007,
                               UINTPTR_MAX, 0xc0000000000000ff, (uintptr_t)handle};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        void *word = (void *)words[i];
        EXPECT(3, net->v6->accept(word, &comm));
        EXPECT(3, net->v6->regMr(word, data, 1, OFI_NCCL_PTR_HOST, &mr));
        CHECK(mr == NULL, "a handle after a failure");
        CHECK(net->v6->deregMr(word, word) == 3, "deregMr");
        EXPECT(3, net->v6->isend(word, data, 1, 0, word, &request));
        EXPECT(3, net->v6->irecv(word, 1, &data, &size, &tag, &word, &request));
        EXPECT(3, net->v6->iflush(word, 1, &data, &size, &word, &request));
        EXPECT(3, net->v6->test(word, &done, NULL));
        CHECK(done == 0, "done after a failure");
        EXPECT(3, net->v6->closeSend(word));
        EXPECT(3, net->v6->closeRecv(word));
        EXPECT(3, net->v6->closeListen(word));
        EXPECT(3, net->v6->getMrKey(word, (uint64_t[1]){0}));
        EXPECT(3, net->v6->iwrite(word, data, 1, word, 0, 0, &request));
        EXPECT(3, net->v6->iwriteInline(word, data, 1, 0, 0, &request));
        EXPECT(3, net->v6->iread(word, data, 1, word, 0, 0, &request));
    }
}

/* v4 reads *comm: one that is there is success for connect, and 2 for accept. */
static void check_v4_inputs(struct net *net)
{
    char handle[OFI_NEURON_HANDLE_BYTES_V4], before[OFI_NEURON_HANDLE_BYTES_V4];
    void *listener, *given = (void *)0x77, *comm = given;
    EXPECT(0, net->v4->listen(0, handle, &listener));
    memcpy(before, handle, sizeof handle);
    EXPECT(0, net->v4->connect(0, handle, &comm));
    CHECK(comm == given && !memcmp(before, handle, sizeof handle), "connect did something");
    EXPECT(2, net->v4->accept(listener, &comm));
    CHECK(comm == given, "accept did something");
    EXPECT(0, net->v4->closeListen(listener));
}

static void check_properties(struct net *net)
{
    int devices;
    EXPECT(0, net->v6->devices(&devices));
    uint64_t guid_before = 0;
    for (int dev = 0; dev < devices; dev++) {
        ofi_neuron_properties_v5_t v5, again;
        ofi_neuron_properties_v4_t v4;
        memset(&v5, 0xAA, sizeof v5);
        memset(&again, 0xAA, sizeof again);
        EXPECT(0, net->v6->getProperties(dev, &v5));
        EXPECT(0, net->v5->getProperties(dev, &again));
        EXPECT(0, net->v4->getProperties(dev, &v4));
        CHECK(v5.name && v5.name[0] && v5.name == again.name && v5.name == v4.name, "names");
        CHECK(v5.guid == again.guid && v5.guid == v4.guid && v5.guid != guid_before, "guids");
        CHECK((v5.ptrSupport & ~OFI_NEURON_PTR_NEURON) == OFI_NCCL_PTR_HOST, "ptrSupport");
        CHECK(v5.ptrSupport == v4.ptrSupport && v5.maxComms == v4.maxComms, "v4 differs");
        CHECK(v5.speed >= 0 && v5.latency >= 0 && v5.port == 1, "speed, latency, port");
        CHECK(v5.maxComms == 262144 && v5.maxRecvs == 1 && v5.rmaSupported == 1, "limits");
        CHECK(v5.regIsGlobal == 1 && v5.maxMrKeySize <= 8, "registration");
        guid_before = v5.guid;
    }
}

/* One communicator pair, and what may be done with it and what not. */
static void check_objects(struct net *net)
{
    char handle[128] = {0};
    static char data[8192];
    void *listener, *sender = NULL, *receiver = NULL, *mr, *other, *request;
    uint64_t key;
    int done, big[1] = {-1}, tag = 0;
    ofi_neuron_properties_v5_t props;
    EXPECT(0, net->v6->listen(0, handle, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, net->v6->connect(0, handle, &sender));
        if (!receiver)
            EXPECT(0, net->v6->accept(listener, &receiver));
    }
    CHECK(net->v6->accept(listener, &other) != 0 && !other, "a listener gave two communicators");
    EXPECT(3, net->v6->regMr(listener, data, 64, OFI_NCCL_PTR_HOST, &mr));
    EXPECT(3, net->v6->regMr(sender, data, 64, 2, &mr));
    CHECK(net->v6->regMrDmaBuf(sender, data, 64, OFI_NCCL_PTR_HOST, 0, 0, &mr) != 0, "a dma-buf");
    EXPECT(0, net->v6->regMrDmaBuf(sender, data, sizeof data, OFI_NCCL_PTR_HOST, 0, -1, &mr));
    EXPECT(0, net->v6->getMrKey(mr, &key));
    EXPECT(0, net->v6->deregMr(sender, NULL));
    /* Wrong side, wrong kind, wrong size, outside the registration. */
    EXPECT(3, net->v6->isend(receiver, data, 64, 0, mr, &request));
    EXPECT(3, net_irecv(net, sender, data, 64, mr, &request));
    EXPECT(3, net->v6->isend(listener, data, 64, 0, mr, &request));
    EXPECT(3, net->v6->isend(sender, data, 64, 0, sender, &request));
    EXPECT(3, net->v6->isend(sender, data, -1, 0, mr, &request));
    EXPECT(3, net->v6->irecv(receiver, 1, (void *[]){data}, big, &tag, &mr, &request));
    /* A registration reaches to the ends of its pages. */
    CHECK(net->v6->isend(sender, data, 8192 + 4096, 0, mr, &request) != 0, "beyond its end");
    CHECK(net->v6->isend(sender, data - 4096, 8192, 0, mr, &request) != 0, "before its start");
    CHECK(net->v6->isend(sender, data, 64, 0, NULL, &request) != 0, "without a registration");
    /* One-sided: the wrong side, no registration, outside of it, longer than may go inline. */
    EXPECT(3, net->v6->iwrite(receiver, data, 8, mr, (uintptr_t)data, key, &request));
    EXPECT(3, net->v6->iwriteInline(receiver, data, 8, (uintptr_t)data, key, &request));
    EXPECT(3, net->v6->iread(sender, data, 8, mr, (uintptr_t)data, key, &request));
    EXPECT(3, net->v6->iwrite(sender, data, 8, NULL, (uintptr_t)data, key, &request));
    EXPECT(3, net->v6->iwriteInline(sender, NULL, 8, (uintptr_t)data, key, &request));
    CHECK(net->v6->iread(receiver, data, 1 << 20, mr, (uintptr_t)data, key, &request) != 0, "beyond");
    EXPECT(0, net->v6->getProperties(0, &props));
    EXPECT(5, net->v6->iwriteInline(sender, data, props.maxWriteInlineSize + 1, (uintptr_t)data, key,
                                    &request));
    CHECK(request == NULL, "a request after a failure");
    EXPECT(3, net->v6->closeRecv(sender));
    EXPECT(3, net->v6->closeListen(receiver));
    /* None of that did any harm; and words are stale after their objects. */
    EXPECT(0, net_irecv(net, receiver, data, 64, mr, &request));
    CHECK(request != NULL, "no request");
    EXPECT(0, net->v6->closeRecv(receiver));
    EXPECT(0, net->v6->deregMr(sender, mr));
    EXPECT(3, net->v6->test(request, &done, NULL));
    EXPECT(3, net->v6->closeRecv(receiver));
    EXPECT(3, net->v6->deregMr(sender, mr));
    EXPECT(3, net->v6->getMrKey(mr, &key));
    EXPECT(0, net->v6->closeSend(sender));
    EXPECT(3, net->v6->closeSend(sender));
    EXPECT(0, net->v6->closeListen(listener));
}

/* Life after life in one process: nothing is left of a past one. */
static void check_lives(const char *path, int version, int lives)
{
    int threads = 0, descriptors = 0;
    for (int life = 0; life < lives; life++) {
        struct net net = load(path, version);
        start(&net);
        EXPECT(2, PICK(&net, init)(logger)); /* a second init */
        if (life % 10 == 0)
            check_health(&net);
        if (version == 6 && life % 3 == 0) { /* init again without loading again */
            EXPECT(0, net.v6->fini());
            EXPECT(2, net.v6->fini());
            check_uninitialised(&net);
            EXPECT(0, net.v6->init(NULL));
        }
        finish(&net);
        if (life == 10) { /* libfabric itself has settled */
            threads = count_entries("/proc/self/task");
            descriptors = count_entries("/proc/self/fd");
        }
    }
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
        CHECK(PICK(&net, init)(logger) != 0, "a fork may init");
        CHECK(version != 6 || net.v6->fini() != 0, "a fork may fini");
        CHECK(warnings > before && strstr(last_warning, "fork"), "not told why: %s", last_warning);
        exit(0); /* with all handlers, those of libfabric included */
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the fork ended with %#x", status);
    check_health(&net);
    finish(&net);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: abi PLUGIN");
    watchdog(120);
    check_tables(argv[1]);

    struct net net = load(argv[1], 6);
    check_uninitialised(&net);
    start(&net);
    CHECK(warnings == 0, "a healthy init warns: %s", last_warning);
    check_nulls(&net);
    check_strangers(&net);
    check_v4_inputs(&net);
    check_properties(&net);
    check_objects(&net);
    check_health(&net);
    finish(&net);
    CHECK(!is_mapped("nccom"), "still mapped after dlclose");

    check_lives(argv[1], 6, 100);
    check_lives(argv[1], 5, 20);
    check_lives(argv[1], 4, 20);
    check_fork(argv[1], 6);
    check_fork(argv[1], 5);
    puts("ok");
    return 0;
}
