/* SPDX-License-Identifier: Apache-2.0
 * What the test programs of both families share: checks, a logger that looks at what it is given,
 * deadlines instead of sleeps, data that tells where it belongs, a second process to talk to. */
#ifndef OFI_TEST_BASE_H
#define OFI_TEST_BASE_H

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

#include "../include/ofi_net_common.h"

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
        /* docs/errors.md has every one of them. */
        CHECK(strncmp(text, "NET/OFI OFI-E", 13) == 0 || strncmp(text, "NET/OFI OFI-W", 13) == 0,
              "a warning without a code: %s", text);
        /* No line is a part of another: one cure. */
        const char *cure = strstr(text, "; do: ");
        CHECK(cure && !strstr(cure + 1, "; do: "), "not one cure: %s", text);
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

/* Set by the parent that wants this process dead at a moment when it is in no call. */
static volatile sig_atomic_t asked_to_die;

static inline void die_outside_calls(int signal)
{
    (void)signal;
    asked_to_die = 1;
}

/* Between two calls of a loop that polls. */
static inline void between_calls(void)
{
    if (asked_to_die)
        raise(SIGKILL);
    sched_yield();
}

/* A checker of leaks wants it mapped, with the statics that hold what lives as long as the process. */
static inline void unload(void *library)
{
    if (!getenv("OFI_TEST_STAYS_LOADED"))
        CHECK(dlclose(library) == 0, "%s", dlerror());
}

/* Nothing here may hang: whatever is left after so long ends with a message by the kernel. */
static void watchdog(unsigned seconds)
{
    alarm(seconds);
}

/* Bytes that depend on where they are and in which message. */
static inline void fill(unsigned char *data, size_t size, unsigned message)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 131 + (i >> 8) * 17 + message * 29 + 1);
}

/* The first byte that is not as filled, or the size. */
static inline size_t first_wrong(const unsigned char *data, size_t size, unsigned message)
{
    size_t i = 0;
    while (i < size && data[i] == (unsigned char)(i * 131 + (i >> 8) * 17 + message * 29 + 1))
        i++;
    return i;
}

static inline void verify(const unsigned char *data, size_t size, unsigned message)
{
    size_t i = first_wrong(data, size, message);
    CHECK(i == size, "message %u, byte %zu is %u", message, i, data[i]);
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
        signal(SIGUSR1, die_outside_calls);
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

/* Kills it wherever it is; but between two of its calls on shm of libfabric 1.x, which holds spin locks
 * in shared memory: with one of them left behind, no call of the survivor would ever return. */
static inline void kill_peer(struct peer peer)
{
    int status = 0;
    int locks = strstr(chosen_provider, "provider shm") && strstr(chosen_provider, "libfabric 1.");
    if (locks)
        puts("skipped: a peer killed in the middle of a call; killed between two (shm of libfabric 1.x)");
    kill(peer.pid, locks ? SIGUSR1 : SIGKILL);
    CHECK(waitpid(peer.pid, &status, 0) == peer.pid, "waitpid: %s", strerror(errno));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the peer ended with %#x", status);
    close(peer.socket);
}

#endif
