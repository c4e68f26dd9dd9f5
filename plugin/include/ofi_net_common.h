/* SPDX-License-Identifier: Apache-2.0
 *
 * What the net tables of Neuron (ofi_neuron_net.h) and of NCCL (ofi_nccl_net.h) share. The tables have
 * the same symbol names and are different structs: a program loads them from different libraries.
 * x86-64 and aarch64, little-endian. C11 or C++17.
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
#ifndef OFI_NET_COMMON_H
#define OFI_NET_COMMON_H

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

/* Memory of the host: a bit of ptrSupport, and the type argument of regMr. */
enum { OFI_NCCL_PTR_HOST = 0x1 };

/* Bytes of a connection handle, of which 88 are used (Neuron's v4: 64). A handle is carried to the peer
 * as it is, and connect keeps its state in it: give each connect a fresh copy. */
enum { OFI_NCCL_HANDLE_BYTES = 128 };

/* Put into *request before irecv: the caller does not need to know when the data has arrived. */
#define OFI_NCCL_OPTIONAL_RECV_COMPLETION ((void *)0x1)

/* Levels and subsystems that the logger is called with. */
enum { OFI_NCCL_LOG_WARN = 2, OFI_NCCL_LOG_INFO = 3 };

/* Printf-like; called from any thread until the plugin is finalised. May be NULL. */
typedef void (*ofi_nccl_logger_t)(int level, unsigned long flags, const char *file, int line,
                                  const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
