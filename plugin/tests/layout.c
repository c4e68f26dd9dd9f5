/* SPDX-License-Identifier: Apache-2.0
 * The published headers against the tables of protocol 2a.2 and 2a.3, as C11 and as C++17: every size,
 * every offset. It is compiled and not run. */
#include "../include/ofi_nccl_net.h"
#include "../include/ofi_neuron_net.h"

#ifdef __cplusplus
#define ASSERT(condition) static_assert(condition, #condition)
#else
#define ASSERT(condition) _Static_assert(condition, #condition)
#endif

#define SIZE(type, bytes) ASSERT(sizeof(type) == (bytes))
#define AT(type, field, offset) ASSERT(offsetof(type, field) == (offset))
#define SLOT(type, field, slot) ASSERT(offsetof(type, field) == (slot) * 8)

ASSERT(sizeof(void *) == 8 && sizeof(int) == 4 && sizeof(float) == 4 && sizeof(size_t) == 8);

/* ---- Neuron ---- */

SIZE(ofi_neuron_properties_v4_t, 40);
AT(ofi_neuron_properties_v4_t, name, 0);
AT(ofi_neuron_properties_v4_t, pciPath, 8);
AT(ofi_neuron_properties_v4_t, guid, 16);
AT(ofi_neuron_properties_v4_t, ptrSupport, 24);
AT(ofi_neuron_properties_v4_t, speed, 28);
AT(ofi_neuron_properties_v4_t, port, 32);
AT(ofi_neuron_properties_v4_t, maxComms, 36);

SIZE(ofi_neuron_properties_v5_t, 80);
AT(ofi_neuron_properties_v5_t, name, 0);
AT(ofi_neuron_properties_v5_t, pciPath, 8);
AT(ofi_neuron_properties_v5_t, guid, 16);
AT(ofi_neuron_properties_v5_t, ptrSupport, 24);
AT(ofi_neuron_properties_v5_t, regIsGlobal, 28);
AT(ofi_neuron_properties_v5_t, speed, 32);
AT(ofi_neuron_properties_v5_t, port, 36);
AT(ofi_neuron_properties_v5_t, latency, 40);
AT(ofi_neuron_properties_v5_t, maxComms, 44);
AT(ofi_neuron_properties_v5_t, maxRecvs, 48);
AT(ofi_neuron_properties_v5_t, maxWriteInlineSize, 56);
AT(ofi_neuron_properties_v5_t, maxMrKeySize, 64);
AT(ofi_neuron_properties_v5_t, rmaSupported, 72);
SIZE(ofi_neuron_properties_v6_t, 80);

SIZE(ofi_neuron_net_v4_t, 128);
SLOT(ofi_neuron_net_v4_t, name, 0);
SLOT(ofi_neuron_net_v4_t, init, 1);
SLOT(ofi_neuron_net_v4_t, devices, 2);
SLOT(ofi_neuron_net_v4_t, getProperties, 3);
SLOT(ofi_neuron_net_v4_t, listen, 4);
SLOT(ofi_neuron_net_v4_t, connect, 5);
SLOT(ofi_neuron_net_v4_t, accept, 6);
SLOT(ofi_neuron_net_v4_t, regMr, 7);
SLOT(ofi_neuron_net_v4_t, deregMr, 8);
SLOT(ofi_neuron_net_v4_t, isend, 9);
SLOT(ofi_neuron_net_v4_t, irecv, 10);
SLOT(ofi_neuron_net_v4_t, iflush, 11);
SLOT(ofi_neuron_net_v4_t, test, 12);
SLOT(ofi_neuron_net_v4_t, closeSend, 13);
SLOT(ofi_neuron_net_v4_t, closeRecv, 14);
SLOT(ofi_neuron_net_v4_t, closeListen, 15);

SIZE(ofi_neuron_net_v5_t, 168);
SLOT(ofi_neuron_net_v5_t, name, 0);
SLOT(ofi_neuron_net_v5_t, init, 1);
SLOT(ofi_neuron_net_v5_t, devices, 2);
SLOT(ofi_neuron_net_v5_t, getProperties, 3);
SLOT(ofi_neuron_net_v5_t, listen, 4);
SLOT(ofi_neuron_net_v5_t, connect, 5);
SLOT(ofi_neuron_net_v5_t, accept, 6);
SLOT(ofi_neuron_net_v5_t, regMr, 7);
SLOT(ofi_neuron_net_v5_t, regMrDmaBuf, 8);
SLOT(ofi_neuron_net_v5_t, deregMr, 9);
SLOT(ofi_neuron_net_v5_t, isend, 10);
SLOT(ofi_neuron_net_v5_t, irecv, 11);
SLOT(ofi_neuron_net_v5_t, iflush, 12);
SLOT(ofi_neuron_net_v5_t, test, 13);
SLOT(ofi_neuron_net_v5_t, closeSend, 14);
SLOT(ofi_neuron_net_v5_t, closeRecv, 15);
SLOT(ofi_neuron_net_v5_t, closeListen, 16);
SLOT(ofi_neuron_net_v5_t, getMrKey, 17);
SLOT(ofi_neuron_net_v5_t, iwrite, 18);
SLOT(ofi_neuron_net_v5_t, iwriteInline, 19);
SLOT(ofi_neuron_net_v5_t, iread, 20);

SIZE(ofi_neuron_net_v6_t, 176);
SLOT(ofi_neuron_net_v6_t, name, 0);
SLOT(ofi_neuron_net_v6_t, init, 1);
SLOT(ofi_neuron_net_v6_t, fini, 2);
SLOT(ofi_neuron_net_v6_t, devices, 3);
SLOT(ofi_neuron_net_v6_t, getProperties, 4);
SLOT(ofi_neuron_net_v6_t, listen, 5);
SLOT(ofi_neuron_net_v6_t, connect, 6);
SLOT(ofi_neuron_net_v6_t, accept, 7);
SLOT(ofi_neuron_net_v6_t, regMr, 8);
SLOT(ofi_neuron_net_v6_t, regMrDmaBuf, 9);
SLOT(ofi_neuron_net_v6_t, deregMr, 10);
SLOT(ofi_neuron_net_v6_t, isend, 11);
SLOT(ofi_neuron_net_v6_t, irecv, 12);
SLOT(ofi_neuron_net_v6_t, iflush, 13);
SLOT(ofi_neuron_net_v6_t, test, 14);
SLOT(ofi_neuron_net_v6_t, closeSend, 15);
SLOT(ofi_neuron_net_v6_t, closeRecv, 16);
SLOT(ofi_neuron_net_v6_t, closeListen, 17);
SLOT(ofi_neuron_net_v6_t, getMrKey, 18);
SLOT(ofi_neuron_net_v6_t, iwrite, 19);
SLOT(ofi_neuron_net_v6_t, iwriteInline, 20);
SLOT(ofi_neuron_net_v6_t, iread, 21);

/* ---- NCCL ---- */

SIZE(ofi_nccl_comm_config_t, 4);
AT(ofi_nccl_comm_config_t, trafficClass, 0);

SIZE(ofi_nccl_device_handle_t, 32);
AT(ofi_nccl_device_handle_t, netDeviceType, 0);
AT(ofi_nccl_device_handle_t, netDeviceVersion, 4);
AT(ofi_nccl_device_handle_t, handle, 8);
AT(ofi_nccl_device_handle_t, size, 16);
AT(ofi_nccl_device_handle_t, needsProxyProgress, 24);

SIZE(ofi_nccl_net_attr_t, 44);
AT(ofi_nccl_net_attr_t, sendCommAttr, 0);
AT(ofi_nccl_net_attr_t, recvCommAttr, 16);
AT(ofi_nccl_net_attr_t, op, 32);
AT(ofi_nccl_net_attr_t, algo, 36);
AT(ofi_nccl_net_attr_t, proto, 40);

SIZE(ofi_nccl_comm_attr_t, 16);
AT(ofi_nccl_comm_attr_t, maxConcurrentPeers, 0);
AT(ofi_nccl_comm_attr_t, minConcurrentPeers, 4);
AT(ofi_nccl_comm_attr_t, maxFlowsPerPeer, 8);
AT(ofi_nccl_comm_attr_t, minFlowsPerPeer, 12);

SIZE(ofi_nccl_profiler_event_v1_t, 32);
AT(ofi_nccl_profiler_event_v1_t, bytes, 0);
AT(ofi_nccl_profiler_event_v1_t, direction, 4);
AT(ofi_nccl_profiler_event_v1_t, state, 8);
AT(ofi_nccl_profiler_event_v1_t, rails, 12);
AT(ofi_nccl_profiler_event_v1_t, size, 16);
AT(ofi_nccl_profiler_event_v1_t, comm, 24);

SIZE(ofi_nccl_properties_v6_t, 48);
AT(ofi_nccl_properties_v6_t, name, 0);
AT(ofi_nccl_properties_v6_t, pciPath, 8);
AT(ofi_nccl_properties_v6_t, guid, 16);
AT(ofi_nccl_properties_v6_t, ptrSupport, 24);
AT(ofi_nccl_properties_v6_t, speed, 28);
AT(ofi_nccl_properties_v6_t, port, 32);
AT(ofi_nccl_properties_v6_t, latency, 36);
AT(ofi_nccl_properties_v6_t, maxComms, 40);
AT(ofi_nccl_properties_v6_t, maxRecvs, 44);

SIZE(ofi_nccl_properties_v7_t, 56);
AT(ofi_nccl_properties_v7_t, name, 0);
AT(ofi_nccl_properties_v7_t, pciPath, 8);
AT(ofi_nccl_properties_v7_t, guid, 16);
AT(ofi_nccl_properties_v7_t, ptrSupport, 24);
AT(ofi_nccl_properties_v7_t, speed, 28);
AT(ofi_nccl_properties_v7_t, port, 32);
AT(ofi_nccl_properties_v7_t, latency, 36);
AT(ofi_nccl_properties_v7_t, maxComms, 40);
AT(ofi_nccl_properties_v7_t, maxRecvs, 44);
AT(ofi_nccl_properties_v7_t, netDeviceType, 48);
AT(ofi_nccl_properties_v7_t, netDeviceVersion, 52);

SIZE(ofi_nccl_properties_v8_t, 64);
AT(ofi_nccl_properties_v8_t, name, 0);
AT(ofi_nccl_properties_v8_t, pciPath, 8);
AT(ofi_nccl_properties_v8_t, guid, 16);
AT(ofi_nccl_properties_v8_t, ptrSupport, 24);
AT(ofi_nccl_properties_v8_t, regIsGlobal, 28);
AT(ofi_nccl_properties_v8_t, speed, 32);
AT(ofi_nccl_properties_v8_t, port, 36);
AT(ofi_nccl_properties_v8_t, latency, 40);
AT(ofi_nccl_properties_v8_t, maxComms, 44);
AT(ofi_nccl_properties_v8_t, maxRecvs, 48);
AT(ofi_nccl_properties_v8_t, netDeviceType, 52);
AT(ofi_nccl_properties_v8_t, netDeviceVersion, 56);

SIZE(ofi_nccl_virtual_properties_v9_t, 20);
AT(ofi_nccl_virtual_properties_v9_t, ndevs, 0);
AT(ofi_nccl_virtual_properties_v9_t, devs, 4);

SIZE(ofi_nccl_virtual_properties_v12_t, 36);
AT(ofi_nccl_virtual_properties_v12_t, ndevs, 0);
AT(ofi_nccl_virtual_properties_v12_t, devs, 4);

SIZE(ofi_nccl_properties_v9_t, 104);
AT(ofi_nccl_properties_v9_t, name, 0);
AT(ofi_nccl_properties_v9_t, pciPath, 8);
AT(ofi_nccl_properties_v9_t, guid, 16);
AT(ofi_nccl_properties_v9_t, ptrSupport, 24);
AT(ofi_nccl_properties_v9_t, regIsGlobal, 28);
AT(ofi_nccl_properties_v9_t, forceFlush, 32);
AT(ofi_nccl_properties_v9_t, speed, 36);
AT(ofi_nccl_properties_v9_t, port, 40);
AT(ofi_nccl_properties_v9_t, latency, 44);
AT(ofi_nccl_properties_v9_t, maxComms, 48);
AT(ofi_nccl_properties_v9_t, maxRecvs, 52);
AT(ofi_nccl_properties_v9_t, netDeviceType, 56);
AT(ofi_nccl_properties_v9_t, netDeviceVersion, 60);
AT(ofi_nccl_properties_v9_t, vProps, 64);
AT(ofi_nccl_properties_v9_t, maxP2pBytes, 88);
AT(ofi_nccl_properties_v9_t, maxCollBytes, 96);
SIZE(ofi_nccl_properties_v10_t, 104);

SIZE(ofi_nccl_properties_v11_t, 112);
AT(ofi_nccl_properties_v11_t, name, 0);
AT(ofi_nccl_properties_v11_t, pciPath, 8);
AT(ofi_nccl_properties_v11_t, guid, 16);
AT(ofi_nccl_properties_v11_t, ptrSupport, 24);
AT(ofi_nccl_properties_v11_t, regIsGlobal, 28);
AT(ofi_nccl_properties_v11_t, forceFlush, 32);
AT(ofi_nccl_properties_v11_t, speed, 36);
AT(ofi_nccl_properties_v11_t, port, 40);
AT(ofi_nccl_properties_v11_t, latency, 44);
AT(ofi_nccl_properties_v11_t, maxComms, 48);
AT(ofi_nccl_properties_v11_t, maxRecvs, 52);
AT(ofi_nccl_properties_v11_t, netDeviceType, 56);
AT(ofi_nccl_properties_v11_t, netDeviceVersion, 60);
AT(ofi_nccl_properties_v11_t, vProps, 64);
AT(ofi_nccl_properties_v11_t, maxP2pBytes, 88);
AT(ofi_nccl_properties_v11_t, maxCollBytes, 96);
AT(ofi_nccl_properties_v11_t, maxMultiRequestSize, 104);

SIZE(ofi_nccl_properties_v12_t, 128);
AT(ofi_nccl_properties_v12_t, name, 0);
AT(ofi_nccl_properties_v12_t, pciPath, 8);
AT(ofi_nccl_properties_v12_t, guid, 16);
AT(ofi_nccl_properties_v12_t, ptrSupport, 24);
AT(ofi_nccl_properties_v12_t, regIsGlobal, 28);
AT(ofi_nccl_properties_v12_t, forceFlush, 32);
AT(ofi_nccl_properties_v12_t, speed, 36);
AT(ofi_nccl_properties_v12_t, port, 40);
AT(ofi_nccl_properties_v12_t, latency, 44);
AT(ofi_nccl_properties_v12_t, maxComms, 48);
AT(ofi_nccl_properties_v12_t, maxRecvs, 52);
AT(ofi_nccl_properties_v12_t, netDeviceType, 56);
AT(ofi_nccl_properties_v12_t, netDeviceVersion, 60);
AT(ofi_nccl_properties_v12_t, vProps, 64);
AT(ofi_nccl_properties_v12_t, maxP2pBytes, 104);
AT(ofi_nccl_properties_v12_t, maxCollBytes, 112);
AT(ofi_nccl_properties_v12_t, maxMultiRequestSize, 120);
AT(ofi_nccl_properties_v12_t, railId, 124);
AT(ofi_nccl_properties_v12_t, planeId, 126);

SIZE(ofi_nccl_net_v6_t, 136);
SLOT(ofi_nccl_net_v6_t, name, 0);
SLOT(ofi_nccl_net_v6_t, init, 1);
SLOT(ofi_nccl_net_v6_t, devices, 2);
SLOT(ofi_nccl_net_v6_t, getProperties, 3);
SLOT(ofi_nccl_net_v6_t, listen, 4);
SLOT(ofi_nccl_net_v6_t, connect, 5);
SLOT(ofi_nccl_net_v6_t, accept, 6);
SLOT(ofi_nccl_net_v6_t, regMr, 7);
SLOT(ofi_nccl_net_v6_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v6_t, deregMr, 9);
SLOT(ofi_nccl_net_v6_t, isend, 10);
SLOT(ofi_nccl_net_v6_t, irecv, 11);
SLOT(ofi_nccl_net_v6_t, iflush, 12);
SLOT(ofi_nccl_net_v6_t, test, 13);
SLOT(ofi_nccl_net_v6_t, closeSend, 14);
SLOT(ofi_nccl_net_v6_t, closeRecv, 15);
SLOT(ofi_nccl_net_v6_t, closeListen, 16);

SIZE(ofi_nccl_net_v7_t, 152);
SLOT(ofi_nccl_net_v7_t, name, 0);
SLOT(ofi_nccl_net_v7_t, init, 1);
SLOT(ofi_nccl_net_v7_t, devices, 2);
SLOT(ofi_nccl_net_v7_t, getProperties, 3);
SLOT(ofi_nccl_net_v7_t, listen, 4);
SLOT(ofi_nccl_net_v7_t, connect, 5);
SLOT(ofi_nccl_net_v7_t, accept, 6);
SLOT(ofi_nccl_net_v7_t, regMr, 7);
SLOT(ofi_nccl_net_v7_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v7_t, deregMr, 9);
SLOT(ofi_nccl_net_v7_t, isend, 10);
SLOT(ofi_nccl_net_v7_t, irecv, 11);
SLOT(ofi_nccl_net_v7_t, iflush, 12);
SLOT(ofi_nccl_net_v7_t, test, 13);
SLOT(ofi_nccl_net_v7_t, closeSend, 14);
SLOT(ofi_nccl_net_v7_t, closeRecv, 15);
SLOT(ofi_nccl_net_v7_t, closeListen, 16);
SLOT(ofi_nccl_net_v7_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v7_t, irecvConsumed, 18);

SIZE(ofi_nccl_net_v8_t, 152);
SLOT(ofi_nccl_net_v8_t, name, 0);
SLOT(ofi_nccl_net_v8_t, init, 1);
SLOT(ofi_nccl_net_v8_t, devices, 2);
SLOT(ofi_nccl_net_v8_t, getProperties, 3);
SLOT(ofi_nccl_net_v8_t, listen, 4);
SLOT(ofi_nccl_net_v8_t, connect, 5);
SLOT(ofi_nccl_net_v8_t, accept, 6);
SLOT(ofi_nccl_net_v8_t, regMr, 7);
SLOT(ofi_nccl_net_v8_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v8_t, deregMr, 9);
SLOT(ofi_nccl_net_v8_t, isend, 10);
SLOT(ofi_nccl_net_v8_t, irecv, 11);
SLOT(ofi_nccl_net_v8_t, iflush, 12);
SLOT(ofi_nccl_net_v8_t, test, 13);
SLOT(ofi_nccl_net_v8_t, closeSend, 14);
SLOT(ofi_nccl_net_v8_t, closeRecv, 15);
SLOT(ofi_nccl_net_v8_t, closeListen, 16);
SLOT(ofi_nccl_net_v8_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v8_t, irecvConsumed, 18);

SIZE(ofi_nccl_net_v9_t, 160);
SLOT(ofi_nccl_net_v9_t, name, 0);
SLOT(ofi_nccl_net_v9_t, init, 1);
SLOT(ofi_nccl_net_v9_t, devices, 2);
SLOT(ofi_nccl_net_v9_t, getProperties, 3);
SLOT(ofi_nccl_net_v9_t, listen, 4);
SLOT(ofi_nccl_net_v9_t, connect, 5);
SLOT(ofi_nccl_net_v9_t, accept, 6);
SLOT(ofi_nccl_net_v9_t, regMr, 7);
SLOT(ofi_nccl_net_v9_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v9_t, deregMr, 9);
SLOT(ofi_nccl_net_v9_t, isend, 10);
SLOT(ofi_nccl_net_v9_t, irecv, 11);
SLOT(ofi_nccl_net_v9_t, iflush, 12);
SLOT(ofi_nccl_net_v9_t, test, 13);
SLOT(ofi_nccl_net_v9_t, closeSend, 14);
SLOT(ofi_nccl_net_v9_t, closeRecv, 15);
SLOT(ofi_nccl_net_v9_t, closeListen, 16);
SLOT(ofi_nccl_net_v9_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v9_t, irecvConsumed, 18);
SLOT(ofi_nccl_net_v9_t, makeVDevice, 19);

SIZE(ofi_nccl_net_v10_t, 160);
SLOT(ofi_nccl_net_v10_t, name, 0);
SLOT(ofi_nccl_net_v10_t, init, 1);
SLOT(ofi_nccl_net_v10_t, devices, 2);
SLOT(ofi_nccl_net_v10_t, getProperties, 3);
SLOT(ofi_nccl_net_v10_t, listen, 4);
SLOT(ofi_nccl_net_v10_t, connect, 5);
SLOT(ofi_nccl_net_v10_t, accept, 6);
SLOT(ofi_nccl_net_v10_t, regMr, 7);
SLOT(ofi_nccl_net_v10_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v10_t, deregMr, 9);
SLOT(ofi_nccl_net_v10_t, isend, 10);
SLOT(ofi_nccl_net_v10_t, irecv, 11);
SLOT(ofi_nccl_net_v10_t, iflush, 12);
SLOT(ofi_nccl_net_v10_t, test, 13);
SLOT(ofi_nccl_net_v10_t, closeSend, 14);
SLOT(ofi_nccl_net_v10_t, closeRecv, 15);
SLOT(ofi_nccl_net_v10_t, closeListen, 16);
SLOT(ofi_nccl_net_v10_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v10_t, irecvConsumed, 18);
SLOT(ofi_nccl_net_v10_t, makeVDevice, 19);

SIZE(ofi_nccl_net_v11_t, 176);
SLOT(ofi_nccl_net_v11_t, name, 0);
SLOT(ofi_nccl_net_v11_t, init, 1);
SLOT(ofi_nccl_net_v11_t, devices, 2);
SLOT(ofi_nccl_net_v11_t, getProperties, 3);
SLOT(ofi_nccl_net_v11_t, listen, 4);
SLOT(ofi_nccl_net_v11_t, connect, 5);
SLOT(ofi_nccl_net_v11_t, accept, 6);
SLOT(ofi_nccl_net_v11_t, regMr, 7);
SLOT(ofi_nccl_net_v11_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v11_t, deregMr, 9);
SLOT(ofi_nccl_net_v11_t, isend, 10);
SLOT(ofi_nccl_net_v11_t, irecv, 11);
SLOT(ofi_nccl_net_v11_t, iflush, 12);
SLOT(ofi_nccl_net_v11_t, test, 13);
SLOT(ofi_nccl_net_v11_t, closeSend, 14);
SLOT(ofi_nccl_net_v11_t, closeRecv, 15);
SLOT(ofi_nccl_net_v11_t, closeListen, 16);
SLOT(ofi_nccl_net_v11_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v11_t, irecvConsumed, 18);
SLOT(ofi_nccl_net_v11_t, makeVDevice, 19);
SLOT(ofi_nccl_net_v11_t, finalize, 20);
SLOT(ofi_nccl_net_v11_t, setNetAttr, 21);

SIZE(ofi_nccl_net_v12_t, 176);
SLOT(ofi_nccl_net_v12_t, name, 0);
SLOT(ofi_nccl_net_v12_t, init, 1);
SLOT(ofi_nccl_net_v12_t, devices, 2);
SLOT(ofi_nccl_net_v12_t, getProperties, 3);
SLOT(ofi_nccl_net_v12_t, listen, 4);
SLOT(ofi_nccl_net_v12_t, connect, 5);
SLOT(ofi_nccl_net_v12_t, accept, 6);
SLOT(ofi_nccl_net_v12_t, regMr, 7);
SLOT(ofi_nccl_net_v12_t, regMrDmaBuf, 8);
SLOT(ofi_nccl_net_v12_t, deregMr, 9);
SLOT(ofi_nccl_net_v12_t, isend, 10);
SLOT(ofi_nccl_net_v12_t, irecv, 11);
SLOT(ofi_nccl_net_v12_t, iflush, 12);
SLOT(ofi_nccl_net_v12_t, test, 13);
SLOT(ofi_nccl_net_v12_t, closeSend, 14);
SLOT(ofi_nccl_net_v12_t, closeRecv, 15);
SLOT(ofi_nccl_net_v12_t, closeListen, 16);
SLOT(ofi_nccl_net_v12_t, getDeviceMr, 17);
SLOT(ofi_nccl_net_v12_t, irecvConsumed, 18);
SLOT(ofi_nccl_net_v12_t, makeVDevice, 19);
SLOT(ofi_nccl_net_v12_t, finalize, 20);
SLOT(ofi_nccl_net_v12_t, setNetAttr, 21);
