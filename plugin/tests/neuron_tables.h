/* SPDX-License-Identifier: Apache-2.0
 * One interface over Neuron's three tables, loaded as a collectives library does. */
#ifndef OFI_TEST_NEURON_TABLES_H
#define OFI_TEST_NEURON_TABLES_H

#include "base.h"

#include "../include/ofi_neuron_net.h"

enum { FIRST_VERSION = 4, LAST_VERSION = 6 };

/* One interface over the tables. */
struct net {
    int version;
    void *library;
    ofi_neuron_net_v4_t *v4;
    ofi_neuron_net_v5_t *v5;
    ofi_neuron_net_v6_t *v6;
};

#define PICK(net, member)                                                                          \
    ((net)->version == 4 ? (net)->v4->member                                                       \
                         : (net)->version == 5 ? (net)->v5->member : (net)->v6->member)

static struct net load(const char *path, int version)
{
    struct net net = {.version = version};
    net.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(net.library != NULL, "%s", dlerror());
    net.v4 = dlsym(net.library, "ncclNetPlugin_v4");
    net.v5 = dlsym(net.library, "ncclNetPlugin_v5");
    net.v6 = dlsym(net.library, "ncclNetPlugin_v6");
    CHECK(net.v4 && net.v5 && net.v6, "a table is missing: %s", dlerror());
    return net;
}

/* The call that ends a life; -1 without one. */
static inline int net_end(struct net *net)
{
    return net->version == 6 ? net->v6->fini() : -1;
}

static inline void finish(struct net *net)
{
    int result = net_end(net);
    CHECK(result <= 0, "the end gave %d: %s", result, last_warning);
    unload(net->library);
}

static inline int net_isend(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    if (net->version == 4)
        return net->v4->isend(comm, data, size, mr, req);
    return net->version == 5 ? net->v5->isend(comm, data, size, 7, mr, req)
                             : net->v6->isend(comm, data, size, 7, mr, req);
}

static inline int net_irecv(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    int tag = 7, result, size_before = size;
    void *data_before = data, *mr_before = mr;
    if (net->version == 4)
        return net->v4->irecv(comm, data, size, mr, req);
    result = net->version == 5 ? net->v5->irecv(comm, 1, &data, &size, &tag, &mr, req)
                               : net->v6->irecv(comm, 1, &data, &size, &tag, &mr, req);
    /* The arrays are the caller's: protocol trap 18. */
    CHECK(data == data_before && mr == mr_before && size == size_before && tag == 7,
          "irecv changed its caller's arrays");
    return result;
}

static inline int net_iflush(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    if (net->version == 4)
        return net->v4->iflush(comm, data, size, mr, req);
    return net->version == 5 ? net->v5->iflush(comm, 1, &data, &size, &mr, req)
                             : net->v6->iflush(comm, 1, &data, &size, &mr, req);
}

#endif
