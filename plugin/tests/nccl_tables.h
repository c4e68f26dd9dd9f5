/* SPDX-License-Identifier: Apache-2.0
 * One interface over NCCL's seven tables, loaded as a collectives library does. */
#ifndef OFI_TEST_NCCL_TABLES_H
#define OFI_TEST_NCCL_TABLES_H

#include "base.h"

#include "../include/ofi_nccl_net.h"

enum { FIRST_VERSION = 6, LAST_VERSION = 12 };

/* A table, seen as each of the versions; only that of `version` is right, but what is the same in all
 * of them is called through v6. */
struct net {
    int version;
    void *library;
    union {
        void *table;
        ofi_nccl_net_v6_t *v6;
        ofi_nccl_net_v7_t *v7;
        ofi_nccl_net_v8_t *v8;
        ofi_nccl_net_v9_t *v9;
        ofi_nccl_net_v10_t *v10;
        ofi_nccl_net_v11_t *v11;
        ofi_nccl_net_v12_t *v12;
    };
    void *ctx; /* v11 and later */
    ofi_nccl_profiler_callback_t profiler;
    void *parent; /* of the events of what is posted */
    int traffic_class;
};

/* As in neuron_tables.h: PICK(net, call)(arguments). The calls below find the table here. */
static __thread struct net *picked;
#define PICK(net, member) (picked = (net), bound_##member)

/* What nobody may touch: the device handle's pointer. */
#define NO_DEVICE_HANDLE ((ofi_nccl_device_handle_t **)0x7)

static inline int bound_init(ofi_nccl_logger_t given)
{
    ofi_nccl_comm_config_t config = {picked->traffic_class};
    if (picked->version <= 9)
        return picked->v6->init(given);
    if (picked->version == 10)
        return picked->v10->init(given, picked->profiler);
    return picked->v11->init(&picked->ctx, 42, &config, given, picked->profiler);
}

static inline int bound_devices(int *count)
{
    return picked->v6->devices(count);
}

static inline int bound_getProperties(int dev, void *props)
{
    return picked->v6->getProperties(dev, props);
}

static inline int bound_listen(int dev, void *handle, void **comm)
{
    return picked->version <= 10 ? picked->v6->listen(dev, handle, comm)
                                : picked->v11->listen(picked->ctx, dev, handle, comm);
}

static inline int bound_connect(int dev, void *handle, void **comm)
{
    ofi_nccl_comm_config_t config = {picked->traffic_class};
    if (picked->version == 6)
        return picked->v6->connect(dev, handle, comm);
    if (picked->version <= 9)
        return picked->v7->connect(dev, handle, comm, NO_DEVICE_HANDLE);
    return picked->version == 10
               ? picked->v10->connect(dev, &config, handle, comm, NO_DEVICE_HANDLE)
               : picked->v11->connect(picked->ctx, dev, handle, comm, NO_DEVICE_HANDLE);
}

static inline int bound_accept(void *listener, void **comm)
{
    return picked->version == 6 ? picked->v6->accept(listener, comm)
                               : picked->v7->accept(listener, comm, NO_DEVICE_HANDLE);
}

static inline int bound_regMr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return picked->version <= 7 ? picked->v6->regMr(comm, data, (int)size, type, mhandle)
                               : picked->v8->regMr(comm, data, size, type, mhandle);
}

static inline int bound_regMrDmaBuf(void *comm, void *data, size_t size, int type, uint64_t offset,
                                    int fd, void **mhandle)
{
    return picked->v6->regMrDmaBuf(comm, data, size, type, offset, fd, mhandle);
}

static inline int bound_deregMr(void *comm, void *mhandle)
{
    return picked->v6->deregMr(comm, mhandle);
}

static inline int bound_isend(void *comm, void *data, int64_t size, void *mhandle, void **request)
{
    if (picked->version <= 8)
        return picked->v6->isend(comm, data, (int)size, 7, mhandle, request);
    return picked->version == 9
               ? picked->v9->isend(comm, data, (size_t)size, 7, mhandle, request)
               : picked->v10->isend(comm, data, (size_t)size, 7, mhandle, picked->parent, request);
}

/* `sizes` are of 64 bits here; NULL arrays are passed on. */
static inline int bound_irecv(void *comm, int n, void **data, int64_t *sizes, int *tags,
                              void **mhandles, void **request)
{
    int result, narrow = sizes ? (int)*sizes : 0;
    size_t wide = sizes ? (size_t)*sizes : 0;
    if (picked->version <= 8)
        result = picked->v6->irecv(comm, n, data, sizes ? &narrow : NULL, tags, mhandles, request);
    else if (picked->version == 9)
        result = picked->v9->irecv(comm, n, data, sizes ? &wide : NULL, tags, mhandles, request);
    else
        result = picked->v10->irecv(comm, n, data, sizes ? &wide : NULL, tags, mhandles,
                                   picked->parent ? &picked->parent : NULL, request);
    CHECK(!sizes || (narrow == (int)*sizes && wide == (size_t)*sizes), "irecv changed the sizes");
    return result;
}

static inline int bound_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                               void **request)
{
    return picked->v6->iflush(comm, n, data, sizes, mhandles, request);
}

static inline int bound_test(void *request, int *done, int *size)
{
    return picked->v6->test(request, done, size);
}

static inline int bound_closeSend(void *comm)
{
    return picked->v6->closeSend(comm);
}

static inline int bound_closeRecv(void *comm)
{
    return picked->v6->closeRecv(comm);
}

static inline int bound_closeListen(void *comm)
{
    return picked->v6->closeListen(comm);
}

static inline struct net load(const char *path, int version)
{
    char name[32];
    struct net net = {.version = version, .traffic_class = -1};
    net.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(net.library != NULL, "%s", dlerror());
    snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
    net.table = dlsym(net.library, name);
    CHECK(net.table, "%s", dlerror());
    return net;
}

/* The call that ends a life; -1 without one. */
static inline int net_end(struct net *net)
{
    return net->version >= 11 ? net->v11->finalize(net->ctx) : -1;
}

static inline void finish(struct net *net)
{
    int result = net_end(net);
    CHECK(result <= 0, "the end gave %d: %s", result, last_warning);
    unload(net->library);
}

static inline int net_isend(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    return PICK(net, isend)(comm, data, size, mr, req);
}

static inline int net_irecv(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    int tag = 7, result;
    int64_t size_before = size, wide = size;
    void *data_before = data, *mr_before = mr;
    result = PICK(net, irecv)(comm, 1, &data, &wide, &tag, &mr, req);
    /* The arrays are the caller's: protocol trap 18. */
    CHECK(data == data_before && mr == mr_before && wide == size_before && tag == 7,
          "irecv changed its caller's arrays");
    return result;
}

static inline int net_iflush(struct net *net, void *comm, void *data, int size, void *mr, void **req)
{
    return PICK(net, iflush)(comm, 1, &data, &size, &mr, req);
}

#endif
