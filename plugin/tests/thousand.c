/* SPDX-License-Identifier: Apache-2.0
 * A thousand connections, one after the other, in one process, each with a message: the bytes that are
 * allocated, resident memory, threads and descriptors stay where they were. Before they are counted, as
 * many as it takes until all that goes round has gone round once: the ids that rest (decision 14), and the
 * provider's queues, which are rings of pages that become resident when they are first written.
 *
 * usage: thousand PLUGIN VERSION SETTLED, the number of connections before those that are counted */
#include "common.h"
#include "object.h"
#include <malloc.h>

enum { COUNTED = 1000, SLACK_PAGES = 16 };

/* The buffers of ofi_rxm of libfabric 1.17 have gone round only after some 90 000 connections. */
static int goes_round_late(void)
{
    return strstr(chosen_provider, "ofi_rxm") != NULL;
}

/* Of what a connection allocates nothing outlives it, once the ids that rest (1024) have gone round: after
 * 15 000 connections the allocated bytes of an optimized plugin were those after 1000, to the byte. malloc
 * counts its caches as allocated: who runs this turns them off (GLIBC_TUNABLES=glibc.malloc.tcache_count=0). */
enum { SLACK_BYTES = 16384 };

static long resident_pages(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &resident) == 2, "statm");
    fclose(file);
    return resident;
}

int main(int argc, char **argv)
{
    long before = 0, after, room;
    size_t heap_before = 0, heap_after;
    int descriptors = 0;
    CHECK(argc == 4, "usage: thousand PLUGIN VERSION SETTLED");
    watchdog(300);
    int settled = atoi(argv[3]);
    struct net net = load(argv[1], atoi(argv[2]));
    start(&net);
    for (int i = 0; i <= settled + COUNTED; i++) {
        if (i == settled) {
            before = resident_pages();
            heap_before = mallinfo2().uordblks;
            descriptors = count_entries("/proc/self/fd");
        }
        check_health(&net);
    }
    after = resident_pages();
    heap_after = mallinfo2().uordblks;
    printf("%zu bytes and %ld pages, then %zu and %ld\n", heap_before, before, heap_after, after);
    CHECK(heap_after <= heap_before + SLACK_BYTES, "%zu bytes allocated after %d connections, %zu after %d more",
          heap_before, settled, heap_after, COUNTED);
    room = goes_round_late() ? before / 50 : SLACK_PAGES;
    CHECK(after <= before + room, "%ld pages after %d connections, %ld after %d more", before, settled,
          after, COUNTED);
    CHECK(count_entries("/proc/self/fd") <= descriptors, "descriptors were left behind");
    CHECK(warnings == 0, "it warned: %s", last_warning);
    finish(&net);
    puts("ok");
    return 0;
}
