/* SPDX-License-Identifier: Apache-2.0
 * A thousand connections, one after the other, in one process, each with a message: the bytes that are
 * allocated, resident memory, threads and descriptors stay where they were. Before they are counted, as
 * many as it takes until the ids that rest (decision 14) have gone round once. The provider's queues are
 * rings, of which a page becomes resident when it is first written: those of four rails go round only
 * after thousands of connections, so resident memory is given more room than the heap.
 *
 * usage: thousand PLUGIN VERSION */
#include "common.h"
#include "object.h"
#include <malloc.h>

enum { SETTLED = 1000, CONNECTIONS = SETTLED + 1000 };

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
    long before = 0, after;
    size_t heap_before = 0, heap_after;
    int descriptors = 0;
    CHECK(argc == 3, "usage: thousand PLUGIN VERSION");
    watchdog(200);
    struct net net = load(argv[1], atoi(argv[2]));
    start(&net);
    for (int i = 0; i < CONNECTIONS; i++) {
        check_health(&net);
        if (i == SETTLED) {
            before = resident_pages();
            heap_before = mallinfo2().uordblks;
            descriptors = count_entries("/proc/self/fd");
        }
    }
    after = resident_pages();
    heap_after = mallinfo2().uordblks;
    CHECK(heap_after * 100 <= heap_before * 102, "%zu bytes allocated after %d connections, %zu after %d",
          heap_before, SETTLED, heap_after, CONNECTIONS);
    CHECK(after * 100 <= before * 106, "%ld pages after %d connections, %ld after %d", before, SETTLED,
          after, CONNECTIONS);
    CHECK(count_entries("/proc/self/fd") <= descriptors, "descriptors were left behind");
    CHECK(warnings == 0, "it warned: %s", last_warning);
    printf("%zu bytes and %ld pages, then %zu and %ld\n", heap_before, before, heap_after, after);
    finish(&net);
    puts("ok");
    return 0;
}
