/* SPDX-License-Identifier: Apache-2.0
 * A race on purpose, across the border: two threads connect with one handle, whose bytes the plugin writes.
 * A thread sanitizer that sees across it ends this program; "nobody saw it" means that a green run of the
 * others proves nothing.
 *
 * usage: race PLUGIN */
#include "common.h"
#include <pthread.h>

static struct net net;
static char handle[OFI_NCCL_HANDLE_BYTES];

static void *connect_for_ever(void *comm)
{
    for (int i = 0; i < 20000; i++)
        if (PICK(&net, connect)(0, handle, comm) != 0)
            break;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *listener, *comms[2] = {0};
    CHECK(argc == 2, "usage: race PLUGIN");
    net = load(argv[1], 6);
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    CHECK(pthread_create(&thread, NULL, connect_for_ever, &comms[0]) == 0, "pthread_create");
    connect_for_ever(&comms[1]);
    pthread_join(thread, NULL);
    puts("nobody saw it");
    return 0;
}
