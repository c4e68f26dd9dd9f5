/* SPDX-License-Identifier: Apache-2.0
 * libfabric, with the calls of fi_getinfo counted: each function goes on to the real one, OFI_TEST_FABRIC. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* How often it was asked what there is. */
int asked;

static void *real(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen(getenv("OFI_TEST_FABRIC"), RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function)
        abort();
    return function;
}

uint32_t fi_version(void)
{
    return ((uint32_t(*)(void))real("fi_version"))();
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, void *hints, void **list)
{
    int (*call)(uint32_t, const char *, const char *, uint64_t, void *, void **) = real("fi_getinfo");
    asked++;
    return call(version, node, service, flags, hints, list);
}

void fi_freeinfo(void *info)
{
    ((void (*)(void *))real("fi_freeinfo"))(info);
}

void *fi_dupinfo(void *info)
{
    return ((void *(*)(void *))real("fi_dupinfo"))(info);
}

int fi_fabric(void *attributes, void **fabric, void *context)
{
    return ((int (*)(void *, void **, void *))real("fi_fabric"))(attributes, fabric, context);
}

const char *fi_strerror(int number)
{
    return ((const char *(*)(int))real("fi_strerror"))(number);
}
