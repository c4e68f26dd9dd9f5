/* SPDX-License-Identifier: Apache-2.0
 * A ring of ranks, each a process, that passes messages around; one of them hangs in one way. The others
 * wait, and go on calling, until there is a file "enough" beside their state dumps: who looks at the dumps
 * finds out whom they wait for.
 *
 * usage: OFI_NCCL_DUMP_DIR=DIR OFI_NCCL_STALL_WARN=1 hang PLUGIN WORLD RANK KIND */
#include "common.h"
#include <sys/mman.h>

enum { RANKS_MAX = 64, SIZE = 65536, AT = 3 };

/* What all ranks see: made before they are. */
struct board {
    char handle[RANKS_MAX][OFI_NCCL_HANDLE_BYTES];
    volatile int listens[RANKS_MAX];
};

static struct board *board;
static const char *plugin, *kind;
static int world, culprit, rank;
static void *spare;

/* Keeps calling, as a rank does that waits for something else; until it is killed. */
static void idle(struct net *net)
{
    void *comm;
    for (;;) {
        PICK(net, accept)(spare, &comm);
        between_calls();
    }
}

static void outside(void)
{
    for (;;)
        usleep(10000);
}

static int hangs(const char *how)
{
    return rank == culprit && strcmp(kind, how) == 0;
}

static void *sender, *receiver;

/* To the next rank, from the one before. */
static void connect_ring(struct net *net, void *listener)
{
    int next = (rank + 1) % world, calls = 0;
    while (!sender || !receiver) {
        if (!sender && !hangs("connect") && !(hangs("answer") && calls > 0)) {
            EXPECT(0, PICK(net, connect)(0, board->handle[next], &sender));
            calls++;
        }
        if (!receiver && !hangs("accept"))
            EXPECT(0, PICK(net, accept)(listener, &receiver));
        if (rank == culprit) {
            void *comm;
            EXPECT(0, PICK(net, accept)(spare, &comm));
        }
        between_calls();
    }
}

/* An error ends the work, and no call. */
static void must(struct net *net, int result)
{
    if (result != 0)
        idle(net);
}

static void complete(struct net *net, void **request)
{
    while (*request) {
        int done = 0;
        must(net, PICK(net, test)(*request, &done, NULL));
        if (done)
            *request = NULL;
        between_calls();
    }
}

static void message(struct net *net, int n, unsigned char *data, void **mr)
{
    void *in = NULL, *out = NULL;
    if (n == AT && hangs("outside"))
        outside();
    if (n == AT && hangs("stop"))
        raise(SIGSTOP);
    if (n == AT && hangs("kill"))
        raise(SIGKILL);
    /* Sends before it receives, and waits for that: with all of them it is a circle. */
    if (n == AT && strcmp(kind, "circle") == 0) {
        while (!out)
            must(net, net_isend(net, sender, data, SIZE, mr[0], &out));
        complete(net, &out);
    }
    while (!in && !(n == AT && hangs("receive")))
        must(net, net_irecv(net, receiver, data + SIZE, SIZE, mr[1], &in));
    while (!out && !(n == AT && hangs("send")))
        must(net, net_isend(net, sender, data, SIZE, mr[0], &out));
    if (n == AT && hangs("test"))
        outside();
    complete(net, &in);
    complete(net, &out);
    if (n == AT && rank == culprit && (!strcmp(kind, "receive") || !strcmp(kind, "send")))
        idle(net);
}

static void run(void)
{
    struct net net = load(plugin, 6);
    static unsigned char data[2 * SIZE];
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *mr[2];
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, handle, &spare));
    EXPECT(0, PICK(&net, listen)(0, board->handle[rank], &listener));
    board->listens[rank] = 1;
    for (int other = 0; other < world; other++)
        while (!board->listens[other])
            usleep(1000);
    connect_ring(&net, listener);
    EXPECT(0, PICK(&net, regMr)(sender, data, SIZE, OFI_NCCL_PTR_HOST, &mr[0]));
    EXPECT(0, PICK(&net, regMr)(receiver, data + SIZE, SIZE, OFI_NCCL_PTR_HOST, &mr[1]));
    for (int n = 0; n <= AT || strcmp(kind, "close") != 0; n++)
        message(&net, n, data, mr);
    PICK(&net, closeSend)(sender);
    if (!hangs("close"))
        PICK(&net, closeRecv)(receiver);
    idle(&net);
}

int main(int argc, char **argv)
{
    char enough[4096];
    pid_t ranks[RANKS_MAX];
    CHECK(argc == 5 && getenv("OFI_NCCL_DUMP_DIR"), "usage: hang PLUGIN WORLD RANK KIND");
    plugin = argv[1], world = atoi(argv[2]), culprit = atoi(argv[3]), kind = argv[4];
    CHECK(world > 1 && world <= RANKS_MAX && culprit >= 0 && culprit < world, "no such rank");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED, "mmap: %s", strerror(errno));
    for (rank = 0; rank < world; rank++) {
        ranks[rank] = fork();
        CHECK(ranks[rank] >= 0, "fork: %s", strerror(errno));
        if (ranks[rank] == 0) {
            char text[16];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            watchdog(120);
            snprintf(text, sizeof text, "%d", rank);
            setenv("RANK", text, 1);
            setenv("EFA_EMU_NAME", text, 1);
            snprintf(text, sizeof text, "%d", world);
            setenv("WORLD_SIZE", text, 1);
            run();
        }
    }
    snprintf(enough, sizeof enough, "%s/enough", getenv("OFI_NCCL_DUMP_DIR"));
    for (double end = now() + 100; access(enough, F_OK) != 0;) {
        CHECK(now() < end, "nobody looks at the dumps");
        usleep(20000);
    }
    for (int i = 0; i < world; i++) {
        kill(ranks[i], SIGKILL);
        waitpid(ranks[i], NULL, 0);
    }
    puts("ok");
    return 0;
}
