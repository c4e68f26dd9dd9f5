/* SPDX-License-Identifier: Apache-2.0
 * What the test programs share: one interface over the tables of a family (NCCL's with
 * OFI_TEST_NCCL), connections within deadlines, a check that all still works. */
#ifndef OFI_TEST_COMMON_H
#define OFI_TEST_COMMON_H

#ifdef OFI_TEST_NCCL
#include "nccl_tables.h"
#else
#include "neuron_tables.h"
#endif

static inline void start(struct net *net)
{
    int count = 0, result = PICK(net, init)(logger);
    CHECK(result == 0, "init gave %d: %s", result, last_warning);
    EXPECT(0, PICK(net, devices)(&count));
    CHECK(count > 0, "no devices");
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

/* Whether bytes arrive without any call: what the device of EFA does alone, and no other provider. */
static inline int moves_by_itself(void)
{
    return strstr(chosen_provider, "(fabric efa-direct)") != NULL;
}

/* Sends itself a message through a fresh connection: whether the process still works. */
static inline void check_health(struct net *net)
{
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *sender = NULL, *receiver = NULL, *request[2] = {0}, *mr[2];
    static __thread unsigned char data[2][100000]; /* threads check at once */
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
