/* SPDX-License-Identifier: Apache-2.0
 *
 * The net tables of libnccom-net.so: ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6, as the
 * Neuron collectives library loads them. x86-64 and aarch64, little-endian.
 *
 * The contract of every call
 *   - Pointers are NULL, or valid for what the call does with them. NULL is an error code, never a
 *     crash, wherever a pointer is needed.
 *   - Communicators, requests and memory handles are words, not addresses: a stale one is an error.
 *   - The calls on one communicator come from one thread at a time; different communicators may be
 *     used from different threads.
 *   - Memory given to regMr stays mapped until deregMr; memory given to isend, irecv or iflush is left
 *     alone until test reports its request done.
 */
#ifndef OFI_NEURON_NET_H
#define OFI_NEURON_NET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. */
typedef int ofi_nccl_result_t;
enum {
    OFI_NCCL_SUCCESS = 0,
    OFI_NCCL_SYSTEM_ERROR = 2,     /* the system, the provider, a limit, a deadline */
    OFI_NCCL_INTERNAL_ERROR = 3,   /* a call that makes no sense */
    OFI_NCCL_INVALID_ARGUMENT = 4, /* not initialised, and some NULL arguments */
    OFI_NCCL_INVALID_USAGE = 5,    /* a message too long */
    OFI_NCCL_REMOTE_ERROR = 6      /* the peer is gone */
};

/* Types of memory: bits of ptrSupport, and the type argument of regMr. */
enum { OFI_NCCL_PTR_HOST = 0x1, OFI_NCCL_PTR_NEURON = 0x4 };

/* Bytes of a connection handle. Of the 128, 88 are used; v4 has 64. A handle is carried to the peer
 * as it is, and connect of v5 and v6 keeps its state in it: give each connect a fresh copy. */
enum { OFI_NCCL_HANDLE_BYTES = 128, OFI_NCCL_HANDLE_BYTES_V4 = 64 };

/* Put into *request before irecv: the caller does not need to know when the data has arrived. */
#define OFI_NCCL_OPTIONAL_RECV_COMPLETION ((void *)0x1)

/* Levels and subsystems that the logger is called with. */
enum { OFI_NCCL_LOG_WARN = 2, OFI_NCCL_LOG_INFO = 3 };

/* Printf-like; called from any thread until the plugin is finalised. May be NULL. */
typedef void (*ofi_nccl_logger_t)(int level, unsigned long flags, const char *file, int line,
                                  const char *format, ...);

typedef struct {
    char *name;    /* never freed */
    char *pciPath; /* never freed; NULL for software providers */
    uint64_t guid;
    int ptrSupport;
    int speed; /* Mb/s; 0: not known */
    int port;
    int maxComms;
} ofi_nccl_properties_v4_t;

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
    int rmaSupported; /* 0: iwrite, iwriteInline and iread are refused */
} ofi_nccl_properties_v5_t;

typedef ofi_nccl_properties_v5_t ofi_nccl_properties_v6_t;

/* v4: connect gives a communicator at once, accept waits (bounded by OFI_NCCL_CONNECT_TIMEOUT).
 * No fini: taken down at exit or dlclose. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v4_t *props);
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
} ofi_nccl_net_v4_t;

/* v5: success with a NULL communicator or request means "call again" (iflush: "nothing to wait
 * for"). No fini: taken down at exit or dlclose. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v5_t *props);
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
} ofi_nccl_net_v5_t;

/* v6: v5 with fini, which has to be called before the library is unloaded. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*fini)(void);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v6_t *props);
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
} ofi_nccl_net_v6_t;

#ifdef __cplusplus
}
#endif

#endif
