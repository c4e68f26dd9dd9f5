/* SPDX-License-Identifier: Apache-2.0
 * Traffic classes: the first one asked for before the first endpoint is that of all endpoints; another
 * one, one that comes too late, and a number that is none, are one warning each life and do no harm.
 *
 * usage: traffic PLUGIN */
#include "common.h"

/* NCCL's number, and what libfabric is told. */
enum { CLASS = 184, OTHER = 32 };
#define CLASS_TEXT "traffic class 0x12e"

static int classed_lines;

__attribute__((format(printf, 5, 6))) static void watching(int level, unsigned long flags,
                                                           const char *file, int line,
                                                           const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    classed_lines += level == OFI_NCCL_LOG_INFO && strstr(text, CLASS_TEXT) != NULL;
    logger(level, flags, file, line, "%s", text);
}

static struct net started(const char *path, int version, int class)
{
    struct net net = load(path, version);
    net.traffic_class = class;
    warnings = classed_lines = 0;
    EXPECT(0, PICK(&net, init)(watching));
    return net;
}

int main(int argc, char **argv)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *comm;
    CHECK(argc == 2, "usage: traffic PLUGIN");
    watchdog(100);

    /* A context's class is known before anything is opened. */
    struct net net = started(argv[1], 12, CLASS), same = load(argv[1], 12), other = load(argv[1], 11);
    check_health(&net);
    CHECK(classed_lines == 1 && warnings == 0, "%d lines, warned: %s", classed_lines, last_warning);
    same.traffic_class = CLASS;
    EXPECT(0, PICK(&same, init)(watching));
    CHECK(warnings == 0, "the same class warned: %s", last_warning);
    other.traffic_class = OTHER;
    EXPECT(0, PICK(&other, init)(watching));
    CHECK(warnings == 1 && strstr(last_warning, "cannot be had") && strstr(last_warning, "0x12e"),
          "%d warnings: %s", warnings, last_warning);
    check_health(&other);
    struct net again = load(argv[1], 11);
    again.traffic_class = OTHER;
    EXPECT(0, PICK(&again, init)(watching));
    CHECK(warnings == 1, "it was said twice");
    finish(&again);
    finish(&other);
    finish(&same);
    finish(&net);

    /* None, then one: the endpoints are there. */
    net = started(argv[1], 11, -1);
    check_health(&net);
    other = load(argv[1], 12);
    other.traffic_class = CLASS;
    EXPECT(0, PICK(&other, init)(watching));
    CHECK(warnings == 1 && strstr(last_warning, "have no traffic class"), "%s", last_warning);
    check_health(&other);
    CHECK(classed_lines == 0, "it was had all the same");
    finish(&other);
    finish(&net);

    /* No class at all. */
    net = started(argv[1], 12, 1000);
    CHECK(warnings == 1 && strstr(last_warning, "1000"), "%d warnings: %s", warnings, last_warning);
    check_health(&net);
    finish(&net);

    /* v10: with the first connect if nothing was opened, too late after a listen. The handle is that of a
     * listener of the life before, so that nothing but the connect opens endpoints. */
    net = started(argv[1], 10, CLASS);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    EXPECT(0, PICK(&net, connect)(0, handle, &comm));
    CHECK(warnings == 1 && strstr(last_warning, "have no traffic class"), "%s", last_warning);
    finish(&net);
    memset(handle + 64, 0, sizeof handle - 64);
    net = started(argv[1], 10, CLASS);
    PICK(&net, connect)(0, handle, &comm);
    CHECK(classed_lines == 1, "%d lines, warned: %s", classed_lines, last_warning);
    finish(&net);
    puts("ok");
    return 0;
}
