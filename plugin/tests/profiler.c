/* SPDX-License-Identifier: Apache-2.0
 * The profiler's callback of NCCL v10 and later: an event for each request with a parent, stopped once,
 * whatever becomes of the request.
 *
 * usage: profiler PLUGIN VERSION */
#include "common.h"

enum { EVENTS_MAX = 4096, BYTES = 300000 };

struct event {
    int started, stopped;
    void *parent;
    ofi_nccl_profiler_event_v1_t begin, end;
};

static struct event events[EVENTS_MAX];
static int count;

static ofi_nccl_result_t profile(void **event, int type, void *parent, int64_t plugin, void *description)
{
    ofi_nccl_profiler_event_v1_t *what = description;
    CHECK(plugin == OFI_NCCL_PROFILER_ID_V1 && plugin >> 16 > 2, "plugin id %#llx", (long long)plugin);
    CHECK(what->bytes == sizeof *what && parent != NULL, "a description of %u bytes", what->bytes);
    if (type == OFI_NCCL_PROFILER_START) {
        CHECK(*event == NULL && count < EVENTS_MAX, "a new event is not NULL");
        struct event *new = &events[count++];
        new->started++;
        new->parent = parent;
        new->begin = *what;
        *event = new;
    } else {
        struct event *old = *event;
        CHECK(type == OFI_NCCL_PROFILER_UPDATE_AND_STOP, "type %d", type);
        CHECK(old >= events && old < events + count && old->parent == parent, "an unknown event");
        old->stopped++;
        old->end = *what;
    }
    return 0;
}

static void check_all(int from, unsigned state)
{
    for (int i = from; i < count; i++) {
        struct event *e = &events[i];
        CHECK(e->started == 1 && e->stopped == 1, "event %d: %d starts, %d stops", i, e->started,
              e->stopped);
        CHECK(e->begin.state == OFI_NCCL_PROFILER_STATE_STARTED && e->end.state == state,
              "event %d went from state %u to %u, not %u", i, e->begin.state, e->end.state, state);
        CHECK(e->begin.comm == e->end.comm && e->begin.direction == e->end.direction, "event %d", i);
    }
}

struct link {
    void *listener, *sender, *receiver, *mr[2];
    unsigned char *data[2];
};

static struct link connected(struct net *net)
{
    struct link link = {0};
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    double end = now() + 30;
    EXPECT(0, PICK(net, listen)(0, handle, &link.listener));
    while (!link.sender || !link.receiver) {
        if (!link.sender)
            EXPECT(0, PICK(net, connect)(0, handle, &link.sender));
        if (!link.receiver)
            EXPECT(0, PICK(net, accept)(link.listener, &link.receiver));
        CHECK(now() < end, "no connection to itself");
    }
    for (int i = 0; i < 2; i++) {
        link.data[i] = calloc(1, BYTES);
        EXPECT(0, PICK(net, regMr)(i ? link.receiver : link.sender, link.data[i], BYTES,
                                   OFI_NCCL_PTR_HOST, &link.mr[i]));
    }
    return link;
}

static void closed(struct net *net, struct link *link)
{
    if (link->sender)
        EXPECT(0, PICK(net, closeSend)(link->sender));
    if (link->receiver)
        EXPECT(0, PICK(net, closeRecv)(link->receiver));
    EXPECT(0, PICK(net, closeListen)(link->listener));
}

static void post(struct net *net, struct link *link, int is_send, int bytes, void *parent, void **request)
{
    double end = now() + 30;
    *request = NULL;
    net->parent = parent;
    while (!*request) {
        EXPECT(0, is_send ? net_isend(net, link->sender, link->data[0], bytes, link->mr[0], request)
                          : net_irecv(net, link->receiver, link->data[1], BYTES, link->mr[1], request));
        CHECK(now() < end, "no request");
    }
}

/* A message that moved bytes went over rails that there are; a long one over several of them, and both
 * sides say the same. */
static void check_rails(const struct event *send, const struct event *recv)
{
    const char *forced = getenv("OFI_NCCL_FORCE_NUM_RAILS");
    int rails = forced ? atoi(forced) : 1, bytes = (int)send->end.size;
    CHECK(send->begin.rails == 0 && recv->begin.rails == 0, "rails before anything went");
    CHECK(send->end.rails >> rails == 0 && recv->end.rails >> rails == 0, "%d rails, and %#x, %#x",
          rails, send->end.rails, recv->end.rails);
    if (bytes > 0)
        CHECK(send->end.rails == recv->end.rails && send->end.rails != 0,
              "%d bytes were sent over %#x and came over %#x", bytes, send->end.rails, recv->end.rails);
    if (bytes == BYTES && rails > 1)
        CHECK(__builtin_popcount(send->end.rails) > 1, "%d bytes over %#x", bytes, send->end.rails);
}

/* Messages of many sizes: an event for each with a parent, with what it moved; none for the others. */
static void done_events(struct net *net)
{
    static const int sizes[] = {0, 1, 5000, 70000, BYTES};
    struct link link = connected(net);
    int parents[2];
    for (int i = 0; i < 50; i++) {
        int bytes = sizes[i % 5], before = count, with_parent = i % 3 != 0, moved = -1;
        void *send, *recv;
        post(net, &link, 0, BYTES, with_parent ? &parents[0] : NULL, &recv);
        post(net, &link, 1, bytes, with_parent ? &parents[1] : NULL, &send);
        EXPECT(0, net_wait(net, recv, &moved, 30));
        EXPECT(0, net_wait(net, send, NULL, 30));
        CHECK(count == before + (with_parent ? 2 : 0), "%d events", count - before);
        if (!with_parent)
            continue;
        struct event *r = &events[before], *s = &events[before + 1];
        CHECK(r->begin.direction == OFI_NCCL_PROFILER_RECV && r->parent == &parents[0], "recv");
        CHECK(s->begin.direction == OFI_NCCL_PROFILER_SEND && s->parent == &parents[1], "send");
        CHECK(r->begin.size == BYTES && s->begin.size == (uint64_t)bytes, "sizes posted");
        CHECK(r->end.size == (uint64_t)moved && s->end.size == (uint64_t)bytes, "sizes moved");
        CHECK(r->end.comm == (uint64_t)(uintptr_t)link.receiver, "whose");
        check_rails(s, r);
    }
    check_all(0, OFI_NCCL_PROFILER_STATE_DONE);
    closed(net, &link);
}

/* Nothing stays open when a communicator goes with requests in flight, or the plugin does. */
static void open_events(const char *path, int version)
{
    struct net net = load(path, version);
    int parent, before;
    void *request;
    net.profiler = profile;
    start(&net);
    struct link link = connected(&net);
    before = count;
    for (int i = 0; i < 5; i++)
        post(&net, &link, 0, BYTES, &parent, &request);
    CHECK(count == before + 5, "%d events", count - before);
    EXPECT(0, PICK(&net, closeRecv)(link.receiver));
    check_all(before, OFI_NCCL_PROFILER_STATE_CLOSED);
    link.receiver = NULL;
    closed(&net, &link);

    link = connected(&net);
    before = count;
    post(&net, &link, 0, BYTES, &parent, &request);
    finish(&net);
    CHECK(count == before + 1, "%d events", count - before);
    check_all(before, OFI_NCCL_PROFILER_STATE_CLOSED);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: profiler PLUGIN VERSION");
    watchdog(120);
    struct net net = load(argv[1], atoi(argv[2]));
    net.profiler = profile;
    start(&net);
    done_events(&net);
    finish(&net);
    open_events(argv[1], atoi(argv[2]));

    /* Without a callback a parent is nothing. */
    struct net quiet = load(argv[1], atoi(argv[2]));
    int before = count;
    start(&quiet);
    quiet.parent = &quiet;
    check_health(&quiet);
    finish(&quiet);
    CHECK(count == before, "an event without a callback");
    puts("ok");
    return 0;
}
