/* SPDX-License-Identifier: Apache-2.0
 * One cell of the kill matrix: a peer is killed or stopped (SIGKILL, SIGSTOP) at one stage of its life, with
 * so many requests in flight. Every request of the survivor ends within its bound, everything closes, and
 * the survivor connects to another peer.
 *
 * usage: OFI_NCCL_CONNECT_TIMEOUT=8 OFI_NCCL_STALL_FAIL=3 kills PLUGIN STAGE KILL|STOP REQUESTS */
#include "common.h"

enum { BIG = 1 << 20, SMALL = 4096, MAX = 128 };

/* What the peer does until its signal, and what the survivor does. */
enum act { LISTENS, CONNECTS, IDLES, RECEIVES, SENDS, CLOSES };

struct stage {
    const char *name;
    enum act peer;
    int survivor_sends; /* else it receives */
    int size;
    int flushes;
    unsigned before; /* messages of each slot before the signal; 0: the signal comes before or after posting */
    int posts_first;
};

static const struct stage stages[] = {
    {"listening", LISTENS, 1, 0, 0, 0, 0},    {"accepting", LISTENS, 1, 0, 0, 0, 1},
    {"connecting", CONNECTS, 0, 0, 0, 0, 0},  {"idle", IDLES, 1, BIG, 0, 0, 0},
    {"isend", IDLES, 1, BIG, 0, 0, 1},        {"irecv", SENDS, 0, BIG, 0, 0, 1},
    {"eager", RECEIVES, 1, SMALL, 0, 2, 1},   {"sending", RECEIVES, 1, BIG, 0, 2, 1},
    {"receiving", SENDS, 0, BIG, 0, 2, 1},    {"flush", SENDS, 0, 65536, 1, 2, 1},
    {"closing", CLOSES, 1, BIG, 0, 0, 1},
};

struct plan {
    const char *plugin;
    const struct stage *stage;
    int stops;
    unsigned requests;
};

static double bound;
static unsigned char data[BIG];
static volatile sig_atomic_t asked_to_stop;

static void stop_outside_calls(int signal)
{
    (void)signal;
    asked_to_stop = 1;
}

static void turn(void)
{
    if (asked_to_stop)
        raise(SIGSTOP);
    between_calls();
}

/* Receives or sends for ever, `in_flight` at once; "irecv" is a sender that never sends. */
static void keep_going(struct net *net, void *comm, void *mr, int is_send, int size)
{
    void *request[8] = {0};
    for (unsigned n = 0;; n = (n + 1) % 8) {
        int done = 0;
        if (request[n] && PICK(net, test)(request[n], &done, NULL) == 0 && done)
            request[n] = NULL;
        if (!request[n] && is_send)
            EXPECT(0, net_isend(net, comm, data, size, mr, &request[n]));
        else if (!request[n])
            EXPECT(0, net_irecv(net, comm, data, BIG, mr, &request[n]));
        turn();
    }
}

/* Keeps the provider moving, as a rank that waits for something else does. */
static void idle(struct net *net)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *comm;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    for (;;) {
        EXPECT(0, PICK(net, accept)(listener, &comm));
        turn();
    }
}

/* The peer. It never returns. */
static void victim(int socket, void *argument)
{
    const struct plan *plan = argument;
    const struct stage *stage = plan->stage;
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, token = 0;
    void *listener, *comm = NULL, *mr;
    signal(SIGUSR2, stop_outside_calls);
    struct net net = load(plan->plugin, 6);
    start(&net);
    if (stage->survivor_sends) {
        EXPECT(0, PICK(&net, listen)(0, handle, &listener));
        put(socket, handle, sizeof handle);
        if (stage->peer == LISTENS)
            idle(&net);
        EXPECT(0, net_accept(&net, listener, &comm, 60));
    } else {
        take(socket, handle, sizeof handle);
        if (stage->peer == CONNECTS) {
            for (int i = 0; i < 1000; i++)
                EXPECT(0, PICK(&net, connect)(0, handle, &comm));
            put(socket, &token, 1);
            idle(&net);
        }
        EXPECT(0, net_connect(&net, handle, &comm, 60));
    }
    EXPECT(0, PICK(&net, regMr)(comm, data, BIG, OFI_NCCL_PTR_HOST, &mr));
    put(socket, &token, 1);
    if (stage->peer == CLOSES) {
        take(socket, &token, 1);
        EXPECT(0, PICK(&net, deregMr)(comm, mr));
        EXPECT(0, PICK(&net, closeRecv)(comm));
        put(socket, &token, 1);
    } else if (stage->peer != IDLES && stage->before > 0) {
        keep_going(&net, comm, mr, stage->peer == SENDS, stage->size);
    }
    idle(&net);
}

/* Holds locks of shared memory in its calls: shm of libfabric 1.x, which is stopped between two (base.h). */
static int is_locking(void)
{
    return strstr(chosen_provider, "provider shm") && strstr(chosen_provider, "libfabric 1.");
}

static void strike(const struct plan *plan, struct peer peer)
{
    if (!plan->stops)
        return kill_peer(peer);
    kill(peer.pid, is_locking() ? SIGUSR2 : SIGSTOP);
    int status = 0;
    CHECK(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status), "it is not stopped: %#x",
          status);
}

/* The stopped one ends when all is over. */
static void end_stopped(const struct plan *plan, struct peer peer)
{
    int status;
    if (!plan->stops)
        return;
    kill(peer.pid, SIGKILL);
    CHECK(waitpid(peer.pid, &status, 0) == peer.pid, "waitpid");
    close(peer.socket);
}

/* What a request ended with; -1 while it has not. */
static int ended(struct net *net, void *request)
{
    int done = 0, result = PICK(net, test)(request, &done, NULL);
    return result ? result : done ? 0 : -1;
}

struct slot {
    void *request, *flush;
    unsigned done;
};

/* Posts into an empty slot; the result of the call. */
static int post(struct net *net, const struct stage *stage, void *comm, void *mr, struct slot *slot)
{
    return stage->survivor_sends ? net_isend(net, comm, data, stage->size, mr, &slot->request)
                                 : net_irecv(net, comm, data, BIG, mr, &slot->request);
}

/* Follows what a slot waits for; the result, -1 for none yet. */
static int follow(struct net *net, const struct stage *stage, void *comm, void *mr, struct slot *slot)
{
    void **which = slot->flush ? &slot->flush : &slot->request;
    if (!*which)
        return 0;
    int result = ended(net, *which), flushes = which == &slot->request && stage->flushes && result == 0;
    if (result < 0)
        return -1;
    *which = NULL;
    slot->done++;
    return flushes ? net_iflush(net, comm, data, stage->size, mr, &slot->flush) : result;
}

/* Requests in flight, the signal at its moment, then every request to its end. */
static void traffic(struct net *net, const struct plan *plan, void *comm, void *mr, struct peer peer)
{
    static struct slot slots[MAX];
    const struct stage *stage = plan->stage;
    int error = 0, struck = 0;
    double end = now() + 60;
    if (!stage->posts_first)
        strike(plan, peer), struck = 1, end = now() + bound;
    for (;;) {
        unsigned open = 0, ready = 0;
        for (struct slot *slot = slots; slot < slots + plan->requests; slot++) {
            int result = follow(net, stage, comm, mr, slot);
            CHECK(struck || result <= 0, "result %d before anything happened: %s", result, last_warning);
            error = result > 0 ? result : error;
            if (!error && !slot->request && !slot->flush) {
                result = post(net, stage, comm, mr, slot);
                error = result > 0 ? result : error;
            }
            open += slot->request || slot->flush;
            ready += slot->done >= stage->before && (slot->request || slot->flush);
        }
        if (!struck && ready == plan->requests) {
            char token = 0;
            if (stage->peer == CLOSES) {
                put(peer.socket, &token, 1);
                take(peer.socket, &token, 1);
            }
            strike(plan, peer), struck = 1, end = now() + bound;
        }
        if (struck && error && open == 0)
            break;
        CHECK(now() < end, "%s: %u requests are left, error %d", struck ? "after the signal" : "before it",
              open, error);
        sched_yield();
    }
    CHECK(error == 2 || error == 6, "result %d", error);
}

static void *connected(struct net *net, const struct stage *stage, struct peer peer, void **listener)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, token;
    void *comm = NULL;
    if (stage->survivor_sends) {
        take(peer.socket, handle, sizeof handle);
        EXPECT(0, net_connect(net, handle, &comm, 30));
    } else {
        EXPECT(0, PICK(net, listen)(0, handle, listener));
        put(peer.socket, handle, sizeof handle);
        EXPECT(0, net_accept(net, *listener, &comm, 30));
    }
    take(peer.socket, &token, 1);
    return comm;
}

/* The stages before there is a connection. */
static void unconnected(struct net *net, const struct plan *plan, struct peer peer)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, token;
    void *comm = NULL, *listener;
    double end = now() + bound;
    if (plan->stage->survivor_sends) {
        take(peer.socket, handle, sizeof handle);
        for (int i = 0; plan->stage->posts_first && i < 1000; i++)
            EXPECT(0, PICK(net, connect)(0, handle, &comm));
        strike(plan, peer);
        int result = net_connect(net, handle, &comm, bound);
        CHECK(result != 0 && comm == NULL, "connected to who is not there: %d", result);
        return;
    }
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    put(peer.socket, handle, sizeof handle);
    take(peer.socket, &token, 1);
    strike(plan, peer);
    /* Whether accept notices is the provider's affair; it is bounded by its caller. */
    end = now() + 2;
    while (!comm && now() < end && PICK(net, accept)(listener, &comm) == 0)
        sched_yield();
    if (comm)
        EXPECT(0, PICK(net, closeRecv)(comm));
    EXPECT(0, PICK(net, closeListen)(listener));
}

/* Another peer, which was not there before. */
static void newcomer(int socket, void *argument)
{
    const struct plan *plan = argument;
    char handle[OFI_NCCL_HANDLE_BYTES];
    void *comm, *mr, *request = NULL;
    take(socket, handle, sizeof handle);
    struct net net = load(plan->plugin, 6);
    start(&net);
    EXPECT(0, net_connect(&net, handle, &comm, 60));
    EXPECT(0, PICK(&net, regMr)(comm, data, BIG, OFI_NCCL_PTR_HOST, &mr));
    fill(data, BIG, 5);
    while (!request)
        EXPECT(0, net_isend(&net, comm, data, BIG, mr, &request));
    EXPECT(0, net_wait(&net, request, NULL, 60));
    char token = 0;
    take(socket, &token, 1);
    EXPECT(0, PICK(&net, deregMr)(comm, mr));
    EXPECT(0, PICK(&net, closeSend)(comm));
    finish(&net);
}

static void meet(struct net *net, struct peer peer)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0}, token = 0;
    void *listener, *comm, *mr, *request = NULL;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    put(peer.socket, handle, sizeof handle);
    EXPECT(0, net_accept(net, listener, &comm, 60));
    memset(data, 0, sizeof data);
    EXPECT(0, PICK(net, regMr)(comm, data, BIG, OFI_NCCL_PTR_HOST, &mr));
    while (!request)
        EXPECT(0, net_irecv(net, comm, data, BIG, mr, &request));
    EXPECT(0, net_wait(net, request, NULL, 60));
    verify(data, BIG, 5);
    put(peer.socket, &token, 1);
    join(peer);
    EXPECT(0, PICK(net, deregMr)(comm, mr));
    EXPECT(0, PICK(net, closeRecv)(comm));
    EXPECT(0, PICK(net, closeListen)(listener));
}

static struct plan read_plan(int argc, char **argv)
{
    CHECK(argc == 5 && getenv("OFI_NCCL_STALL_FAIL") && getenv("OFI_NCCL_CONNECT_TIMEOUT"),
          "usage: kills PLUGIN STAGE KILL|STOP REQUESTS, deadlines set");
    struct plan plan = {.plugin = argv[1], .stops = strcmp(argv[3], "STOP") == 0};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (strcmp(stages[i].name, argv[2]) == 0)
            plan.stage = &stages[i];
    plan.requests = (unsigned)atoi(argv[4]);
    CHECK(plan.stage && plan.requests > 0 && plan.requests <= MAX, "no such stage, or not 1 to 128 requests");
    return plan;
}

int main(int argc, char **argv)
{
    struct plan plan = read_plan(argc, argv);
    bound = 10 + 2 * atof(getenv("OFI_NCCL_STALL_FAIL")) + atof(getenv("OFI_NCCL_CONNECT_TIMEOUT"));
    watchdog(170);
    struct peer peer = fork_peer(victim, &plan), other = fork_peer(newcomer, &plan);
    struct net net = load(plan.plugin, 6);
    void *listener = NULL, *mr;
    start(&net);
    double begin = now();
    if (plan.stage->peer == LISTENS || plan.stage->peer == CONNECTS) {
        unconnected(&net, &plan, peer);
    } else {
        void *comm = connected(&net, plan.stage, peer, &listener);
        EXPECT(0, PICK(&net, regMr)(comm, data, BIG, OFI_NCCL_PTR_HOST, &mr));
        begin = now();
        traffic(&net, &plan, comm, mr, peer);
        double closing = now();
        EXPECT(0, PICK(&net, deregMr)(comm, mr));
        EXPECT(0, plan.stage->survivor_sends ? PICK(&net, closeSend)(comm) : PICK(&net, closeRecv)(comm));
        if (listener)
            EXPECT(0, PICK(&net, closeListen)(listener));
        CHECK(now() - closing < 10, "closing took %g s", now() - closing);
    }
    double took = now() - begin;
    if (is_locking()) { /* its endpoint completes nothing more: killed.c */
        EXPECT(0, net.v6->fini());
        start(&net);
    }
    meet(&net, other);
    end_stopped(&plan, peer);
    finish(&net);
    printf("%s %s %u: %.1f s\n", argv[2], argv[3], plan.requests, took);
    puts("ok");
    return 0;
}
