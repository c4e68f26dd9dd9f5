/* SPDX-License-Identifier: Apache-2.0
 * Calls inside calls, and fini among them: a logger that calls the plugin back, and threads that poll
 * while another one takes the plugin down (protocol 2a.1: Neuron's shutdown race).
 *
 * usage: reentry PLUGIN */
#include "common.h"
#include <pthread.h>

static struct net net;

/* What the logger calls, once for each line that is written to it. */
static enum { NOTHING, DEVICES, INIT, FINI, CLOSE, WRONG_DEVICE } reaction;
static int reactions, inside, result_inside, told_of_nesting;
static char nesting[4096];

__attribute__((format(printf, 5, 6))) static void reacting(int level, unsigned long flags,
                                                           const char *file, int line,
                                                           const char *format, ...)
{
    int count;
    char handle[OFI_NCCL_HANDLE_BYTES];
    void *comm;
    char text[4096];
    va_list arguments;
    (void)flags, (void)file, (void)line;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (level == OFI_NCCL_LOG_WARN && strstr(text, "OFI-E0112")) {
        told_of_nesting++;
        memcpy(nesting, text, sizeof nesting);
    }
    CHECK(inside < 20, "the logger is called from inside itself without end");
    inside++;
    reactions++;
    switch (reaction) {
    case DEVICES: result_inside = net.v6->devices(&count); break;
    case INIT: result_inside = net.v6->init(reacting); break;
    case FINI: result_inside = net.v6->fini(); break;
    case CLOSE: result_inside = net.v6->closeSend((void *)0x55); break;
    case WRONG_DEVICE: result_inside = net.v6->listen(-1, handle, &comm); break;
    case NOTHING: break;
    }
    inside--;
}

/* However often the logger called what it must not, the call that it did so in ends with one warning. */
static void told_once(const char *outer)
{
    int refused = reaction == INIT || reaction == FINI;
    CHECK(told_of_nesting == refused, "%s: told %d times", outer, told_of_nesting);
    const char *parts[] = {reaction == INIT ? ": init: called by the logger" : ": fini: called by the logger", outer,
                           "; likely: the logger", "; do: let the logger only write"};
    for (int i = 0; refused && i < 4; i++)
        CHECK(strstr(nesting, parts[i]), "no \"%s\" in: %s", parts[i], nesting);
    told_of_nesting = 0;
}

static void a_logger_that_calls_back(void)
{
    char handle[OFI_NCCL_HANDLE_BYTES];
    void *comm;
    for (int r = DEVICES; r <= WRONG_DEVICE; r++) {
        reaction = r;
        reactions = 0;
        EXPECT(0, net.v6->init(reacting));
        told_once("from inside init");
        EXPECT(3, net.v6->listen(-1, handle, &comm));
        told_once("from inside listen");
        CHECK(reactions > 0, "nothing was logged");
        /* init and fini are refused inside of a call; the others are ordinary calls. */
        if (r == INIT || r == FINI)
            CHECK(result_inside == 2, "inside a call: %d", result_inside);
        reaction = NOTHING;
        EXPECT(0, net.v6->fini());
    }
}

static int stop;

static void *poll(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        int count = 0, done = 0, size = 0;
        char handle[OFI_NCCL_HANDLE_BYTES] = {0};
        void *listener = NULL;
        net.v6->devices(&count);
        net.v6->test((void *)0x8000000012345678, &done, &size);
        if (net.v6->listen(0, handle, &listener) == 0)
            net.v6->closeListen(listener);
    }
    return NULL;
}

static void fini_among_calls(void)
{
    enum { THREADS = 4, ROUNDS = 5 };
    pthread_t threads[THREADS];
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    EXPECT(0, net.v6->init(logger));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, poll, NULL) == 0, "no thread");
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        int result;
        /* Something runs while it goes. */
        while (now() - begin < 0.05)
            sched_yield();
        begin = now();
        result = net.v6->fini();
        CHECK(result == 0, "fini among calls of others: %d: %s", result, last_warning);
        CHECK(now() - begin < 5, "fini took %g s", now() - begin);
        EXPECT(0, net.v6->init(logger));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(0, net.v6->fini());
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: reentry PLUGIN");
    watchdog(120);
    net = load(argv[1], 6);
    a_logger_that_calls_back();
    fini_among_calls();
    puts("ok");
    return 0;
}
