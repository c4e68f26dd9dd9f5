/* SPDX-License-Identifier: Apache-2.0
 * What a start says, under the environment that it is given, with the first table and the last.
 *
 * healthy: init and the first use of each device warn of nothing; the provider is told of once. With
 *          OFI_TEST_COUNTED (countingfabric.c) libfabric is asked twice at most.
 * fails: init gives an error and exactly one warning, one line with a stable code, likely causes and what
 *        to do, and with each TEXT; then nothing is there, and the next init says the same.
 * warns: init succeeds with exactly that one warning.
 * unusable: init succeeds quietly, and the first listen fails with it.
 *
 * usage: start PLUGIN healthy | fails | warns | unusable [TEXT..] */
#include "common.h"

static int providers_told;

/* How often libfabric was asked what there is, so far; 0 where nobody counts. */
static int asked(void)
{
    const char *path = getenv("OFI_TEST_COUNTED");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int *count = library ? dlsym(library, "asked") : NULL;
    CHECK(!library || count, "nothing is counted by %s", path);
    return count ? *count : 0;
}

/* Counts what the provider's line says, and passes it on. */
__attribute__((format(printf, 5, 6))) static void counting(int level, unsigned long flags, const char *file,
                                                           int line, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    providers_told += strstr(text, "NET/OFI libfabric ") == text;
    logger(level, flags, file, line, "%s", text);
}

/* The last warning is the only one, and is what a user can act on. */
static void check_warning(int argc, char **argv)
{
    CHECK(warnings == 1, "%d warnings, the last: %s", warnings, last_warning);
    const char *parts[] = {"; likely: ", "; do: "};
    for (int i = 0; i < 2; i++)
        CHECK(strstr(last_warning, parts[i]), "no \"%s\" in: %s", parts[i], last_warning);
    for (int i = 3; i < argc; i++)
        CHECK(strstr(last_warning, argv[i]), "no \"%s\" in: %s", argv[i], last_warning);
    warnings = 0;
}

static void fails(struct net *net, int argc, char **argv)
{
    for (int again = 0; again < 2; again++) {
        int count = 0;
        CHECK(PICK(net, init)(counting) != 0, "init succeeded");
        check_warning(argc, argv);
        EXPECT(4, PICK(net, devices)(&count));
        CHECK(warnings == 1 && strstr(last_warning, "OFI-E0108"), "%d warnings, the last: %s", warnings,
              last_warning);
        warnings = 0;
    }
}

static void listens(struct net *net, int device, int expected)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener = NULL;
    int result = PICK(net, listen)(device, handle, &listener);
    CHECK((result == 0) == (expected == 0), "listen on device %d gave %d: %s", device, result, last_warning);
    if (result == 0)
        EXPECT(0, PICK(net, closeListen)(listener));
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: start PLUGIN healthy|fails|warns|unusable [TEXT..]");
    watchdog(120);
    /* The others start as the last one does. */
    for (int version = FIRST_VERSION; version <= LAST_VERSION; version += LAST_VERSION - FIRST_VERSION) {
        struct net net = load(argv[1], version);
        int count = 0;
        warnings = providers_told = 0;
        if (strcmp(argv[2], "fails") == 0) {
            fails(&net, argc, argv);
        } else {
            int before = asked(), result = PICK(&net, init)(counting);
            CHECK(result == 0, "init gave %d: %s", result, last_warning);
            CHECK(providers_told == 1, "the provider was told of %d times", providers_told);
            if (strcmp(argv[2], "warns") == 0)
                check_warning(argc, argv);
            CHECK(warnings == 0, "%d warnings, the last: %s", warnings, last_warning);
            EXPECT(0, PICK(&net, devices)(&count));
            CHECK(count > 0, "no devices");
            int times = asked() - before;
            CHECK(times >= (getenv("OFI_TEST_COUNTED") != NULL) && times <= 2, "asked %d times", times);
            int unusable = strcmp(argv[2], "unusable") == 0;
            for (int device = 0; device < (unusable ? 1 : count); device++)
                listens(&net, device, unusable);
            if (unusable)
                check_warning(argc, argv);
            CHECK(warnings == 0, "%d warnings, the last: %s", warnings, last_warning);
            EXPECT(0, net_end(&net) > 0);
        }
        CHECK(dlclose(net.library) == 0, "%s", dlerror());
    }
    puts("ok");
    return 0;
}
