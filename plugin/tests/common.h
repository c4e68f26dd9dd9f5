/* SPDX-License-Identifier: Apache-2.0
 * What the test programs of Neuron's tables share: loading the plugin as a collectives library does,
 * one interface over the three tables. */
#ifndef OFI_TEST_COMMON_H
#define OFI_TEST_COMMON_H

#include "base.h"

#include "../include/ofi_neuron_net.h"

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

static inline void start(struct net *net)
{
    int count = 0, result = PICK(net, init)(logger);
    CHECK(result == 0, "init gave %d: %s", result, last_warning);
    EXPECT(0, PICK(net, devices)(&count));
    CHECK(count > 0, "no devices");
}

static inline void finish(struct net *net)
{
    if (net->version == 6)
        EXPECT(0, net->v6->fini());
    CHECK(dlclose(net->library) == 0, "%s", dlerror());
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

/* Connects within `bound` seconds; the result of the call that was not "again". */
static inline int net_connect(struct net *net, void *handle, void **comm, double bound)
{
    double end = now() + bound;
    *comm = NULL;
    do {
        int result = PICK(net, connect)(0, handle, comm);
        if (result != 0 || *comm != NULL)
            return result;
        between_calls();
    } while (now() < end);
    CHECK(0, "connect neither succeeded nor failed within %g s", bound);
}

static inline int net_accept(struct net *net, void *listener, void **comm, double bound)
{
    double end = now() + bound;
    *comm = NULL;
    do {
        int result = PICK(net, accept)(listener, comm);
        if (result != 0 || *comm != NULL)
            return result;
        between_calls();
    } while (now() < end);
    CHECK(0, "accept neither succeeded nor failed within %g s", bound);
}

/* Waits for a request within `bound` seconds; the result of test, and the size. */
static inline int net_wait(struct net *net, void *request, int *size, double bound)
{
    double end = now() + bound;
    do {
        int done = 0, result = PICK(net, test)(request, &done, size);
        if (result != 0 || done)
            return result;
        between_calls();
    } while (now() < end);
    CHECK(0, "a request neither completed nor failed within %g s", bound);
}

/* Sends itself a message through a fresh connection: whether the process still works. */
static inline void check_health(struct net *net)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *sender = NULL, *receiver = NULL, *request[2] = {0}, *mr[2];
    static unsigned char data[2][100000];
    double end = now() + 30;
    EXPECT(0, PICK(net, listen)(0, handle, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, PICK(net, connect)(0, handle, &sender));
        if (!receiver)
            EXPECT(0, PICK(net, accept)(listener, &receiver));
        CHECK(now() < end, "no connection to itself");
    }
    EXPECT(0, PICK(net, regMr)(sender, data[0], sizeof data[0], OFI_NCCL_PTR_HOST, &mr[0]));
    EXPECT(0, PICK(net, regMr)(receiver, data[1], sizeof data[1], OFI_NCCL_PTR_HOST, &mr[1]));
    fill(data[0], sizeof data[0], 3);
    memset(data[1], 0, sizeof data[1]);
    while (!request[0] || !request[1]) {
        if (!request[0])
            EXPECT(0, net_isend(net, sender, data[0], sizeof data[0], mr[0], &request[0]));
        if (!request[1])
            EXPECT(0, net_irecv(net, receiver, data[1], sizeof data[1], mr[1], &request[1]));
        CHECK(now() < end, "no request");
    }
    for (int i = 0; i < 2; i++)
        EXPECT(0, net_wait(net, request[i], NULL, 30));
    verify(data[1], sizeof data[1], 3);
    EXPECT(0, PICK(net, deregMr)(sender, mr[0]));
    EXPECT(0, PICK(net, deregMr)(receiver, mr[1]));
    EXPECT(0, PICK(net, closeSend)(sender));
    EXPECT(0, PICK(net, closeRecv)(receiver));
    EXPECT(0, PICK(net, closeListen)(listener));
}

#endif
