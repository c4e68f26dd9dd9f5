/* SPDX-License-Identifier: Apache-2.0
 * A machine without libfabric (the environment points at a file that is not there): init fails with
 * one warning that says what is missing and how to get it, and everything else stays an error code.
 *
 * usage: OFI_NCCL_LIBFABRIC_PATH=/nonexistent/libfabric.so.1 nofabric PLUGIN */
#include "common.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2 && getenv("OFI_NCCL_LIBFABRIC_PATH"), "usage: nofabric PLUGIN, with the path set");
    watchdog(60);
    for (int version = FIRST_VERSION; version <= LAST_VERSION; version++) {
        struct net net = load(argv[1], version);
        int count = 0;
        warnings = 0;
        EXPECT(2, PICK(&net, init)(logger));
        CHECK(warnings == 1, "%d warnings, the last: %s", warnings, last_warning);
        CHECK(strstr(last_warning, "OFI-E0101") && strstr(last_warning, "libfabric could not be loaded"),
              "not told what is missing: %s", last_warning);
        CHECK(strstr(last_warning, getenv("OFI_NCCL_LIBFABRIC_PATH")), "nor where: %s", last_warning);
        CHECK(strstr(last_warning, "apt-get install libfabric1"), "nor what to do: %s", last_warning);
#ifdef OFI_TEST_NCCL
        CHECK(net.ctx == NULL, "a failed init gave a context");
#endif
        EXPECT(4, PICK(&net, devices)(&count));
        EXPECT(4, PICK(&net, closeSend)((void *)0x4000000000000001));
        /* Nothing was begun that could be ended (NCCL v11: there is no context). */
        CHECK(net_end(&net) != 0, "a failed init has an end");
        /* It can be tried again, and says so again. */
        EXPECT(2, PICK(&net, init)(logger));
        EXPECT(2, PICK(&net, init)(NULL));
        CHECK(dlclose(net.library) == 0, "%s", dlerror());
    }
    puts("ok");
    return 0;
}
