/* SPDX-License-Identifier: Apache-2.0
 *
 * The net tables of libnccom-net.so: ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6, as the
 * Neuron collectives library loads them. x86-64 and aarch64, little-endian.
 *
 * The contract of every call, and what it shares with NCCL's tables: ofi_net_common.h.
 */
#ifndef OFI_NEURON_NET_H
#define OFI_NEURON_NET_H

#include "ofi_net_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a Neuron device: a bit of ptrSupport, and a type argument of regMr. */
enum { OFI_NEURON_PTR_NEURON = 0x4 };

/* Bytes of a v4 handle. */
enum { OFI_NEURON_HANDLE_BYTES_V4 = 64 };

typedef struct {
    char *name;    /* never freed */
    char *pciPath; /* never freed; NULL for software providers */
    uint64_t guid;
    int ptrSupport;
    int speed; /* Mb/s; 0: not known */
    int port;
    int maxComms;
} ofi_neuron_properties_v4_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal; /* 1: a memory handle serves all communicators of the device */
    int speed;
    int port;
    float latency; /* microseconds */
    int maxComms;
    int maxRecvs; /* buffers of one irecv: 1 */
    size_t maxWriteInlineSize;
    size_t maxMrKeySize;
    int rmaSupported; /* 0: iwrite, iwriteInline and iread are refused: no virtual addresses */
} ofi_neuron_properties_v5_t;

typedef ofi_neuron_properties_v5_t ofi_neuron_properties_v6_t;

/* v4: connect gives a communicator at once, accept waits (bounded by OFI_NCCL_CONNECT_TIMEOUT).
 * No fini: taken down at exit or dlclose. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_neuron_properties_v4_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, int size, void *mhandle, void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, void *data, int size, void *mhandle, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, void *data, int size, void *mhandle, void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *size);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
} ofi_neuron_net_v4_t;

/* v5: success with a NULL communicator or request means "call again" (iflush: "nothing to wait
 * for"). No fini: taken down at exit or dlclose. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_neuron_properties_v5_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
                               void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
                               void **mhandles, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getMrKey)(void *mhandle, uint64_t *key);
    ofi_nccl_result_t (*iwrite)(void *sendComm, void *src, size_t size, void *mhandle, uint64_t dest,
                                uint64_t key, void **request);
    ofi_nccl_result_t (*iwriteInline)(void *sendComm, void *src, size_t size, uint64_t dest,
                                      uint64_t key, void **request);
    ofi_nccl_result_t (*iread)(void *recvComm, void *dest, size_t size, void *mhandle, uint64_t src,
                               uint64_t key, void **request);
} ofi_neuron_net_v5_t;

/* v6: v5 with fini, which has to be called before the library is unloaded. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*fini)(void);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_neuron_properties_v6_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
                               void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
                               void **mhandles, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getMrKey)(void *mhandle, uint64_t *key);
    ofi_nccl_result_t (*iwrite)(void *sendComm, void *src, size_t size, void *mhandle, uint64_t dest,
                                uint64_t key, void **request);
    ofi_nccl_result_t (*iwriteInline)(void *sendComm, void *src, size_t size, uint64_t dest,
                                      uint64_t key, void **request);
    ofi_nccl_result_t (*iread)(void *recvComm, void *dest, size_t size, void *mhandle, uint64_t src,
                               uint64_t key, void **request);
} ofi_neuron_net_v6_t;

#ifdef __cplusplus
}
#endif

#endif
