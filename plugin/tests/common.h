/* SPDX-License-Identifier: Apache-2.0
 * What the test programs share: loading the plugin as a collectives library does, one interface over
 * the three tables, deadlines instead of sleeps, a second process to talk to. */
#ifndef OFI_TEST_COMMON_H
#define OFI_TEST_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/ofi_neuron_net.h"

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: pid %d: ", __FILE__, __LINE__, (int)getpid());                 \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputs("\n", stderr);                                                                   \
            fflush(stderr);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A call that must give exactly this result. */
#define EXPECT(result, call)                                                                       \
    do {                                                                                           \
        int got_ = (call);                                                                         \
        CHECK(got_ == (result), "%s gave %d, not %d", #call, got_, (result));                      \
    } while (0)

static int warnings, lines;
static char last_warning[4096], chosen_provider[4096];

__attribute__((format(printf, 5, 6))) static void logger(int level, unsigned long flags,
                                                         const char *file, int line,
                                                         const char *format, ...)
{
    char text[4096];
    va_list arguments;
    (void)flags;
    /* Nothing of ours is ever a format: field report LOG-02. */
    CHECK(strcmp(format, "%s") == 0, "the logger was called with format %s", format);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    __atomic_add_fetch(&lines, 1, __ATOMIC_RELAXED);
    if (level == OFI_NCCL_LOG_WARN) {
        __atomic_add_fetch(&warnings, 1, __ATOMIC_RELAXED);
        memcpy(last_warning, text, sizeof text);
    }
    if (strstr(text, "NET/OFI libfabric ") == text)
        memcpy(chosen_provider, text, sizeof text);
    if (getenv("OFI_TEST_VERBOSE"))
        fprintf(stderr, "[%d] %d %s:%d %s\n", (int)getpid(), level, file, line, text);
    CHECK(strchr(text, '\n') == NULL, "a line with a newline: %s", text);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Nothing here may hang: whatever is left after so long ends with a message by the kernel. */
static void watchdog(unsigned seconds)
{
    alarm(seconds);
}

/* One interface over the tables. */
struct net {
    int version;
    void *library;
    ofi_nccl_net_v4_t *v4;
    ofi_nccl_net_v5_t *v5;
    ofi_nccl_net_v6_t *v6;
};

#define PICK(net, member)                                                                          \
    ((net)->version == 4 ? (net)->v4->member                                                       \
                         : (net)->version == 5 ? (net)->v5->member : (net)->v6->member)

static struct net load(const char *path, int version)
{
    struct net net = {.version = version};
    net.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(net.library != NULL, "%s", dlerror());
    net.v4 = dlsym(net.library, "ncclNetPlugin_v4");
    net.v5 = dlsym(net.library, "ncclNetPlugin_v5");
    net.v6 = dlsym(net.library, "ncclNetPlugin_v6");
    CHECK(net.v4 && net.v5 && net.v6, "a table is missing: %s", dlerror());
    return net;
}

static inline void start(struct net *net)
{
    int count = 0, result = PICK(net, init)(logger);
    CHECK(result == 0, "init gave %d: %s", result, last_warning);
    EXPECT(0, PICK(net, devices)(&count));
    CHECK(count > 0, "no devices");
}

static inline void finish(struct net *net)
{
    if (net->version == 6)
        EXPECT(0, net->v6->fini());
    CHECK(dlclose(net->library) == 0, "%s", dlerror());
}

static inline int net_isend(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    if (net->version == 4)
        return net->v4->isend(comm, data, size, mr, req);
    return net->version == 5 ? net->v5->isend(comm, data, size, 7, mr, req)
                             : net->v6->isend(comm, data, size, 7, mr, req);
}

static inline int net_irecv(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    int tag = 7, result, size_before = size;
    void *data_before = data, *mr_before = mr;
    if (net->version == 4)
        return net->v4->irecv(comm, data, size, mr, req);
    result = net->version == 5 ? net->v5->irecv(comm, 1, &data, &size, &tag, &mr, req)
                               : net->v6->irecv(comm, 1, &data, &size, &tag, &mr, req);
    /* The arrays are the caller's: protocol trap 18. */
    CHECK(data == data_before && mr == mr_before && size == size_before && tag == 7,
          "irecv changed its caller's arrays");
    return result;
}

static inline int net_iflush(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    if (net->version == 4)
        return net->v4->iflush(comm, data, size, mr, req);
    return net->version == 5 ? net->v5->iflush(comm, 1, &data, &size, &mr, req)
                             : net->v6->iflush(comm, 1, &data, &size, &mr, req);
}

/* Connects within `bound` seconds; the result of the call that was not "again". */
static inline int net_connect(struct net *net, void *handle, void **comm, double bound)
{
    double end = now() + bound;
    *comm = NULL;
    do {
        int result = PICK(net, connect)(0, handle, comm);
        if (result != 0 || *comm != NULL)
            return result;
        sched_yield();
    } while (now() < end);
    CHECK(0, "connect neither succeeded nor failed within %g s", bound);
}

static inline int net_accept(struct net *net, void *listener, void **comm, double bound)
{
    double end = now() + bound;
    *comm = NULL;
    do {
        int result = PICK(net, accept)(listener, comm);
        if (result != 0 || *comm != NULL)
            return result;
        sched_yield();
    } while (now() < end);
    CHECK(0, "accept neither succeeded nor failed within %g s", bound);
}

/* Waits for a request within `bound` seconds; the result of test, and the size. */
static inline int net_wait(struct net *net, void *request, int *size, double bound)
{
    double end = now() + bound;
    do {
        int done = 0, result = PICK(net, test)(request, &done, size);
        if (result != 0 || done)
            return result;
        sched_yield();
    } while (now() < end);
    CHECK(0, "a request neither completed nor failed within %g s", bound);
}

/* Bytes that depend on where they are and in which message. */
static inline void fill(unsigned char *data, size_t size, unsigned message)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 131 + (i >> 8) * 17 + message * 29 + 1);
}

static inline void verify(const unsigned char *data, size_t size, unsigned message)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char want = (unsigned char)(i * 131 + (i >> 8) * 17 + message * 29 + 1);
        CHECK(data[i] == want, "message %u, byte %zu is %u, not %u", message, i, data[i], want);
    }
}

/* A second process, forked before anything is loaded, and a socket between the two. It dies with us. */
struct peer {
    pid_t pid;
    int socket;
};

static inline struct peer fork_peer(void (*body)(int socket, void *argument), void *argument)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
    fflush(NULL);
    struct peer peer = {.pid = fork(), .socket = ends[0]};
    CHECK(peer.pid >= 0, "fork: %s", strerror(errno));
    if (peer.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        watchdog(100);
        body(ends[1], argument);
        exit(0);
    }
    close(ends[1]);
    return peer;
}

static inline void put(int socket, const void *data, size_t size)
{
    CHECK(write(socket, data, size) == (ssize_t)size, "write to the peer: %s", strerror(errno));
}

static inline void take(int socket, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t n = read(socket, at, size);
        CHECK(n > 0, "the peer is gone");
        at += n;
        size -= (size_t)n;
    }
}

static inline void join(struct peer peer)
{
    int status = 0;
    CHECK(waitpid(peer.pid, &status, 0) == peer.pid, "waitpid: %s", strerror(errno));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the peer ended with status %#x", status);
    close(peer.socket);
}

static inline void kill_peer(struct peer peer)
{
    int status = 0;
    kill(peer.pid, SIGKILL);
    CHECK(waitpid(peer.pid, &status, 0) == peer.pid, "waitpid: %s", strerror(errno));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the peer ended with %#x", status);
    close(peer.socket);
}

/* Sends itself a message through a fresh connection: whether the process still works. */
static inline void check_health(struct net *net)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *sender = NULL, *receiver = NULL, *request[2] = {0}, *mr[2];
    static unsigned char data[2][100000];
    double end = now() + 30;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, PICK(net, connect)(0, handle, &sender));
        if (!receiver)
            EXPECT(0, PICK(net, accept)(listener, &receiver));
        CHECK(now() < end, "no connection to itself");
    }
    EXPECT(0, PICK(net, regMr)(sender, data[0], sizeof data[0], OFI_NCCL_PTR_HOST, &mr[0]));
    EXPECT(0, PICK(net, regMr)(receiver, data[1], sizeof data[1], OFI_NCCL_PTR_HOST, &mr[1]));
    fill(data[0], sizeof data[0], 3);
    memset(data[1], 0, sizeof data[1]);
    while (!request[0] || !request[1]) {
        if (!request[0])
            EXPECT(0, net_isend(net, sender, data[0], sizeof data[0], mr[0], &request[0]));
        if (!request[1])
            EXPECT(0, net_irecv(net, receiver, data[1], sizeof data[1], mr[1], &request[1]));
        CHECK(now() < end, "no request");
    }
    for (int i = 0; i < 2; i++)
        EXPECT(0, net_wait(net, request[i], NULL, 30));
    verify(data[1], sizeof data[1], 3);
    EXPECT(0, PICK(net, deregMr)(sender, mr[0]));
    EXPECT(0, PICK(net, deregMr)(receiver, mr[1]));
    EXPECT(0, PICK(net, closeSend)(sender));
    EXPECT(0, PICK(net, closeRecv)(receiver));
    EXPECT(0, PICK(net, closeListen)(listener));
}

#endif
