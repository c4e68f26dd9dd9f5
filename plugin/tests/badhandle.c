/* SPDX-License-Identifier: Apache-2.0
 * Connection handles that no listen wrote, and a listening port that garbage is thrown at: an error
 * within the connect deadline, never a crash or a hang, and the process works on.
 *
 * usage: OFI_NCCL_CONNECT_TIMEOUT=2 badhandle PLUGIN */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/time.h>

enum { RANDOM = 24, SPECIAL = 9, HANDLES = RANDOM + SPECIAL };

static unsigned long long seed = 88172645463325252ull;

static unsigned char random_byte(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned char)(seed >> 32);
}

static void put_u32(char *handle, size_t at, uint32_t value)
{
    memcpy(handle + at, &value, sizeof value);
}

/* `real` is a handle of a listener that is closed by now. */
static void damage(char *handle, int kind, const char *real)
{
    struct sockaddr_in closed_port = {.sin_family = AF_INET, .sin_port = htons(1)};
    closed_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(handle, 0, OFI_NCCL_HANDLE_BYTES);
    switch (kind) {
    case 0: /* zeroed */
        return;
    case 1: /* all ones */
        memset(handle, 0xFF, OFI_NCCL_HANDLE_BYTES);
        return;
    case 2: /* a sockaddr, as another plugin has it */
        memcpy(handle, &closed_port, sizeof closed_port);
        return;
    case 3: /* truncated after 8 bytes */
        memcpy(handle, real, 8);
        return;
    case 4: /* truncated after 60: the listener's id is cut off */
        memcpy(handle, real, 58);
        return;
    case 5: /* an id out of range */
        memcpy(handle, real, 64);
        put_u32(handle, 56, 1u << 20);
        return;
    case 6: /* the id of nobody */
        memcpy(handle, real, 64);
        put_u32(handle, 56, 0x3FFFE);
        return;
    case 7: /* state that no connect wrote */
        memcpy(handle, real, 64);
        memset(handle + 64, 0x5A, 24);
        return;
    case 8: /* a listener that is closed */
        memcpy(handle, real, 64);
        return;
    default:
        for (int i = 0; i < OFI_NCCL_HANDLE_BYTES; i++)
            handle[i] = (char)random_byte();
        if (kind % 2) /* every other with state that passes for fresh, so that the name is looked at */
            memset(handle + 64, 0, 24);
        if (kind % 4 == 3) /* and some with a plausible family, at addresses of nobody */
            memcpy(handle, &closed_port, 4);
        return;
    }
}

/* What is wrong at once is said at once: exactly one warning for each failure. */
static void failures_say_why(struct net *net)
{
    for (int kind = 0; kind < 2; kind++) {
        char handle[OFI_NCCL_HANDLE_BYTES];
        void *comm = NULL;
        int before = warnings;
        damage(handle, kind, NULL);
        CHECK(PICK(net, connect)(0, handle, &comm) != 0, "handle %d connects", kind);
        CHECK(warnings == before + 1, "%d warnings for handle %d", warnings - before, kind);
        CHECK(strstr(last_warning, "OFI-E") && strstr(last_warning, "do: "), "%s", last_warning);
    }
}

/* All at once, so that the deadlines run side by side. */
static void connect_to_nobody(struct net *net, const char *real, double bound)
{
    static char handles[HANDLES][OFI_NCCL_HANDLE_BYTES];
    int failed[HANDLES] = {0}, left = HANDLES;
    double begin = now();
    for (int i = 0; i < HANDLES; i++)
        damage(handles[i], i, real);
    while (left > 0) {
        for (int i = 0; i < HANDLES; i++) {
            void *comm = NULL;
            if (failed[i])
                continue;
            int result = PICK(net, connect)(0, handles[i], &comm);
            CHECK(comm == NULL, "handle %d connects", i);
            CHECK(result == 0 || result == 2 || result == 3 || result == 6, "result %d", result);
            failed[i] = result != 0;
            left -= failed[i];
        }
        CHECK(now() - begin < bound, "%d handles neither connect nor fail", left);
    }
    /* A handle whose connection failed stays an error, and a call to it no crash. */
    for (int i = 0; i < HANDLES; i++) {
        void *comm = NULL;
        int result = PICK(net, connect)(0, handles[i], &comm);
        CHECK(comm == NULL && result >= 0 && result <= 6, "handle %d, again: %d", i, result);
    }
}

/* v4 gives a communicator at once; its first call that could tell fails within the deadline. */
static void connect_v4_to_nobody(struct net *net, const char *real, double bound)
{
    static char handles[SPECIAL][OFI_NCCL_HANDLE_BYTES], data[64];
    void *comms[SPECIAL] = {0}, *mrs[SPECIAL];
    int results[SPECIAL], left = 0;
    double end = now() + bound;
    for (int i = 0; i < SPECIAL; i++) {
        damage(handles[i], i, real);
        results[i] = net->v4->connect(0, handles[i], &comms[i]);
        CHECK((results[i] == 0) == (comms[i] != NULL), "handle %d of v4: %d", i, results[i]);
        if (comms[i]) {
            left++;
            EXPECT(0, net->v4->regMr(comms[i], data, sizeof data, OFI_NCCL_PTR_HOST, &mrs[i]));
        }
    }
    while (left > 0) {
        for (int i = 0; i < SPECIAL; i++) {
            void *request = NULL;
            if (results[i] != 0)
                continue;
            results[i] = net->v4->isend(comms[i], data, sizeof data, mrs[i], &request);
            CHECK(request == NULL, "a request to nobody");
            left -= results[i] != 0;
        }
        CHECK(now() < end, "%d handles of v4 neither connect nor fail", left);
        sched_yield();
    }
    for (int i = 0; i < SPECIAL; i++) {
        CHECK(results[i] == 2 || results[i] == 3 || results[i] == 6, "v4: %d", results[i]);
        if (comms[i]) {
            EXPECT(0, net->v4->deregMr(comms[i], mrs[i]));
            EXPECT(0, net->v4->closeSend(comms[i]));
        }
    }
}

static void throw_garbage(struct net *net, const char *name)
{
    struct sockaddr_in address;
    static char junk[65536];
    const char *const texts[] = {"", "x", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    memcpy(&address, name, sizeof address);
    if (address.sin_family != AF_INET || address.sin_port == 0) {
        puts("skipped: garbage at the port (the provider's addresses are no IP addresses)");
        return;
    }
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)random_byte();
    int sockets[24];
    for (int i = 0; i < 24; i++) {
        struct timeval second = {.tv_sec = 1};
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(sockets[i], SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
        if (connect(sockets[i], (struct sockaddr *)&address, sizeof address) != 0)
            continue; /* the provider turned it away: as good as dropping it */
        if (i % 4 < 3)
            (void)!send(sockets[i], texts[i % 4], strlen(texts[i % 4]), MSG_NOSIGNAL | MSG_DONTWAIT);
        else
            (void)!send(sockets[i], junk, sizeof junk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i % 3 == 0)
            close(sockets[i]), sockets[i] = -1;
    }
    check_health(net); /* with the others still open */
    for (int i = 0; i < 24; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    check_health(net);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && getenv("OFI_NCCL_CONNECT_TIMEOUT"), "usage: badhandle PLUGIN, timeout set");
    double bound = 8 + 2 * atof(getenv("OFI_NCCL_CONNECT_TIMEOUT"));
    watchdog(100);
    struct net net = load(argv[1], 6);
    char real[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *comm;
    start(&net);

    memset(real, 0xA5, sizeof real);
    EXPECT(0, net.v6->listen(0, real, &listener));
    for (int i = 64; i < 88; i++)
        CHECK(real[i] == 0, "state byte %d of a fresh handle is not 0", i);
    for (int i = 88; i < OFI_NCCL_HANDLE_BYTES; i++)
        CHECK((unsigned char)real[i] == 0xA5, "listen wrote byte %d", i);
    throw_garbage(&net, real);
    EXPECT(0, net.v6->accept(listener, &comm));
    CHECK(comm == NULL, "garbage was accepted");
    EXPECT(0, net.v6->closeListen(listener));

    failures_say_why(&net);
    connect_to_nobody(&net, real, bound);
    check_health(&net);
    connect_v4_to_nobody(&net, real, bound);
    check_health(&net);
    finish(&net);
    puts("ok");
    return 0;
}
