//! Flags, modes, options and other values of the headers that are macros or anonymous enums there.

use core::ffi::c_int;

// Capabilities and operation flags, fi_getinfo(3), fi_cq(3), fi_msg(3).
/// Messages.
pub const FI_MSG: u64 = 1 << 1;
/// Remote memory access.
pub const FI_RMA: u64 = 1 << 2;
/// Tagged messages.
pub const FI_TAGGED: u64 = 1 << 3;
/// Atomics.
pub const FI_ATOMIC: u64 = 1 << 4;
/// Multicast.
pub const FI_MULTICAST: u64 = 1 << 5;
/// Collectives.
pub const FI_COLLECTIVE: u64 = 1 << 6;
/// Initiates reads; a completion of a read.
pub const FI_READ: u64 = 1 << 8;
/// Initiates writes; a completion of a write.
pub const FI_WRITE: u64 = 1 << 9;
/// Receives.
pub const FI_RECV: u64 = 1 << 10;
/// Sends.
pub const FI_SEND: u64 = 1 << 11;
/// Target of reads.
pub const FI_REMOTE_READ: u64 = 1 << 12;
/// Target of writes.
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
/// One buffer for many messages.
pub const FI_MULTI_RECV: u64 = 1 << 16;
/// The entry carries CQ data.
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
/// More operations follow at once.
pub const FI_MORE: u64 = 1 << 18;
/// Wait for earlier operations to the same peer.
pub const FI_FENCE: u64 = 1 << 21;
/// Report a completion.
pub const FI_COMPLETION: u64 = 1 << 24;
/// Buffer is free on return.
pub const FI_INJECT: u64 = 1 << 25;
/// Complete when the buffer is free.
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
/// Complete when the peer has it.
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
/// Complete when it is placed at the peer.
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
/// Registration of a dma-buf (1.20).
pub const FI_MR_DMABUF: u64 = 1 << 40;
/// Device memory.
pub const FI_HMEM: u64 = 1 << 47;
/// Errors name unknown sources.
pub const FI_SOURCE_ERR: u64 = 1 << 50;
/// Peers on the same host.
pub const FI_LOCAL_COMM: u64 = 1 << 51;
/// Peers on other hosts.
pub const FI_REMOTE_COMM: u64 = 1 << 52;
/// The node name is an address.
pub const FI_NUMERICHOST: u64 = 1 << 55;
/// fi_getinfo: providers only.
pub const FI_PROV_ATTR_ONLY: u64 = 1 << 54;
/// Counters at the target.
pub const FI_RMA_EVENT: u64 = 1 << 56;
/// Receives tell the source.
pub const FI_SOURCE: u64 = 1 << 57;
/// Receives name the source.
pub const FI_DIRECTED_RECV: u64 = 1 << 59;
/// Bind flag: completions only where asked for.
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
// Mode bits, fi_getinfo(3).
/// Contexts are `fi_context`, 32 bytes.
pub const FI_CONTEXT: u64 = 1 << 59;
/// Room before each message.
pub const FI_MSG_PREFIX: u64 = 1 << 58;
/// I/O vectors stay untouched too.
pub const FI_ASYNC_IOV: u64 = 1 << 57;
/// CQ data consumes posted receives.
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
/// Old name of FI_MR_LOCAL.
pub const FI_LOCAL_MR: u64 = 1 << 55;
/// Contexts are `fi_context2`, 64 bytes.
pub const FI_CONTEXT2: u64 = 1 << 52;
// Memory registration modes, fi_mr(3).
/// Local buffers must be registered.
pub const FI_MR_LOCAL: c_int = 1 << 2;
/// Raw keys.
pub const FI_MR_RAW: c_int = 1 << 3;
/// Peers address by virtual address.
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
/// Memory must exist when registered.
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
/// The provider chooses keys.
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
/// The provider must be told of remapping.
pub const FI_MR_MMU_NOTIFY: c_int = 1 << 7;
/// Regions are bound to counters.
pub const FI_MR_RMA_EVENT: c_int = 1 << 8;
/// Regions are bound to endpoints.
pub const FI_MR_ENDPOINT: c_int = 1 << 9;
/// FI_MR_LOCAL for device memory.
pub const FI_MR_HMEM: c_int = 1 << 10;
/// Registration for collectives.
pub const FI_MR_COLLECTIVE: c_int = 1 << 11;

// Special values.

/// Any source, or no address.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
/// An address that could not be resolved.
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
/// No key.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// Also an `enum fi_progress` of 2.x: control and data progress are one.
pub const FI_PROGRESS_CONTROL_UNIFIED: u32 = 3;

// Address formats, fi_getinfo(3).

/// Unspecified.
pub const FI_FORMAT_UNSPEC: u32 = 0;
/// `struct sockaddr`.
pub const FI_SOCKADDR: u32 = 1;
/// `struct sockaddr_in`, 16 bytes.
pub const FI_SOCKADDR_IN: u32 = 2;
/// `struct sockaddr_in6`, 28 bytes.
pub const FI_SOCKADDR_IN6: u32 = 3;
/// `struct sockaddr_ib`, 48 bytes.
pub const FI_SOCKADDR_IB: u32 = 4;
/// NUL-terminated string.
pub const FI_ADDR_STR: u32 = 9;
/// EFA's, 32 bytes.
pub const FI_ADDR_EFA: u32 = 12;

// Wire protocols, fi_endpoint(3).

/// Unspecified.
pub const FI_PROTO_UNSPEC: u32 = 0;
/// TCP messages.
pub const FI_PROTO_SOCK_TCP: u32 = 6;
/// RxM.
pub const FI_PROTO_RXM: u32 = 11;
/// RxD.
pub const FI_PROTO_RXD: u32 = 12;
/// Shared memory.
pub const FI_PROTO_SHM: u32 = 16;
/// EFA's RDM protocol.
pub const FI_PROTO_EFA: u32 = 20;
/// RxM over TCP.
pub const FI_PROTO_RXM_TCP: u32 = 22;
/// TCP with native RDM endpoints.
pub const FI_PROTO_XNET: u32 = 25;

// Ordering between operations of one endpoint to one peer, fi_endpoint(3).

/// Sends after sends.
pub const FI_ORDER_SAS: u64 = 1 << 8;

// Traffic classes, fi_endpoint(3).

/// Unspecified.
pub const FI_TC_UNSPEC: u32 = 0;
/// Best effort.
pub const FI_TC_BEST_EFFORT: u32 = 0x200;
/// Low latency.
pub const FI_TC_LOW_LATENCY: u32 = 0x201;
/// Dedicated access.
pub const FI_TC_DEDICATED_ACCESS: u32 = 0x202;
/// Bulk data.
pub const FI_TC_BULK_DATA: u32 = 0x203;
/// Scavenger.
pub const FI_TC_SCAVENGER: u32 = 0x204;
/// Network control.
pub const FI_TC_NETWORK_CTRL: u32 = 0x205;

// Classes of fids (`fid.fclass`), fabric.h.

/// Class unspec.
pub const FI_CLASS_UNSPEC: usize = 0;
/// Class fabric.
pub const FI_CLASS_FABRIC: usize = 1;
/// Class domain.
pub const FI_CLASS_DOMAIN: usize = 2;
/// Class ep.
pub const FI_CLASS_EP: usize = 3;
/// Class sep.
pub const FI_CLASS_SEP: usize = 4;
/// Class rx_ctx.
pub const FI_CLASS_RX_CTX: usize = 5;
/// Class srx_ctx.
pub const FI_CLASS_SRX_CTX: usize = 6;
/// Class tx_ctx.
pub const FI_CLASS_TX_CTX: usize = 7;
/// Class stx_ctx.
pub const FI_CLASS_STX_CTX: usize = 8;
/// Class pep.
pub const FI_CLASS_PEP: usize = 9;
/// Class interface.
pub const FI_CLASS_INTERFACE: usize = 10;
/// Class av.
pub const FI_CLASS_AV: usize = 11;
/// Class mr.
pub const FI_CLASS_MR: usize = 12;
/// Class eq.
pub const FI_CLASS_EQ: usize = 13;
/// Class cq.
pub const FI_CLASS_CQ: usize = 14;
/// Class cntr.
pub const FI_CLASS_CNTR: usize = 15;
/// Class wait.
pub const FI_CLASS_WAIT: usize = 16;
/// Class poll.
pub const FI_CLASS_POLL: usize = 17;
/// Class connreq.
pub const FI_CLASS_CONNREQ: usize = 18;
/// Class mc.
pub const FI_CLASS_MC: usize = 19;
/// Class nic.
pub const FI_CLASS_NIC: usize = 20;

// Commands of `fi_ops.control`, fi_control(3).

/// Command getfidflag.
pub const FI_GETFIDFLAG: c_int = 0;
/// Command setfidflag.
pub const FI_SETFIDFLAG: c_int = 1;
/// Command getopsflag.
pub const FI_GETOPSFLAG: c_int = 2;
/// Command setopsflag.
pub const FI_SETOPSFLAG: c_int = 3;
/// Command alias.
pub const FI_ALIAS: c_int = 4;
/// Command getwait.
pub const FI_GETWAIT: c_int = 5;
/// Command enable.
pub const FI_ENABLE: c_int = 6;
/// Command backlog.
pub const FI_BACKLOG: c_int = 7;
/// Command get_raw_mr.
pub const FI_GET_RAW_MR: c_int = 8;
/// Command map_raw_mr.
pub const FI_MAP_RAW_MR: c_int = 9;
/// Command unmap_key.
pub const FI_UNMAP_KEY: c_int = 10;
/// Command queue_work.
pub const FI_QUEUE_WORK: c_int = 11;
/// Command cancel_work.
pub const FI_CANCEL_WORK: c_int = 12;
/// Command flush_work.
pub const FI_FLUSH_WORK: c_int = 13;
/// Command refresh.
pub const FI_REFRESH: c_int = 14;
/// Command dup.
pub const FI_DUP: c_int = 15;

// Endpoint options, fi_endpoint(3).

/// The level of all of them.
pub const FI_OPT_ENDPOINT: c_int = 0;
/// usize: when a multi-receive buffer is released.
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
/// usize: bytes of connection data.
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;
/// usize: transmit queue.
pub const FI_OPT_TX_SIZE: c_int = 6;
/// usize: receive queue.
pub const FI_OPT_RX_SIZE: c_int = 7;
/// int: peer to peer with device memory.
pub const FI_OPT_FI_HMEM_P2P: c_int = 8;
/// bool (1.18): the provider may call CUDA.
pub const FI_OPT_CUDA_API_PERMITTED: c_int = 10;
/// bool (1.21): shared memory between local peers.
pub const FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
/// usize (1.22): largest message.
pub const FI_OPT_MAX_MSG_SIZE: c_int = 12;
/// usize (1.22): largest tagged message.
pub const FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
/// usize (1.22): largest RMA.
pub const FI_OPT_MAX_RMA_SIZE: c_int = 14;
/// usize (1.22): largest atomic.
pub const FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
/// usize (1.22): largest injected message.
pub const FI_OPT_INJECT_MSG_SIZE: c_int = 16;
/// usize (1.22): largest injected tagged message.
pub const FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
/// usize (1.22): largest injected write.
pub const FI_OPT_INJECT_RMA_SIZE: c_int = 18;
/// usize (1.22): largest injected atomic.
pub const FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;

// Endpoint options of the EFA provider, fi_efa(7), counted up from -(0xefa << 16).

/// usize (1.14): receiver-not-ready retries, 0 to 7.
pub const FI_OPT_EFA_RNR_RETRY: c_int = -251265024;
/// bool (1.18): reads are emulated.
pub const FI_OPT_EFA_EMULATED_READ: c_int = -251265023;
/// bool (1.18): writes are emulated.
pub const FI_OPT_EFA_EMULATED_WRITE: c_int = -251265022;
/// bool (1.18): atomics are emulated.
pub const FI_OPT_EFA_EMULATED_ATOMICS: c_int = -251265021;
/// bool (1.19): use the device's RDMA.
pub const FI_OPT_EFA_USE_DEVICE_RDMA: c_int = -251265020;
/// bool (1.19): 128-byte blocks of messages land in order.
pub const FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265019;
/// bool (1.19): 128-byte blocks of writes land in order.
pub const FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265018;
/// bool (2.2): all peers have the same features.
pub const FI_OPT_EFA_HOMOGENEOUS_PEERS: c_int = -251265017;
/// bool (2.5): incoming immediates need no posted receive.
pub const FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV: c_int = -251265016;
