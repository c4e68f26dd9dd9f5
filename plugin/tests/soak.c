/* SPDX-License-Identifier: Apache-2.0
 * A long life: sessions with a peer, one after the other, each with connections of its own and messages of
 * random sizes both ways; the peer is killed now and then in the middle of one, and another one started. At
 * the end a verdict: whether memory, allocated bytes and descriptors grew, by least squares over what was
 * seen after it had settled, and after the first quarter of the rest.
 *
 * usage: OFI_NCCL_CONNECT_TIMEOUT=8 OFI_NCCL_STALL_FAIL=4 soak PLUGIN SECONDS SECONDS_BETWEEN_KILLS
 *        (itself: soak PLUGIN peer DESCRIPTOR) */
#include "common.h"
#include "object.h"
#include <malloc.h>
#include <math.h>

enum { WINDOW = 8, BIG = 1 << 20, MARK = 2048 };

/* Short sessions at first, until all that goes round has gone round: ids that rest, the provider's rings. */
enum { SETTLING = 3000 };

/* A minute may add so much, and each peer that was killed: its addresses stay in the provider's address
 * vectors, and shm and the emulated EFA keep its shared memory mapped. */
static const double KIB_MAX = 2, KIB_A_KILL = 8, SHARED_KIB_A_KILL = 4096;
static const double HEAP_BYTES_MAX = 1024, HEAP_BYTES_A_KILL = 8192;

/* Numbers that follow from a session, so that both sides draw the same ones. */
static unsigned long draw(unsigned long *state)
{
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return *state >> 33;
}

static size_t draw_size(unsigned long *state)
{
    static const size_t most[] = {64, 8192, 131072, BIG};
    return draw(state) % (most[draw(state) % 4] + 1);
}

/* One direction of a session. */
struct way {
    void *comm, *mr;
    int is_send, result;
    unsigned long sizes;
    unsigned posted, done;
    void *request[WINDOW];
    size_t size[WINDOW];
    unsigned char (*data)[BIG];
};

/* Marks at both ends of a message: filling a whole MiB would take longer than moving it. */
static void mark(unsigned char *data, size_t size, unsigned message)
{
    fill(data, size < MARK ? size : MARK, message);
    if (size > 2 * MARK)
        fill(data + size - MARK, MARK, message + 1);
}

static void check_marks(const unsigned char *data, size_t size, unsigned message)
{
    verify(data, size < MARK ? size : MARK, message);
    if (size > 2 * MARK)
        verify(data + size - MARK, MARK, message + 1);
}

/* Starts the next message if there is room; whether it did. */
static int post(struct net *net, struct way *way)
{
    unsigned slot = way->posted % WINDOW;
    unsigned long sizes = way->sizes;
    if (way->result || way->posted - way->done == WINDOW)
        return 0;
    size_t size = draw_size(&sizes);
    if (way->is_send)
        mark(way->data[slot], size, way->posted);
    else
        memset(way->data[slot], 0, size < MARK ? size : MARK);
    way->result = way->is_send
                      ? net_isend(net, way->comm, way->data[slot], (int)size, way->mr, &way->request[slot])
                      : net_irecv(net, way->comm, way->data[slot], BIG, way->mr, &way->request[slot]);
    if (way->result || !way->request[slot])
        return 0;
    way->sizes = sizes;
    way->size[slot] = size;
    way->posted++;
    return 1;
}

static void check_received(struct net *net, struct way *way, unsigned slot, int size)
{
    void *flush = NULL;
    CHECK((size_t)size == way->size[slot], "message %u has %d bytes, not %zu", way->done, size,
          way->size[slot]);
    if (size > 0 && way->done % 16 == 0) {
        way->result = net_iflush(net, way->comm, way->data[slot], size, way->mr, &flush);
        if (!way->result && flush)
            way->result = net_wait(net, flush, NULL, 30);
    }
    if (!way->result)
        check_marks(way->data[slot], way->size[slot], way->done);
}

/* Tests the oldest request; whether it is done. */
static int reap(struct net *net, struct way *way)
{
    unsigned slot = way->done % WINDOW;
    int done = 0, size = -1;
    if (way->done == way->posted)
        return 0;
    int result = PICK(net, test)(way->request[slot], &done, &size);
    if (result && !way->result)
        way->result = result;
    if (!result && !done)
        return 0;
    if (!result && !way->is_send)
        check_received(net, way, slot, size);
    way->done++;
    return 1;
}

/* A connection each way; 0, or what a call gave. */
static int connect_both(struct net *net, int socket, struct way ways[2])
{
    char mine[OFI_NCCL_HANDLE_BYTES] = {0}, theirs[OFI_NCCL_HANDLE_BYTES];
    void *listener;
    int result = 0;
    double end = now() + 30;
    EXPECT(0, PICK(net, listen)(0, mine, &listener));
    put(socket, mine, sizeof mine);
    take(socket, theirs, sizeof theirs);
    while (!result && (!ways[0].comm || !ways[1].comm)) {
        if (!ways[0].comm)
            result = PICK(net, connect)(0, theirs, &ways[0].comm);
        if (!result && !ways[1].comm)
            result = PICK(net, accept)(listener, &ways[1].comm);
        CHECK(now() < end, "connecting neither succeeded nor failed");
        between_calls();
    }
    EXPECT(0, PICK(net, closeListen)(listener));
    return result;
}

struct totals {
    unsigned long sessions, messages, kills;
    double longest; /* from a kill to the last error, in seconds */
};

/* Both ways to their end, or to the error of both after the peer was killed at message `kill_at`. */
static void exchange(struct net *net, struct way ways[2], unsigned messages, struct peer *victim,
                     struct totals *totals)
{
    double end = now() + 60, killed = 0;
    unsigned kill_at = messages / 2;
    for (;;) {
        int left = 0;
        for (struct way *way = ways; way < ways + 2; way++) {
            if (victim && way->done >= kill_at && !killed) {
                kill_peer(*victim);
                killed = now();
            }
            if (killed || way->posted < messages)
                post(net, way);
            reap(net, way);
            left += killed ? !way->result || way->done < way->posted : way->done < messages;
            CHECK(killed || !way->result, "message %u: result %d: %s", way->done, way->result,
                  last_warning);
            CHECK(now() < end, "%s: %u of %u messages, then neither progress nor error",
                  way->is_send ? "sending" : "receiving", way->done, messages);
        }
        if (left == 0)
            break;
        between_calls();
    }
    if (killed && now() - killed > totals->longest)
        totals->longest = now() - killed;
    totals->kills += killed > 0;
}

static unsigned char data[2][WINDOW][BIG];

/* Connects, exchanges messages, closes. */
static void session(struct net *net, int socket, unsigned long number, int first, struct peer *victim,
                    struct totals *totals)
{
    unsigned long chance = number * 2654435761UL + 1;
    unsigned messages = number <= SETTLING ? 4 : 20 + (unsigned)(draw(&chance) % 400);
    struct way ways[2] = {{.is_send = 1, .data = data[0], .sizes = number * 2 + (unsigned)first},
                          {.is_send = 0, .data = data[1], .sizes = number * 2 + (unsigned)!first}};
    EXPECT(0, connect_both(net, socket, ways));
    for (int i = 0; i < 2; i++)
        EXPECT(0, PICK(net, regMr)(ways[i].comm, ways[i].data, sizeof data[i], OFI_NCCL_PTR_HOST, &ways[i].mr));
    exchange(net, ways, messages, victim, totals);
    for (int i = 0; i < 2; i++)
        EXPECT(0, PICK(net, deregMr)(ways[i].comm, ways[i].mr));
    EXPECT(0, PICK(net, closeSend)(ways[0].comm));
    EXPECT(0, PICK(net, closeRecv)(ways[1].comm));
    totals->sessions++;
    totals->messages += ways[0].done + ways[1].done;
}

static int run_peer(struct net *net, int socket)
{
    struct totals totals = {0};
    unsigned long number;
    signal(SIGUSR1, die_outside_calls);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    start(net);
    for (;;) {
        take(socket, &number, sizeof number);
        if (number == 0)
            break;
        session(net, socket, number, 1, NULL, &totals);
    }
    finish(net);
    return 0;
}

/* This program again, as the peer: libfabric is loaded here already. */
static struct peer start_peer(char *const argv[])
{
    int ends[2];
    char descriptor[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
    snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
    struct peer peer = {.pid = vfork(), .socket = ends[0]};
    CHECK(peer.pid >= 0, "fork: %s", strerror(errno));
    if (peer.pid == 0) {
        close(ends[0]);
        execl(argv[0], argv[0], argv[1], "peer", descriptor, NULL);
        _exit(127);
    }
    close(ends[1]);
    return peer;
}

/* Least squares over the points seen: the slope a minute, and its standard error. */
struct line {
    double n, t, y, tt, ty, yy, first, last;
};

static void see(struct line *line, double t, double y)
{
    line->first = line->n == 0 ? y : line->first;
    line->last = y;
    line->n++;
    line->t += t, line->y += y;
    line->tt += t * t, line->ty += t * y, line->yy += y * y;
}

static double slope(const struct line *l, double *error)
{
    double tt = l->tt - l->t * l->t / l->n, ty = l->ty - l->t * l->y / l->n, yy = l->yy - l->y * l->y / l->n;
    double rise = ty / tt, rest = yy - rise * ty;
    *error = l->n > 2 && rest > 0 ? sqrt(rest / (l->n - 2) / tt) : 0;
    return rise;
}

/* Whether it grows by more than is allowed, which twice the error of the slope does not explain. */
static int judge(const char *what, const struct line *line, double allowed)
{
    double error, rise = slope(line, &error);
    int grows = rise - 2 * error > allowed + 1e-6;
    printf("%s: %.0f at first, %.0f at last; %+.3f +- %.3f a minute, %g allowed%s\n", what, line->first,
           line->last, rise, error, allowed, grows ? ": GROWS" : "");
    return grows;
}

/* Pages of our own, or those shared with files and other processes. */
static double kib(int shared)
{
    long size, resident, with_others;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld %ld", &size, &resident, &with_others) == 3, "statm");
    fclose(file);
    return (double)(shared ? with_others : resident - with_others) * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* After a kill in the middle of a call or transfer, shm of libfabric 1.x needs a new endpoint (killed.c). */
static int needs_new_life(void)
{
    return strstr(chosen_provider, "provider shm") && strstr(chosen_provider, "libfabric 1.");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(argc == 4, "usage: soak PLUGIN SECONDS SECONDS_BETWEEN_KILLS");
    struct net net = load(argv[1], 6);
    if (strcmp(argv[2], "peer") == 0)
        return run_peer(&net, atoi(argv[3]));
    double begin = now(), length = atof(argv[2]), between = atof(argv[3]), next_sample = begin;
    double next_kill = begin + between, settled = 0;
    struct totals totals = {0};
    memset(data, 1, sizeof data); /* resident from now on */
    struct line own = {0}, shared = {0}, heap = {0}, descriptors = {0};
    start(&net);
    printf("%s\n", chosen_provider);
    unsetenv("EFA_EMU_STATS"); /* what killed peers leave open is no leak */
    struct peer peer = start_peer(argv);
    for (unsigned long number = 1; now() - begin < length; number++) {
        int is_last = now() >= next_kill;
        put(peer.socket, &number, sizeof number);
        session(&net, peer.socket, number, 0, is_last ? &peer : NULL, &totals);
        if (is_last) {
            next_kill = now() + between;
            if (needs_new_life()) {
                EXPECT(0, net.v6->fini());
                start(&net);
            }
            peer = start_peer(argv);
        }
        double t = now() - begin;
        if (number == SETTLING) {
            settled = t;
            printf("%.0f s: settled after %lu sessions\n", t, number);
        }
        if (number < SETTLING || t < settled + (length - settled) / 4 || now() < next_sample)
            continue;
        next_sample = now() + 1;
        see(&own, t / 60, kib(0));
        see(&shared, t / 60, kib(1));
        see(&heap, t / 60, (double)mallinfo2().uordblks);
        see(&descriptors, t / 60, count_entries("/proc/self/fd"));
    }
    unsigned long none = 0;
    put(peer.socket, &none, sizeof none);
    join(peer);
    finish(&net);
    printf("%.0f s: %lu sessions, %lu messages, %lu kills, at most %.1f s from a kill to the last error\n",
           now() - begin, totals.sessions, totals.messages, totals.kills, totals.longest);
    CHECK(own.n > 3, "too short: %g points", own.n);
    double kills = (double)totals.kills / ((now() - begin) / 60); /* a minute */
    int bad = judge("KiB of our own", &own, KIB_MAX + KIB_A_KILL * kills);
    bad |= judge("KiB that are shared", &shared, KIB_MAX + SHARED_KIB_A_KILL * kills);
    bad |= judge("allocated bytes", &heap, HEAP_BYTES_MAX + HEAP_BYTES_A_KILL * kills);
    bad |= judge("descriptors", &descriptors, 0.02);
    puts(bad ? "it grows" : "ok");
    return bad;
}
