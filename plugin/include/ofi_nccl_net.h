/* SPDX-License-Identifier: Apache-2.0
 *
 * The net tables of libnccl-net-ofi.so: ncclNetPlugin_v6 to ncclNetPlugin_v12, as NCCL loads them.
 * x86-64 and aarch64, little-endian.
 *
 * The contract of every call, and what it shares with Neuron's tables: ofi_net_common.h.
 */
#ifndef OFI_NCCL_NET_H
#define OFI_NCCL_NET_H

#include "ofi_net_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a CUDA device, and registration by dma-buf: bits of ptrSupport. PTR_CUDA is also a type
 * argument of regMr. */
enum { OFI_NCCL_PTR_CUDA = 0x2, OFI_NCCL_PTR_DMABUF = 0x4 };

/* Who drives the network. */
enum { OFI_NCCL_DEVICE_HOST = 0, OFI_NCCL_DEVICE_UNPACK = 1 };

/* ---- The profiler (v10 and later) ------------------------------------------------------------- */

/* What happens to an event. This plugin calls with START and UPDATE_AND_STOP only. */
enum {
    OFI_NCCL_PROFILER_START = 0,
    OFI_NCCL_PROFILER_STOP = 1,
    OFI_NCCL_PROFILER_UPDATE = 2,
    OFI_NCCL_PROFILER_UPDATE_AND_STOP = 3
};

/* Called when a request starts that was given a parent event, and once more when it ends; from any
 * thread that calls the plugin. *event is the profiler's: what it puts there at START it finds again at
 * UPDATE_AND_STOP, and it is NULL before. A START that does not give 0 has no UPDATE_AND_STOP. */
typedef ofi_nccl_result_t (*ofi_nccl_profiler_callback_t)(void **event, int type, void *parent,
                                                          int64_t pluginId, void *description);

/* pluginId of every call: in the upper half of the low 32 bits who describes the event, as NCCL numbers
 * its own (1: InfiniBand, 2: sockets), and in the lower half the version of the description. */
#define OFI_NCCL_PROFILER_ID_TYPE 0x0fab
#define OFI_NCCL_PROFILER_ID_V1 ((int64_t)(OFI_NCCL_PROFILER_ID_TYPE << 16 | 1))

enum { OFI_NCCL_PROFILER_SEND = 0, OFI_NCCL_PROFILER_RECV = 1 };

enum {
    OFI_NCCL_PROFILER_STATE_STARTED = 0,
    OFI_NCCL_PROFILER_STATE_DONE = 1,   /* test said that it is done */
    OFI_NCCL_PROFILER_STATE_FAILED = 2, /* test said that it failed */
    OFI_NCCL_PROFILER_STATE_CLOSED = 3  /* its communicator was closed, or the plugin finalised, first */
};

/* description of every call, version 1; valid during the call. A later version of the same pluginId type
 * has a higher version number; fields are only added at the end. */
typedef struct {
    uint32_t bytes; /* of this struct, as the plugin knows it */
    uint32_t direction;
    uint32_t state;
    uint32_t rails; /* bit i: rail i of the device carried a part; 0 at START, and where nobody knows */
    uint64_t size;  /* at START the bytes posted, then the bytes moved */
    uint64_t comm;  /* the communicator's word */
} ofi_nccl_profiler_event_v1_t;

/* ---- What calls are given --------------------------------------------------------------------- */

typedef struct {
    int trafficClass; /* -1: not defined */
} ofi_nccl_comm_config_t;

typedef struct {
    int netDeviceType;
    int netDeviceVersion;
    void *handle;
    size_t size;
    int needsProxyProgress;
} ofi_nccl_device_handle_t;

typedef struct {
    int maxConcurrentPeers;
    int minConcurrentPeers;
    int maxFlowsPerPeer;
    int minFlowsPerPeer;
} ofi_nccl_comm_attr_t;

typedef struct {
    ofi_nccl_comm_attr_t sendCommAttr;
    ofi_nccl_comm_attr_t recvCommAttr;
    uint32_t op;
    uint32_t algo;
    uint32_t proto;
} ofi_nccl_net_attr_t;

/* ---- Properties ------------------------------------------------------------------------------- */

typedef struct {
    char *name;    /* never freed */
    char *pciPath; /* never freed; NULL for software providers */
    uint64_t guid;
    int ptrSupport;
    int speed; /* Mb/s; 0: not known */
    int port;
    float latency; /* microseconds */
    int maxComms;
    int maxRecvs; /* buffers of one irecv: 1 */
} ofi_nccl_properties_v6_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType; /* HOST */
    int netDeviceVersion;
} ofi_nccl_properties_v7_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal; /* 1: a memory handle serves all communicators of the device */
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
} ofi_nccl_properties_v8_t;

typedef struct {
    int ndevs;   /* 1 */
    int devs[4]; /* the device itself */
} ofi_nccl_virtual_properties_v9_t;

typedef struct {
    int ndevs;
    int devs[8];
} ofi_nccl_virtual_properties_v12_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
    int forceFlush; /* 0 */
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
    ofi_nccl_virtual_properties_v9_t vProps;
    size_t maxP2pBytes; /* bytes of a message */
    size_t maxCollBytes;
} ofi_nccl_properties_v9_t;

typedef ofi_nccl_properties_v9_t ofi_nccl_properties_v10_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
    int forceFlush;
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
    ofi_nccl_virtual_properties_v9_t vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
    int maxMultiRequestSize; /* 1 */
} ofi_nccl_properties_v11_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
    int forceFlush;
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
    ofi_nccl_virtual_properties_v12_t vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
    int maxMultiRequestSize;
    int16_t railId;  /* -1 */
    int16_t planeId; /* -1 */
} ofi_nccl_properties_v12_t;

/* ---- Tables ------------------------------------------------------------------------------------
 *
 * Success with a NULL communicator or request means "call again" (iflush: "nothing to wait for").
 * v6 to v10 are taken down at exit or dlclose. */

/* v6: sizes are int, but for that of regMrDmaBuf. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v6_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
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
} ofi_nccl_net_v6_t;

/* v7: connect and accept leave deviceHandle alone: with device type HOST there is none. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v7_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm,
                                 ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
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
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
} ofi_nccl_net_v7_t;

/* v8: regMr takes a size_t. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v8_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm,
                                 ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
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
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
} ofi_nccl_net_v8_t;

/* v9: messages are sized by size_t, and have at most maxP2pBytes. No virtual devices can be made. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v9_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, void *handle, void **sendComm,
                                 ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                               void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                               void **mhandles, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
    ofi_nccl_result_t (*makeVDevice)(int *dev, ofi_nccl_virtual_properties_v9_t *props); /* NULL */
} ofi_nccl_net_v9_t;

/* v10: a profiler (which may be NULL), and parents for its events (parents itself may be NULL). */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(ofi_nccl_logger_t logger, ofi_nccl_profiler_callback_t profiler);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v10_t *props);
    ofi_nccl_result_t (*listen)(int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(int dev, ofi_nccl_comm_config_t *config, void *handle,
                                 void **sendComm, ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                               void *parent, void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                               void **mhandles, void **parents, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
    ofi_nccl_result_t (*makeVDevice)(int *dev, ofi_nccl_virtual_properties_v9_t *props); /* NULL */
} ofi_nccl_net_v10_t;

/* v11: each init gives a context, each finalize takes one; the first init brings the transport up, the
 * last finalize takes it down. A failed init gives none. The logger and the profiler are those of the
 * first init. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(void **ctx, uint64_t commId, ofi_nccl_comm_config_t *config,
                              ofi_nccl_logger_t logger, ofi_nccl_profiler_callback_t profiler);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v11_t *props);
    ofi_nccl_result_t (*listen)(void *ctx, int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(void *ctx, int dev, void *handle, void **sendComm,
                                 ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                               void *parent, void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                               void **mhandles, void **parents, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
    ofi_nccl_result_t (*makeVDevice)(int *dev, ofi_nccl_virtual_properties_v9_t *props); /* NULL */
    ofi_nccl_result_t (*finalize)(void *ctx);
    ofi_nccl_result_t (*setNetAttr)(void *ctx, ofi_nccl_net_attr_t *attr); /* NULL */
} ofi_nccl_net_v11_t;

/* v12: v11 with other properties. */
typedef struct {
    const char *name;
    ofi_nccl_result_t (*init)(void **ctx, uint64_t commId, ofi_nccl_comm_config_t *config,
                              ofi_nccl_logger_t logger, ofi_nccl_profiler_callback_t profiler);
    ofi_nccl_result_t (*devices)(int *ndev);
    ofi_nccl_result_t (*getProperties)(int dev, ofi_nccl_properties_v12_t *props);
    ofi_nccl_result_t (*listen)(void *ctx, int dev, void *handle, void **listenComm);
    ofi_nccl_result_t (*connect)(void *ctx, int dev, void *handle, void **sendComm,
                                 ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*accept)(void *listenComm, void **recvComm,
                                ofi_nccl_device_handle_t **deviceHandle);
    ofi_nccl_result_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ofi_nccl_result_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
    ofi_nccl_result_t (*deregMr)(void *comm, void *mhandle);
    ofi_nccl_result_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                               void *parent, void **request);
    ofi_nccl_result_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                               void **mhandles, void **parents, void **request);
    ofi_nccl_result_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                                void **request);
    ofi_nccl_result_t (*test)(void *request, int *done, int *sizes);
    ofi_nccl_result_t (*closeSend)(void *sendComm);
    ofi_nccl_result_t (*closeRecv)(void *recvComm);
    ofi_nccl_result_t (*closeListen)(void *listenComm);
    ofi_nccl_result_t (*getDeviceMr)(void *comm, void *mhandle, void **deviceMhandle); /* NULL */
    ofi_nccl_result_t (*irecvConsumed)(void *recvComm, int n, void *request); /* NULL */
    ofi_nccl_result_t (*makeVDevice)(int *dev, ofi_nccl_virtual_properties_v12_t *props); /* NULL */
    ofi_nccl_result_t (*finalize)(void *ctx);
    ofi_nccl_result_t (*setNetAttr)(void *ctx, ofi_nccl_net_attr_t *attr); /* NULL */
} ofi_nccl_net_v12_t;

#ifdef __cplusplus
}
#endif

#endif
