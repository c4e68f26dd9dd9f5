/* SPDX-License-Identifier: Apache-2.0
 * Contexts of NCCL v11 and v12: threads with a context each share one transport, which goes with the
 * last of them.
 *
 * usage: contexts PLUGIN VERSION */
#include "common.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 10 };

static const char *plugin;
static int version;
static void *contexts[THREADS];
static pthread_barrier_t together;

static void *live(void *argument)
{
    int me = (int)(intptr_t)argument, count;
    struct net net = load(plugin, version);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&together);
        EXPECT(0, PICK(&net, init)(logger));
        contexts[me] = net.ctx;
        pthread_barrier_wait(&together);
        for (int other = 0; other < THREADS; other++)
            CHECK(net.ctx && (other == me || contexts[other] != net.ctx), "one context for two");
        check_health(&net);
        /* Ends while others are in the middle of something. */
        if ((round + me) % THREADS == 0)
            check_health(&net);
        EXPECT(0, net_end(&net));
        EXPECT(4, net_end(&net));
        pthread_barrier_wait(&together);
        EXPECT(4, PICK(&net, devices)(&count));
    }
    CHECK(dlclose(net.library) == 0, "%s", dlerror());
    return NULL;
}

/* Exactly one warning, with the code, what is wrong by name and what to do. */
static void told(const char *call, const char *what)
{
    const char *parts[] = {"OFI-E0320", call, what, "; likely: finalize took it before", "; do: "};
    CHECK(warnings == 1, "%s: %d warnings, the last: %s", call, warnings, last_warning);
    for (int i = 0; i < 5; i++)
        CHECK(strstr(last_warning, parts[i]), "%s: no \"%s\" in: %s", call, parts[i], last_warning);
    warnings = 0;
}

/* In one thread: who is first and last does not matter. */
static void in_turn(void)
{
    struct net net[THREADS];
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *comm, *gone;
    int count;
    for (int i = 0; i < THREADS; i++) {
        net[i] = load(plugin, version);
        net[i].traffic_class = i - 1;
        EXPECT(0, PICK(&net[i], init)(logger));
    }
    /* Another table finds it initialised. */
    struct net older = load(plugin, 10);
    EXPECT(2, PICK(&older, init)(logger));
    CHECK(dlclose(older.library) == 0, "%s", dlerror());
    gone = net[0].ctx;
    char word[40];
    snprintf(word, sizeof word, "context 0x%zx", (size_t)gone);
    EXPECT(0, net_end(&net[0]));
    warnings = 0;
    EXPECT(4, net[0].v11->finalize(gone));
    told("finalize: ", word);
    EXPECT(4, net[0].v11->listen(gone, 0, handle, &comm));
    told("listen: ", word);
    EXPECT(4, net[0].v11->connect(gone, 0, handle, &comm, NULL));
    told("connect: ", word);
    check_health(&net[1]);
    EXPECT(0, net_end(&net[2]));
    check_health(&net[1]);
    EXPECT(0, net_end(&net[1]));
    EXPECT(4, PICK(&net[1], devices)(&count));
    EXPECT(4, net[1].v11->finalize(NULL));
    EXPECT(4, net[1].v11->init(NULL, 1, NULL, logger, NULL));
    EXPECT(4, PICK(&net[1], devices)(&count)); /* that was none */
    EXPECT(0, net[1].v11->init(&net[1].ctx, 1, NULL, NULL, NULL)); /* no configuration: no class */
    EXPECT(0, net_end(&net[1]));
    for (int i = 0; i < THREADS; i++)
        CHECK(dlclose(net[i].library) == 0, "%s", dlerror());
}

/* A plugin that v10 initialised is not v11's to share. */
static void beside_v10(void)
{
    struct net old = load(plugin, 10), net = load(plugin, version);
    EXPECT(0, PICK(&old, init)(logger));
    net.ctx = &net;
    EXPECT(2, PICK(&net, init)(logger));
    CHECK(net.ctx == NULL, "a context after a failure");
    check_health(&old);
    CHECK(dlclose(net.library) == 0 && dlclose(old.library) == 0, "%s", dlerror());
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    CHECK(argc == 3, "usage: contexts PLUGIN VERSION");
    watchdog(120);
    plugin = argv[1];
    version = atoi(argv[2]);
    in_turn();
    beside_v10();
    pthread_barrier_init(&together, NULL, THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, live, (void *)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("ok");
    return 0;
}
