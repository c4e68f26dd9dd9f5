/* SPDX-License-Identifier: Apache-2.0
 * Several threads, each with connections of its own on one device, and messages of all kinds on them: what
 * the thread sanitizer looks at. Every byte is checked.
 *
 * usage: threads PLUGIN [ROUNDS] */
#include "common.h"
#include <pthread.h>

enum { THREADS = 4 };

static struct net net;
static int rounds = 10;

static void *live(void *unused)
{
    for (int i = 0; i < rounds; i++)
        check_health(&net);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    CHECK(argc >= 2, "usage: threads PLUGIN [ROUNDS]");
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    watchdog(500);
    net = load(argv[1], 6);
    start(&net);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, live, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    finish(&net);
    puts("ok");
    return 0;
}
