/* SPDX-License-Identifier: Apache-2.0
 * What NCCL is told of a host whose devices have several NICs: in the file that NCCL_TOPO_FILE names the NICs
 * are those that getProperties gives the paths of, once each. Prints the number of each device.
 *
 * With THEIRS the variable is set to it before, and still is after.
 *
 * usage: topo PLUGIN DEVICES [THEIRS] */
#include "common.h"

#define VARIABLE "NCCL_TOPO_FILE"

/* NICs are the branches' ends. */
static int ends(const char *text)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, "<pci ")) != NULL; at++) {
        const char *end = strchr(at, '>');
        CHECK(end != NULL, "a tag without an end: %s", at);
        count += end[-1] == '/';
    }
    return count;
}

static int is_end(const char *text, const char *address)
{
    char start[64];
    snprintf(start, sizeof start, "<pci busid=\"%s\"", address);
    const char *at = strstr(text, start), *end = at ? strchr(at, '>') : NULL;
    return end != NULL && end[-1] == '/';
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4, "usage: topo PLUGIN DEVICES [THEIRS]");
    watchdog(60);
    const char *theirs = argc == 4 ? argv[3] : NULL;
    if (theirs)
        CHECK(setenv(VARIABLE, theirs, 1) == 0, "setenv");
    int wanted = atoi(argv[2]), count = 0;
    struct net net = load(argv[1], LAST_VERSION);
    start(&net);
    EXPECT(0, PICK(&net, devices)(&count));
    CHECK(count == wanted, "%d devices", count);
    static char text[1 << 16];
    const char *path = getenv(VARIABLE);
    CHECK(path != NULL, "no " VARIABLE);
    if (theirs) {
        CHECK(strcmp(path, theirs) == 0, VARIABLE " is %s", path);
    } else {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL, "%s cannot be opened", path);
        CHECK(fread(text, 1, sizeof text - 1, file) > 0, "%s is empty", path);
        CHECK(fclose(file) == 0, "%s", path);
        CHECK(ends(text) == count, "%d NICs for %d devices: %s", ends(text), count, text);
    }
    for (int device = 0; device < count; device++) {
        ofi_nccl_properties_v12_t properties;
        EXPECT(0, net.v12->getProperties(device, &properties));
        const char *at = properties.pciPath ? strrchr(properties.pciPath, '/') : NULL;
        CHECK(at != NULL, "device %d has no path", device);
        CHECK(theirs || is_end(text, at + 1), "device %d is at %s, which is no NIC of %s", device, at + 1, text);
        printf("number %016llx\n", (unsigned long long)properties.guid);
    }
    CHECK(warnings == 0, "%d warnings, the last: %s", warnings, last_warning);
    EXPECT(0, net_end(&net) > 0);
    puts("ok");
    return 0;
}
