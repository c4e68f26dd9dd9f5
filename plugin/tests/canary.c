/* SPDX-License-Identifier: Apache-2.0
 * A mistake on purpose, across the border: the plugin is made to read a handle that was freed. A sanitizer
 * that sees across it ends this program; "nobody saw it" means that a green run of the others proves nothing.
 *
 * usage: canary PLUGIN */
#include "common.h"

int main(int argc, char **argv)
{
    void *listener, *comm = NULL, *volatile handle = calloc(1, OFI_NCCL_HANDLE_BYTES);
    CHECK(argc == 2, "usage: canary PLUGIN");
    struct net net = load(argv[1], 6);
    start(&net);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    free(handle);
    int result = PICK(&net, connect)(0, handle, &comm);
    printf("nobody saw it: %d\n", result);
    return 0;
}
