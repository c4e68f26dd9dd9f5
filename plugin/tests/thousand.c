/* SPDX-License-Identifier: Apache-2.0
 * A thousand connections, one after the other, in one process, each with a message: resident memory
 * stays where it was, and so do threads and descriptors. Before they are counted, as many as it takes
 * until everything that goes round has gone round once: the ids that rest (decision 14), and the
 * provider's completion queue, a ring of OFI_NCCL_CQ_SIZE entries for each rail, whose pages become
 * resident as it is written; so that is set small.
 *
 * usage: OFI_NCCL_CQ_SIZE=1024 thousand PLUGIN VERSION */
#include "common.h"
#include "object.h"

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
    int descriptors = 0;
    CHECK(argc == 3 && getenv("OFI_NCCL_CQ_SIZE"), "usage: thousand PLUGIN VERSION, with the size set");
    watchdog(200);
    struct net net = load(argv[1], atoi(argv[2]));
    start(&net);
    for (int i = 0; i < CONNECTIONS; i++) {
        check_health(&net);
        if (i == SETTLED) {
            before = resident_pages();
            descriptors = count_entries("/proc/self/fd");
        }
    }
    after = resident_pages();
    /* At most 2% more: 200 bytes a connection are that of the 10 MiB that `net` takes. Queues of shm that
     * we cannot make small go round for 4000 connections and add 1% on 4 rails. */
    CHECK(after * 100 <= before * 102, "%ld pages after %d connections, %ld after %d", before, SETTLED,
          after, CONNECTIONS);
    CHECK(count_entries("/proc/self/fd") <= descriptors, "descriptors were left behind");
    CHECK(warnings == 0, "it warned: %s", last_warning);
    printf("%ld pages, then %ld\n", before, after);
    finish(&net);
    puts("ok");
    return 0;
}
