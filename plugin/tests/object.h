/* SPDX-License-Identifier: Apache-2.0
 * The shared object as such: its symbols, whether it is mapped, what it leaves open. */
#ifndef OFI_TEST_OBJECT_H
#define OFI_TEST_OBJECT_H

#include "base.h"
#include <dirent.h>
#include <elf.h>
#include <link.h>

/* A table: its name and size in the object, what it calls itself, and the slots (bits of `null`) that
 * hold no function. */
static inline void check_symbol(const char *name, const void *table, size_t size, const char *called,
                                unsigned null)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    CHECK(dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0, "%s has no symbol", name);
    CHECK(symbol && info.dli_sname && strcmp(info.dli_sname, name) == 0, "not %s", name);
    CHECK(symbol->st_size == size, "%s has %zu bytes, not %zu", name, (size_t)symbol->st_size, size);
    CHECK(ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT, "%s is no data object", name);
    CHECK(strcmp(*(char *const *)table, called) == 0, "%s is called %s", name, *(char *const *)table);
    for (size_t slot = 0; slot < size / sizeof(void *); slot++)
        CHECK((((void *const *)table)[slot] == NULL) == (null >> slot & 1), "slot %zu of %s", slot, name);
}

static inline int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    CHECK(dir != NULL, "%s: %s", path, strerror(errno));
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static inline int is_mapped(const char *part)
{
    char line[1024];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "maps");
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, part) != NULL;
    fclose(maps);
    return found;
}

#endif
