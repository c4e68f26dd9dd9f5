/* SPDX-License-Identifier: Apache-2.0
 * Each call that fails says so by exactly one warning, which has its code and the cause by name, and does no
 * harm: arguments, objects that are gone, memory that is none, a fork.
 *
 * keys: with the 256 keys of OFI_NCCL_MR_KEY_SIZE=1, on a provider that lets us choose them, they run out.
 * refused: the provider takes no region of two MiB; taken: it says that it has the key.
 * endpoint: the provider takes no region at all, also none of the plugin's own.
 *
 * usage: told PLUGIN VERSION devices | regions | keys | refused | taken | endpoint */
#include "common.h"

static char memory[4 << 20] __attribute__((aligned(4096)));

/* What the calls below are about. */
static struct net *net;
static void *listener, *sender, *receiver, *gone;
static char handle[OFI_NCCL_HANDLE_BYTES], properties[256];
static int devices;

static int get(int device, void *into)
{
#ifdef OFI_TEST_NCCL
    return PICK(net, getProperties)(device, into);
#else
    return net->version == 4   ? net->v4->getProperties(device, into)
           : net->version == 5 ? net->v5->getProperties(device, into)
                               : net->v6->getProperties(device, into);
#endif
}

static int get_into_nothing(void)
{
    return get(0, NULL);
}

static int get_of_none(void)
{
    return get(devices, properties);
}

static int get_of_a_negative(void)
{
    return get(-1, properties);
}

static int get_of_the_first(void)
{
    return get(0, properties);
}

static int count_into_nothing(void)
{
    return PICK(net, devices)(NULL);
}

static int count(void)
{
    return PICK(net, devices)(&devices);
}

static int listen_on(int device)
{
    void *comm = NULL;
    return PICK(net, listen)(device, handle, &comm);
}

static int listen_on_none(void)
{
    return listen_on(devices);
}

static int listen_on_the_first(void)
{
    return listen_on(0);
}

static int listen_without_a_handle(void)
{
    void *comm = NULL;
    return PICK(net, listen)(0, NULL, &comm);
}

static int listen_into_nothing(void)
{
    return PICK(net, listen)(0, handle, NULL);
}

static int connect_on_none(void)
{
    void *comm = NULL;
    return PICK(net, connect)(devices, handle, &comm);
}

static int connect_without_a_handle(void)
{
    void *comm = NULL;
    return PICK(net, connect)(0, NULL, &comm);
}

static int connect_to_rubbish(void)
{
    char rubbish[OFI_NCCL_HANDLE_BYTES];
    void *comm = NULL;
    memset(rubbish, 0xA5, sizeof rubbish);
    return PICK(net, connect)(0, rubbish, &comm);
}

static int accept_of_nobody(void)
{
    void *comm = NULL;
    return PICK(net, accept)(gone, &comm);
}

static int reg(void *comm, void *address, int bytes, int type)
{
    void *mr;
    return PICK(net, regMr)(comm, address, bytes, type, &mr);
}

static int reg_for_nobody(void)
{
    return reg(NULL, memory, 4096, OFI_NCCL_PTR_HOST);
}

static int reg_for_one_that_is_gone(void)
{
    return reg(gone, memory, 4096, OFI_NCCL_PTR_HOST);
}

static int reg_for_a_listener(void)
{
    return reg(listener, memory, 4096, OFI_NCCL_PTR_HOST);
}

static int reg_of_no_bytes(void)
{
    return reg(sender, memory, 0, OFI_NCCL_PTR_HOST);
}

static int reg_of_no_memory(void)
{
    return reg(sender, NULL, 4096, OFI_NCCL_PTR_HOST);
}

static int reg_of_the_last_bytes(void)
{
    return reg(sender, (void *)(UINTPTR_MAX - 100), 4096, OFI_NCCL_PTR_HOST);
}

static int reg_of_an_unknown_type(void)
{
    return reg(sender, memory, 4096, 0x40);
}

static int reg_into_nothing(void)
{
    return PICK(net, regMr)(sender, memory, 4096, OFI_NCCL_PTR_HOST, NULL);
}

static int reg_of_two_mib(void)
{
    return reg(sender, memory, 2 << 20, OFI_NCCL_PTR_HOST);
}

static int dereg_of_none(void)
{
    return PICK(net, deregMr)(sender, (void *)0x4000000000000001);
}

static int init_again(void)
{
    return PICK(net, init)(logger);
}

struct row {
    const char *name;
    int (*call)(void);
    const char *code, *word;
};

/* No code more than four times: what comes more often is thinned out. */
static const struct row devices_and_handles[] = {
    {"getProperties into nothing", get_into_nothing, "OFI-E0301", "NULL"},
    {"getProperties of a device too many", get_of_none, "OFI-E0302", "and there "},
    {"getProperties of device -1", get_of_a_negative, "OFI-E0302", "device -1"},
    {"listen on a device too many", listen_on_none, "OFI-E0302", "and there "},
    {"listen without a handle", listen_without_a_handle, "OFI-E0301", "handle"},
    {"listen into nothing", listen_into_nothing, "OFI-E0301", "NULL"},
    {"connect on a device too many", connect_on_none, "OFI-E0302", "and there "},
    {"connect without a handle", connect_without_a_handle, "OFI-E0301", "handle"},
    {"connect to rubbish", connect_to_rubbish, "OFI-E040", "connect: "},
    {"accept of a listener that is gone", accept_of_nobody, "OFI-E0303", "accept: "},
    {NULL, NULL, NULL, NULL},
};

static const struct row regions[] = {
    {"devices into nothing", count_into_nothing, "OFI-E0301", "NULL"},
    {"regMr for nobody", reg_for_nobody, "OFI-E0301", "comm"},
    {"regMr into nothing", reg_into_nothing, "OFI-E0301", "NULL"},
    {"regMr for a communicator that is gone", reg_for_one_that_is_gone, "OFI-E0303", "regMr: "},
    {"regMr for a listener", reg_for_a_listener, "OFI-E0306", "send or receive communicator"},
    {"regMr of no bytes", reg_of_no_bytes, "OFI-E0501", "0 bytes"},
    {"regMr of no memory", reg_of_no_memory, "OFI-E0501", "nothing to register"},
    {"regMr of the last bytes", reg_of_the_last_bytes, "OFI-E0501", "the end of the address space"},
    {"regMr of an unknown type", reg_of_an_unknown_type, "OFI-E0312", "0x40"},
    {"deregMr of none", dereg_of_none, "OFI-E0305", "deregMr: "},
    {NULL, NULL, NULL, NULL},
};

/* In the child of a fork. */
static const struct row forked[] = {
    {"getProperties", get_of_the_first, "OFI-E0109", "fork"},
    {"listen", listen_on_the_first, "OFI-E0109", "fork"},
    {"regMr", reg_of_two_mib, "OFI-E0109", "fork"},
    /* The last: with contexts a failed init gives none. */
    {"init", init_again, "OFI-E0109", "initialised"},
    {NULL, NULL, NULL, NULL},
};

static void told(const struct row *row)
{
    warnings = 0;
    int result = row->call();
    CHECK(result != 0, "%s succeeded", row->name);
    CHECK(warnings == 1, "%s: %d warnings, the last: %s", row->name, warnings, last_warning);
    const char *parts[] = {row->code, row->word, "; likely: ", "; do: "};
    for (int i = 0; i < 4; i++)
        CHECK(strstr(last_warning, parts[i]), "%s: no \"%s\" in: %s", row->name, parts[i], last_warning);
    warnings = 0;
}

static void all_told(const struct row *row)
{
    for (; row->name; row++)
        told(row);
}

static void connect_to_ourselves(void)
{
    char pristine[OFI_NCCL_HANDLE_BYTES] = {0};
    double end = now() + 30;
    EXPECT(0, PICK(net, listen)(0, pristine, &gone));
    EXPECT(0, PICK(net, closeListen)(gone));
    EXPECT(0, PICK(net, listen)(0, pristine, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, PICK(net, connect)(0, pristine, &sender));
        if (!receiver)
            EXPECT(0, PICK(net, accept)(listener, &receiver));
        CHECK(now() < end, "no connection to itself");
    }
}

/* Tables with contexts may be initialised several times. */
static void twice(void)
{
    const struct row row = {"a second init", init_again, "OFI-E0107", "init while initialised"};
#ifdef OFI_TEST_NCCL
    if (net->version > 10)
        return;
#endif
    told(&row);
}

static void in_a_fork(void)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        all_told(forked);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the fork ended with %#x", status);
}

/* A region each, until there are no more keys: then one warning a try, and a key that is given back is used. */
static void out_of_keys(void)
{
    static void *made_of[300];
    const struct row row = {"regMr without a key", reg_of_two_mib, "OFI-E0503", "OFI_NCCL_MR_KEY_SIZE"};
    int made = 0;
    while (made < 300 && PICK(net, regMr)(sender, memory + made * 4096, 4096, OFI_NCCL_PTR_HOST, &made_of[made]) == 0)
        made++;
    CHECK(made > 100 && made <= 256, "%d regions with keys of one byte", made);
    CHECK(warnings == 1, "%d warnings, the last: %s", warnings, last_warning);
    told(&row);
    EXPECT(0, PICK(net, deregMr)(sender, made_of[--made]));
    EXPECT(0, PICK(net, regMr)(sender, memory, 1 << 20, OFI_NCCL_PTR_HOST, &made_of[made++]));
    while (made > 0)
        EXPECT(0, PICK(net, deregMr)(sender, made_of[--made]));
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: told PLUGIN VERSION HOW");
    watchdog(120);
    struct net table = load(argv[1], atoi(argv[2]));
    net = &table;
    start(net);
    EXPECT(0, count());
    if (strcmp(argv[3], "endpoint") == 0) {
        /* Whatever the number: ncclInternalError of listen. */
        const struct row row = {"listen", listen_on_the_first, "OFI-E0501", "FI_ENOMEM (12)"};
        told(&row);
        EXPECT(3, listen_on_the_first());
        finish(net);
        puts("ok");
        return 0;
    }
    connect_to_ourselves();
    CHECK(warnings == 0, "a warning: %s", last_warning);
    if (strcmp(argv[3], "keys") == 0) {
        out_of_keys();
    } else if (strcmp(argv[3], "refused") == 0 || strcmp(argv[3], "taken") == 0) {
        /* A number of the system's, and one that only libfabric has. */
        const char *number = strcmp(argv[3], "taken") == 0 ? "FI_ENOKEY (266)" : "FI_ENOMEM (12)";
        const struct row row = {"regMr of two MiB", reg_of_two_mib, "OFI-E0501", number};
        told(&row);
        told(&row);
        /* Of the system or the provider: ncclSystemError. */
        EXPECT(2, reg_of_two_mib());
        warnings = 0;
    } else {
        all_told(strcmp(argv[3], "regions") == 0 ? regions : devices_and_handles);
        twice();
        in_a_fork();
    }
    if (strcmp(argv[3], "keys") != 0)
        check_health(net);
    EXPECT(0, PICK(net, closeSend)(sender));
    EXPECT(0, PICK(net, closeRecv)(receiver));
    EXPECT(0, PICK(net, closeListen)(listener));
    CHECK(warnings == 0, "a warning: %s", last_warning);
    finish(net);
    puts("ok");
    return 0;
}
