//! The one table of error codes: number, errno of the translation, title, likely causes (most likely
//! first), what to do. Numbers are stable: a code is never reused for something else.

/// Whether something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// A call, a connection or a device failed: `OFI-Exxxx`.
    Error,
    /// The job runs on, and somebody should do something about it: `OFI-Wxxxx`.
    Warning,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CodeInfo {
    /// The stable number of `OFI-Exxxx` or `OFI-Wxxxx`; of one code only, whatever the letter.
    pub number: u16,
    /// The letter.
    pub severity: Severity,
    /// Errno (positive) that the translation of protocol 2a.1 sees unless the error carries another.
    pub errno: i32,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Likely causes, most likely first.
    pub likely: &'static [&'static str],
    /// What to do about it.
    pub fix: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $severity:ident $number:literal, $errno:ident, $title:literal,
        [$($likely:literal),* $(,)?], $fix:literal;)*) => {
        /// What kind of error it is: the key of the table, printed as `OFI-Exxxx` or `OFI-Wxxxx`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its row of the table.
            #[must_use]
            pub const fn info(self) -> &'static CodeInfo {
                match self {
                    $(Self::$name => &CodeInfo {
                        number: $number,
                        severity: Severity::$severity,
                        errno: libc::$errno,
                        title: $title,
                        likely: &[$($likely),*],
                        fix: $fix,
                    },)*
                }
            }
        }
    };
}

codes! {
    /// libfabric is not there.
    NoLibfabric = Error 101, ENOENT, "libfabric could not be loaded",
        ["libfabric is not installed", "it is installed where the loader does not look"],
        "install it (Debian: apt-get install libfabric1; AWS: the EFA installer) or set OFI_NCCL_LIBFABRIC_PATH to its libfabric.so.1";
    /// libfabric is older than what can be worked with.
    LibfabricTooOld = Error 102, ENOTSUP, "libfabric is too old",
        ["an old copy comes first on the loader's path"],
        "install libfabric 1.17 or newer, or set OFI_NCCL_LIBFABRIC_PATH to one";
    /// `fi_getinfo(3)` has nothing for any set of hints.
    NoProvider = Error 103, ENODATA, "no libfabric provider fits",
        ["FI_PROVIDER names a provider that this libfabric does not have", "no NIC is visible here (a size of the instance type without EFA, a container without /dev/infiniband)"],
        "compare with `fi_info -l` (Debian: in libfabric-bin); unset FI_PROVIDER, or set it to one of those (tcp, tcp;ofi_rxm, shm)";
    /// Providers were found, and every entry was rejected.
    AllRejected = Error 104, ENODATA, "every libfabric provider entry was rejected",
        ["the only network interfaces are excluded by OFI_NCCL_EXCLUDE_TCP_IF", "no interface is up"],
        "see to the reasons above (each entry has its own line at the log level INFO); to use the loopback interface set OFI_NCCL_EXCLUDE_TCP_IF to the empty string";
    /// The EFA provider of libfabric before 1.22 (decision 6).
    EfaTooOld = Error 105, ENOTSUP, "the EFA provider of this libfabric is too old",
        ["the distribution's libfabric is found before the EFA installer's"],
        "install the EFA installer's libfabric (1.22 or newer), or set OFI_NCCL_LIBFABRIC_PATH to it; OFI_NCCL_DISABLE_EFA_VERSION_CHECK=1 overrides for tests";
    // 106 was a protocol that the plugin did not have: it has both.
    /// init while initialised.
    AlreadyInitialised = Error 107, EALREADY, "the plugin is initialised already",
        ["init was called twice without fini"],
        "call fini before the next init";
    /// A call before init or after fini.
    NotInitialised = Error 108, EINVAL, "the plugin is not initialised",
        ["init failed and its result was not looked at", "fini was called before this call"],
        "call init first and check its result";
    /// A call in the child of a fork (decision 22).
    Forked = Error 109, ENOTSUP, "this process is a fork of the one that initialised the plugin",
        ["a data loader or launcher forked after the collectives library had started"],
        "make no calls in the child; start workers before the collectives library, or with spawn instead of fork";
    /// A NIC could not be opened.
    DeviceOpen = Error 110, ENODEV, "a network device could not be opened",
        ["the limit of locked memory is low", "this process may not use the device (container without it, or without the right to it)", "another process uses all of the device"],
        "check `ulimit -l` (docker: --ulimit memlock=-1), the device (docker: --device=/dev/infiniband) and the provider's text above";
    /// The rule for groups of NICs cannot be followed.
    Grouping = Error 111, EINVAL, "the NICs cannot be grouped as asked",
        ["OFI_NCCL_NIC_GROUPS or OFI_NCCL_FORCE_NUM_RAILS does not fit the NICs of this host"],
        "correct or unset the variable named above";
    /// init or fini from inside another call.
    Nested = Error 112, EDEADLK, "init or fini was called from inside another call",
        ["the logger that was given to init calls the plugin"],
        "let the logger only write";
    /// Devices with different numbers of rails, which cannot be connected.
    UnevenRails = Warning 113, EINVAL, "devices of this host differ in their number of rails",
        ["a NIC is missing, or hidden from this container", "FI_EFA_IFACE leaves NICs of a device out", "OFI_NCCL_NIC_GROUPS has groups of different sizes"],
        "devices that differ cannot be connected: give this host all its NICs, or set OFI_NCCL_FORCE_NUM_RAILS to the smaller number on all ranks";
    /// Fewer NICs than the instance type has.
    NicsMissing = Warning 114, ENODEV, "this instance has fewer NICs for collectives than its type can have",
        ["it was launched with fewer EFA interfaces than it has network cards", "the container sees a part of /dev/infiniband", "FI_EFA_IFACE leaves EFAs out"],
        "unset FI_EFA_IFACE where it is set; else launch it with an EFA interface on each network card (launch template, or pod limits of vpc.amazonaws.com/efa); the job runs on with less bandwidth";
    /// libfabric is there, and what it needs is not.
    LibfabricUnusable = Error 118, ELIBACC, "libfabric is there and cannot be loaded",
        ["a library that it needs (libefa, libibverbs) is missing, or of another installation (the distribution's rdma-core with the EFA installer's libfabric)", "the file is damaged, of another architecture, or no libfabric"],
        "install libfabric and rdma-core from one EFA installer (Debian: apt-get install libfabric1); `ofi doctor` and ldd name what is missing; or set OFI_NCCL_LIBFABRIC_PATH to another libfabric.so.1";
    /// RDMA on a device whose writes are messages.
    SlowWrites = Error 119, EINVAL, "the RDMA protocol would be slow on this device",
        ["FI_EFA_USE_DEVICE_RDMA=0 is set", "the device is an EFA that does not write by itself (before its second generation), or its driver or libfabric is old"],
        "unset FI_EFA_USE_DEVICE_RDMA; or OFI_NCCL_PROTOCOL=SENDRECV on all ranks; or OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK=1 on all ranks, which is slow";
    /// An instance type with accelerators, whose memory the network does not reach.
    NoDeviceMemory = Error 120, EINVAL, "the network does not reach the memory of this instance's devices",
        ["the driver of the accelerators or of EFA is missing or old (efa_nv_peermem, dma-buf)", "libfabric was built without CUDA or Neuron", "the container does not see the devices"],
        "update EFA's installer and the accelerators' driver, and give the container both; OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK=1 goes on with host memory";
    /// A host for EFA, where nothing else is taken while the user names no provider (protocol 2h.1).
    NoEfa = Error 115, ENODEV, "this is a host for EFA, and no EFA can be used",
        ["this size of the instance type has no EFA (trn1.2xlarge, inf2.xlarge), or it was launched without EFA interfaces", "this libfabric has no EFA provider (the distribution's is found before the EFA installer's)", "the container has no /dev/infiniband, or this user may not open it"],
        "see to the reason above (`ofi doctor` looks for it); to run over TCP all the same, much slower, set FI_PROVIDER=tcp on all ranks (libfabric 1.17: tcp;ofi_rxm)";
    /// Another provider on a host for EFA, which the user did not ask for in so many words.
    EfaPassedOver = Warning 116, ENODEV, "this is a host for EFA, and another provider is used",
        ["FI_PROVIDER lets EFA in, and libfabric lists none: no EFA provider, no device files, or no EFA attached", "FI_PROVIDER lists another provider beside efa"],
        "set FI_PROVIDER=efa to have an error in its place, or name the other provider alone; the job runs on, much slower";
    /// Accelerators that devices are made by are not in sysfs.
    TopologyLost = Warning 117, ENODEV, "sysfs does not show the accelerators of this host, by which NICs make devices",
        ["/sys of the host is not mounted in this container, or a part of it", "an accelerator has fallen off the bus (dmesg, nvidia-smi)"],
        "mount /sys, or replace the instance: other hosts make other devices of the same NICs, and those that differ cannot be connected";
    /// A parameter that was withdrawn is set.
    DeprecatedParameter = Error 201, EINVAL, "a withdrawn parameter is set",
        ["the environment was written for an older plugin"],
        "unset it and use the one named in its place";
    /// Parameters that contradict each other.
    Contradiction = Error 202, EINVAL, "parameters contradict each other",
        ["one was changed and the other left at its default"],
        "change or unset one of those named above, on all ranks";
    /// A value that cannot be used; the default is.
    InvalidValue = Warning 203, EINVAL, "a parameter has a value that cannot be used",
        ["a typing error"],
        "correct it or unset it";
    /// A name that looks like ours and is not.
    UnknownParameter = Warning 204, EINVAL, "a parameter of this name does not exist",
        ["a typing error"],
        "correct the name or unset it; docs/tuning.md lists all";
    /// The file of a wire trace.
    TraceFile = Warning 205, EIO, "the wire trace cannot be written",
        ["the directory of OFI_NCCL_TRACE_FILE does not exist or is not writable here", "the disk is full"],
        "correct or unset OFI_NCCL_TRACE_FILE; the job runs on without a trace";
    /// `OFI_NCCL_DUMP_DIR` that cannot be written to.
    DumpDir = Warning 211, EIO, "state dumps cannot be written",
        ["OFI_NCCL_DUMP_DIR names a directory that cannot be made or is not writable here", "the disk is full",
            "somebody who can write there too has put a link, a pipe or a directory in the place of the file that the line names"],
        "correct or unset OFI_NCCL_DUMP_DIR (best is a directory that only the job can write to); the job runs on without dumps";
    /// `OFI_NCCL_EARLY_COMPLETION=1` where it cannot be (protocol 2e.10).
    EarlyCompletion = Error 206, ENOTSUP, "receives cannot complete early here",
        ["eager messages are on", "the provider moves data only during calls (FI_PROGRESS_MANUAL)"],
        "unset OFI_NCCL_EARLY_COMPLETION; or set OFI_NCCL_EAGER_MAX_SIZE=-1 on all ranks and use a provider with automatic progress";
    /// A class that a job asked for (NCCL's `trafficClass`), of a provider that has none.
    TrafficClass = Warning 207, ENOTSUP, "a traffic class cannot be had",
        ["the provider of these NICs has no traffic classes"],
        "ask for none (NCCL_IB_TC, trafficClass of the communicator); the job runs on without a class";
    /// `OFI_NCCL_TRACE_MAX` is reached.
    TraceFull = Warning 208, EFBIG, "the wire trace is full",
        ["the process did more than OFI_NCCL_TRACE_MAX MiB can hold"],
        "raise OFI_NCCL_TRACE_MAX, or trace a shorter run; the job runs on without a trace";
    /// A minimum of posted receives above its maximum.
    PostedBounds = Warning 209, EINVAL, "a minimum of posted receives is above its maximum",
        ["one was changed and the other left at its default"],
        "change or unset one of those named above";
    /// The file of counters.
    StatsFile = Warning 215, EIO, "the file of counters cannot be made",
        ["the directory of OFI_NCCL_STATS_DIR cannot be made, or is not writable here", "the disk is full"],
        "correct or unset OFI_NCCL_STATS_DIR (a directory of /dev/shm or /run is best); the job runs on without the file";
    /// A NULL pointer where one is needed.
    NullArgument = Error 301, EINVAL, "a pointer argument is NULL",
        ["a call out of order", "an earlier call failed and its result was not looked at"],
        "check the caller";
    /// A device index beyond `devices()`.
    UnknownDevice = Error 302, EINVAL, "no such device",
        ["the index was not checked against devices()"],
        "use indices below devices()";
    /// A communicator that is not there.
    StaleComm = Error 303, EINVAL, "no such communicator",
        ["it was closed before", "the word was damaged"],
        "do not use a communicator after closing it";
    /// A request that is not there.
    StaleRequest = Error 304, EINVAL, "no such request",
        ["test reported it done before", "its communicator was closed"],
        "do not test a request again after done was 1";
    /// A registration that is not there.
    StaleRegion = Error 305, EINVAL, "no such memory registration",
        ["it was deregistered before", "it belongs to another device"],
        "register the buffer on this device and keep the handle until its requests are done";
    /// A word of another kind than the call takes.
    WrongKind = Error 306, EINVAL, "an object of another kind was expected",
        ["send and receive communicators were mixed up"],
        "check the caller";
    /// Longer than a message can be.
    TooLong = Error 307, EMSGSIZE, "a message is too long",
        ["the size was computed in a wider type"],
        "split the message; a message has at most 2147483647 bytes";
    /// A negative size.
    NegativeSize = Error 308, EINVAL, "a size is negative",
        ["a size of 2 GiB or more was passed in an int"],
        "split the message; a message has at most 2147483647 bytes";
    /// irecv or iflush of several buffers.
    Grouped = Error 309, EINVAL, "several buffers in one call",
        ["maxRecvs of getProperties was not looked at"],
        "post one buffer a call: maxRecvs is 1";
    /// iread, iwrite, iwriteInline.
    OneSided = Error 310, EINVAL, "one-sided operations are not available",
        ["rma_supported of getProperties was not looked at"],
        "use isend and irecv, or a provider with FI_MR_VIRT_ADDR";
    /// regMrDmaBuf with a file descriptor.
    DmaBuf = Error 311, ENOTSUP, "dma-buf registration is not available",
        ["the caller assumes it without asking (ptrSupport has no DMABUF bit)", "kernel, libfabric or provider are without it, as said above"],
        "pass fd -1 and the address of the buffer";
    /// A memory type that the provider cannot use.
    MemoryKind = Error 312, EINVAL, "this type of memory cannot be used",
        ["ptrSupport of getProperties was not looked at", "the provider has no FI_HMEM"],
        "register memory of a type in ptrSupport";
    /// `libcuda.so.1` is not there.
    NoCuda = Error 316, ENOSYS, "there is no CUDA to tell whose memory it is",
        ["a program without CUDA passes memory as CUDA's", "the container has no driver of NVIDIA (libcuda.so.1)"],
        "register memory of the host as such; give the container the driver (docker: --gpus all)";
    /// CUDA does not know an address.
    NotCudaMemory = Error 317, EINVAL, "CUDA does not know this memory",
        ["memory of the host was passed as CUDA's", "the buffer was freed"],
        "pass the type of memory that the buffer has";
    /// A dma-buf is refused by provider or kernel, and its address taken.
    DmaBufRefused = Warning 318, ENOTSUP, "a dma-buf was refused, and memory is registered by its address instead",
        ["the driver of the accelerator or of the NIC lends no memory by dma-buf", "the kernel was built without it (CONFIG_PCI_P2PDMA, CONFIG_DMABUF_MOVE_NOTIFY)"],
        "update the drivers; nothing, if registration by address works (nvidia_peermem or efa_nv_peermem is loaded); OFI_NCCL_DISABLE_DMABUF=1 never tries";
    /// A provider that reaches device memory by its own word refuses some.
    DeviceMemoryRefused = Error 319, EINVAL, "memory of a device was refused by a provider that can reach it",
        ["no kernel module reaches the memory of the accelerator (nvidia_peermem, efa_nv_peermem; neuron), and it lends no dma-buf", "an EFA installer before 1.29.1 with NCCL 2.19 or newer (RC: -22)", "the buffer was freed"],
        "`ofi doctor` looks at modules, kernel and versions; for the second cause set FI_EFA_SET_CUDA_SYNC_MEMOPS=0 on all ranks, or update the EFA installer";
    /// A panic, caught at the C edge.
    Panicked = Error 313, EINVAL, "the plugin met a state that it believed impossible",
        ["a bug in this plugin"],
        "report it with the text above; the communicator is not usable any more";
    /// `OFI_NCCL_ABORT_ON_ERROR=1`.
    Aborting = Error 315, EIO, "this process is aborted because of an error",
        ["OFI_NCCL_ABORT_ON_ERROR is set, and a call failed"],
        "see to the error above; unset OFI_NCCL_ABORT_ON_ERROR to let the collectives library handle it";
    /// More bytes than the provider takes at once.
    InlineTooLong = Error 314, EMSGSIZE, "an inline write is too long",
        ["max_write_inline_size of getProperties was not looked at"],
        "use iwrite, or write at most max_write_inline_size bytes";
    /// A context that is not there.
    StaleContext = Error 320, EINVAL, "no such context",
        ["finalize took it before", "it was carried into another process"],
        "use a context between its init and its finalize, in the process that made it";
    /// A handle with bytes that no listen wrote.
    CorruptHandle = Error 401, EINVAL, "the connection handle is damaged or not ours",
        ["the other side speaks the other protocol, RDMA or SENDRECV (OFI_NCCL_PROTOCOL; where that is unset, the instance type on EFA, else the NICs a device has: OFI_NCCL_GROUP_BY, OFI_NCCL_NIC_GROUPS, OFI_NCCL_FORCE_NUM_RAILS)", "the two sides load different plugins or versions", "the handle was not carried whole (128 bytes), or used twice"],
        "compare the lines `protocol ..` of both logs (INFO) and set OFI_NCCL_PROTOCOL alike; load the same plugin on all ranks; give each connect its own fresh copy of the handle";
    /// The connection was not made in time (decision 12).
    ConnectTimeout = Error 402, ETIMEDOUT, "a connection was not made in time",
        ["the peer process died or did not get so far", "a firewall or security group drops the traffic (it needs a rule that allows all traffic from itself)", "the two sides are set up differently (rails, provider), or speak RDMA here and SENDRECV there (OFI_NCCL_PROTOCOL)"],
        "look at the peer's log; OFI_NCCL_CONNECT_TIMEOUT is the bound in seconds";
    /// The two sides differ in what is not negotiated.
    Mismatch = Error 403, EINVAL, "the two sides are set up differently",
        ["ranks see different NICs or accelerators (a container, a lost device: compare `ofi topo groups` on both hosts)", "their environments differ (OFI_NCCL_GROUP_BY, OFI_NCCL_NIC_GROUPS, OFI_NCCL_FORCE_NUM_RAILS, OFI_NCCL_RR_CTRL_MSG, FI_EFA_IFACE)"],
        "set OFI_NCCL_GROUP_BY, OFI_NCCL_NIC_GROUPS, OFI_NCCL_FORCE_NUM_RAILS, OFI_NCCL_RR_CTRL_MSG and FI_EFA_IFACE alike on all ranks, and use one provider";
    /// The peer sent what the protocol excludes.
    PeerProtocol = Error 404, EPROTO, "the peer does not follow the protocol",
        ["the peer runs another version of the plugin"],
        "load the same plugin on all ranks";
    /// accept on a listener that gave its connection.
    AlreadyAccepted = Error 405, EINVAL, "this listener has given its connection",
        ["one listener was used for two connections"],
        "listen again for the next connection";
    /// All ids are in use.
    OutOfIds = Error 406, ENOSPC, "too many communicators",
        ["communicators are not closed"],
        "close those that are not needed; a device has 262144 ids";
    /// The provider does not take the peer's address.
    Unreachable = Error 407, EHOSTUNREACH, "the peer's address cannot be used",
        ["the two sides use different providers or address families"],
        "use the same FI_PROVIDER and libfabric on all ranks";
    /// An endpoint name that has no room on the wire.
    AddressTooLong = Error 408, EINVAL, "the provider's addresses are too long for the connection message",
        ["a provider that was never tried with this plugin"],
        "choose another provider with FI_PROVIDER";
    /// No number is left for another domain.
    OutOfDomains = Error 409, ENOSPC, "too many domains",
        ["very many threads have connections of their own (OFI_NCCL_DOMAIN_PER_THREAD)", "communicators of threads that ended are not closed"],
        "close communicators before their threads end, or set OFI_NCCL_DOMAIN_PER_THREAD=0: one domain for all threads";
    /// A peer whose limit is lower.
    EagerDiffers = Warning 410, EINVAL, "limits of eager messages differ between ranks",
        ["OFI_NCCL_EAGER_MAX_SIZE is not set alike on all ranks"],
        "set it alike on all ranks; longer messages to that peer wait for its receive";
    /// More bytes than any control message has.
    StrangeMessage = Warning 411, EMSGSIZE, "a message longer than any control message was dropped",
        ["what sent it is no peer of this job"],
        "load the same plugin on all ranks; see what else sends to this host's endpoints";
    /// More bytes than a receive of ours takes.
    EagerTooLong = Warning 412, EMSGSIZE, "a message of a peer is longer than the receive buffers",
        ["OFI_NCCL_EAGER_MAX_SIZE differs between ranks"],
        "set it alike on all ranks";
    /// `fi_av_insert(3)` of an address that came in a connection message.
    PeerAddress = Warning 413, EHOSTUNREACH, "the provider does not take the address of a peer",
        ["the ranks have different providers or libfabrics", "a resource of the provider ran out"],
        "compare FI_PROVIDER and the libfabric of the ranks, and see libfabric's log (FI_LOG_LEVEL=warn)";
    /// A number that our listeners over SENDRECV do not have.
    ForeignListener = Warning 414, EPROTO, "the listener of a peer is not one that this plugin makes over SENDRECV",
        ["the other side speaks RDMA, and no message from here arrives (OFI_NCCL_PROTOCOL; where that is unset, the instance type on EFA, else the NICs a device has)", "the peer loads another plugin, which speaks SENDRECV: nothing is wrong then"],
        "compare the lines `protocol ..` of both logs (INFO) and set OFI_NCCL_PROTOCOL alike; nothing, if messages arrive";
    /// accept is called, and nobody connects.
    NobodyConnects = Warning 415, ETIMEDOUT, "nobody connects to a listener",
        ["the peer failed, and its log says why: with OFI-E0401 or OFI-W0414 it speaks the other protocol, RDMA or SENDRECV (OFI_NCCL_PROTOCOL; where that is unset, the instance type on EFA, else the NICs a device has)", "the peer has not come so far: it is busy or waits for somebody else", "the peer cannot reach this host: a firewall or security group drops the traffic"],
        "look at the peer's log, and compare the lines `protocol ..` of both (INFO); `ofi pair` tries the network; OFI_NCCL_STALL_WARN is the bound in seconds";
    /// connect or accept is under way, and the other side does not answer.
    NotConnected = Warning 416, ETIMEDOUT, "a connection is not made yet",
        ["the peer has not called accept: it is busy, waits for somebody else, or has ended", "the security group or a firewall drops the traffic, or the hosts are in different subnets", "the other side speaks the other protocol, RDMA or SENDRECV (OFI_NCCL_PROTOCOL; where that is unset, the instance type on EFA, else the NICs a device has)"],
        "look at the peer's log, and compare the lines `protocol ..` of both (INFO); `ofi pair` tries the network; OFI_NCCL_CONNECT_TIMEOUT ends it, OFI_NCCL_STALL_WARN is the bound of this line, in seconds";
    /// `fi_mr_regattr(3)` failed.
    Register = Error 501, ENOMEM, "memory could not be registered",
        ["the limit of locked memory is low", "the buffer was freed", "the provider cannot register this type of memory", "it keeps keys by itself and has this one (FI_ENOKEY)"],
        "check `ulimit -l` (docker: --ulimit memlock=-1) and that the buffer is mapped; for FI_ENOKEY use another libfabric, or tcp in place of tcp;ofi_rxm";
    /// A key with more than 32 bits where keys have 32 (protocol 2c.4).
    KeyTooWide = Error 502, ENOTSUP, "a memory key is too wide for this fabric's control messages",
        ["the provider promised mr_key_size of 4 bytes and gave more"],
        "report it with `fi_info -v`";
    /// All application-chosen keys are in use.
    OutOfKeys = Error 503, ENOMEM, "all memory keys are in use",
        ["buffers are registered and not deregistered", "OFI_NCCL_MR_KEY_SIZE is small"],
        "raise OFI_NCCL_MR_KEY_SIZE (bytes)";
    /// `fi_close(3)` of a region failed.
    Deregister = Error 504, EBUSY, "memory could not be deregistered",
        ["an operation on the buffer never completed: its peer died"],
        "do not reuse the buffer while this process lives; its device refuses further work";
    /// A message outside the region named with it.
    OutsideRegion = Error 505, EINVAL, "a buffer is not within its registration",
        ["the handle of another buffer was passed"],
        "pass the handle that regMr gave for this buffer";
    /// `fi_close(3)` of an endpoint failed.
    EndpointOpen = Warning 506, EBUSY, "an endpoint did not close, and its memory is kept",
        ["the provider still has operations of it", "a peer died in the middle of an operation"],
        "nothing, if the process ends; else report it with libfabric's log (FI_LOG_LEVEL=warn)";
    /// The provider failed an operation.
    Operation = Error 601, EIO, "an operation failed",
        ["the peer process died", "the network path failed"],
        "look at the peer's log first: the first rank that failed says why";
    /// No progress for longer than allowed.
    Stalled = Error 602, ETIMEDOUT, "a communicator made no progress",
        ["the peer has not posted its side of the message: it is busy, waits for somebody else, or never will", "the peer process died or hangs", "the network path is down, or the two sides are set up differently (OFI_NCCL_PROTOCOL)"],
        "look at what the peer does and at its log; a peer that may be busy for so long needs a larger OFI_NCCL_STALL_FAIL (seconds; 0: no bound)";
    /// The domain is not usable any more.
    Poisoned = Error 603, EIO, "this device is out of order",
        ["an earlier error that the log names"],
        "end this process; see the first error in the log";
    /// More flushes than slots.
    TooManyFlushes = Error 604, ENOSPC, "too many flushes are outstanding",
        ["flushes are started and never tested"],
        "test the requests that iflush gave";
    /// A message longer than its receive (SENDRECV).
    Truncated = Error 605, EMSGSIZE, "a message is longer than its receive",
        ["the two sides disagree on sizes", "two senders use one connection"],
        "receive with at least the size that is sent; the communicator is lost on this provider, and goes on with tcp of libfabric 1.22 or newer";
    /// A receive of the transport's own came back with an error.
    ReceiveFailed = Warning 606, EIO, "a posted receive failed",
        ["a peer died in the middle of a message", "this host's NIC is gone or was reset (EINVAL, ENODEV or EIO to each post)", "the limit of locked memory is low (ENOMEM)"],
        "look at the log of the ranks that failed first, at dmesg and `ofi doctor` of this host, and at `ulimit -l`";
    /// The provider refused a post for good.
    PostRefused = Warning 607, EIO, "the provider refused an operation",
        ["the endpoint or the connection under it failed before", "a resource of the provider ran out"],
        "see libfabric's log (FI_LOG_LEVEL=warn); the communicator fails and says so in a line of its own";
    /// A completion with an error that belongs to nothing.
    Unowned = Warning 608, EIO, "a completion for no operation of this process",
        ["an operation of a peer on this host's memory failed", "what sent it is no peer of this job"],
        "look at the log of the peers; alone it harms nothing";
    /// `OFI_NCCL_STALL_WARN`.
    NoProgress = Warning 609, ETIMEDOUT, "a communicator is without progress",
        ["the peer has not posted its side of the message: it is busy, waits for somebody else, or never will", "the peer process died or hangs", "the network path is down"],
        "`ofi dump` joins what all ranks write to OFI_NCCL_DUMP_DIR, and names who is waited for (docs/hangs.md); without it, look at what the peer does and at its log; OFI_NCCL_STALL_WARN is the bound in seconds";
    /// What came after a first error.
    Followers = Warning 610, EIO, "more operations failed after the first error",
        ["they belong to communicators that had failed: the provider gives back what was under way"],
        "see to the first error of each communicator in this log";
    /// A lane has no receive.
    NoReceives = Warning 611, EAGAIN, "the provider takes no receive",
        ["the provider's receive queue is full, or its NIC is out of order", "a limit of memory that can be pinned is reached"],
        "see libfabric's log (FI_LOG_LEVEL=warn), and `ulimit -l`; what peers send to this process waits meanwhile";
    /// The receives of a lane only failed.
    LaneGivenUp = Warning 612, EIO, "receives on a rail only fail: none is posted there any more",
        ["the endpoint or its NIC is out of order", "the provider refuses the memory of receives (see the lines OFI-W0606 before)"],
        "see the first OFI-W0606 in this log, and libfabric's log (FI_LOG_LEVEL=warn); what peers send to this rail waits, OFI_NCCL_STALL_FAIL makes it an error: start the job again";
    /// A libfabric call failed.
    Fabric = Error 701, EIO, "a libfabric call failed",
        ["see the text of libfabric"],
        "set FI_LOG_LEVEL=warn for libfabric's own log";
    /// Something that cannot be.
    Internal = Error 702, EIO, "internal error",
        ["a bug in this plugin"],
        "report it with the text above";
}
