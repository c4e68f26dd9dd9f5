/* SPDX-License-Identifier: Apache-2.0
 * A libfabric of before 1.17, as a loader sees it: nothing but its version is to be asked of it. */
#include <stdint.h>
#include <stdlib.h>

#define OLD(name)                                                                                  \
    void *name(void)                                                                               \
    {                                                                                              \
        abort();                                                                                   \
    }

uint32_t fi_version(void)
{
    return 1u << 16 | 16u;
}

OLD(fi_getinfo)
OLD(fi_freeinfo)
OLD(fi_dupinfo)
OLD(fi_fabric)
OLD(fi_strerror)
