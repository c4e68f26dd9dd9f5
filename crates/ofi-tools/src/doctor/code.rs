//! The one table of findings: number, how bad, what it is, what to do, what follows from it. Numbers are
//! stable: a code is never used again for something else. docs/doctor.md is made from this table.

use core::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The job runs; worth knowing.
    Note,
    /// The job may run, worse than it could, or fail later.
    Warning,
    /// The job does not use the network that it should, or does not run.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) number: u16,
    pub(crate) severity: Severity,
    pub(crate) title: &'static str,
    /// What to do, where the finding does not know better.
    pub(crate) fix: &'static str,
    /// Codes that are no news where this one is found: they follow from it.
    pub(crate) hides: &'static [Code],
    /// Rows of the catalogue of reports, or the document, that it is from.
    pub(crate) source: &'static str,
}

macro_rules! codes {
    ($($name:ident = $number:literal $severity:ident, $title:literal, $fix:literal,
        hides [$($hidden:ident),* $(,)?], $source:literal;)*) => {
        /// What was found; the order is that of causes before what follows from them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code {
            $($name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            pub(crate) const fn row(self) -> &'static Row {
                match self {
                    $(Self::$name => &Row {
                        number: $number,
                        severity: Severity::$severity,
                        title: $title,
                        fix: $fix,
                        hides: &[$(Self::$hidden),*],
                        source: $source,
                    },)*
                }
            }
        }
    };
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OFI-D{}", self.row().number)
    }
}

codes! {
    PluginOff = 101 Error, "the plugin is switched off",
        "unset NCCL_NET_PLUGIN, or set it to ofi",
        hides [OtherNetwork, PluginNotFound, LoadFailed, InitFailed], "ENV-01";
    OtherNetwork = 102 Error, "NCCL_NET asks for another network than this plugin's",
        "unset NCCL_NET, or set it to \"AWS Libfabric\": NCCL then fails instead of falling back",
        hides [], "ENV-21";
    PluginLinkBroken = 103 Error, "the plugin's name is a symbolic link to a file that is not there",
        "install the plugin again, or correct the link",
        hides [PluginNotFound, PluginUncached, LoadFailed], "BUILD-07, ENV-02";
    PluginDenied = 104 Error, "the plugin's file may not be read by this user",
        "chmod a+rx the file and the directories above it",
        hides [PluginNotFound, PluginUncached, LoadFailed], "ENV-01";
    PluginForeign = 105 Error, "the plugin is for another kind of machine",
        "install the plugin that was built for this machine (uname -m)",
        hides [PluginNotFound, PluginUncached, LoadFailed], "ENV-18";
    PluginUncached = 106 Error, "the plugin's directory is in ld.so.conf, and ldconfig has not run since",
        "run ldconfig as root (in a Dockerfile: RUN ldconfig), or add the directory to LD_LIBRARY_PATH",
        hides [PluginNotFound, LoadFailed], "ENV-01";
    PluginNotFound = 107 Error, "no plugin would be found: the job falls back to sockets",
        "install the plugin and add its directory to LD_LIBRARY_PATH",
        hides [LoadFailed], "ENV-01, ENV-18";
    PluginCut = 108 Error, "the plugin's file is cut short",
        "copy or install it again; a loader that maps it dies with SIGBUS",
        hides [NoTable, LoadFailed, ProbeDied], "ABI-13";
    PluginNotElf = 109 Error, "the plugin's file is no shared library",
        "install it again: a pointer file of git-lfs or an error page was saved in its place",
        hides [NoTable, LoadFailed], "ABI-13";
    NeededMissing = 110 Error, "the plugin needs a library that is not there: the job falls back to sockets",
        "install that library, or use a plugin without it (ours needs the C library and libgcc_s alone)",
        hides [LoadFailed, NoLibfabric], "ENV-02, BUILD-06";
    VersionMissing = 111 Error, "the plugin needs a newer library than the one that is found",
        "put the directory of the newer library first in LD_LIBRARY_PATH, or install the plugin that belongs to the older",
        hides [LoadFailed, LibfabricTooOld, LibfabricAgeUnknown, LibfabricVersionMissing], "ENV-03, ENV-04";
    NoTable = 112 Error, "the plugin has no table that this collectives library looks for",
        "use a plugin and a collectives library of the same age",
        hides [LoadFailed], "ABI-01, ABI-14";
    OtherPlugins = 113 Warning, "several different plugins of one name are on the search path",
        "leave one, or name one with NCCL_NET_PLUGIN",
        hides [], "BUILD-07";
    ConfUnread = 114 Warning, "NCCL_CONF_FILE names a file that cannot be read",
        "correct or unset NCCL_CONF_FILE",
        hides [], "ENV-01";
    OtherPlugin = 115 Error, "the plugin that would be loaded does not use libfabric: the EFAs stay unused",
        "install the plugin of libfabric, and put its directory first in LD_LIBRARY_PATH",
        hides [OtherPlugins, NoTable, InitFailed], "ENV-01, BUILD-07";
    NoExec = 117 Error, "the plugin is on a file system that is mounted noexec: the loader cannot map it",
        "mount it without noexec, or install the plugin elsewhere",
        hides [LoadFailed], "ENV-01";
    Unseen = 118 Warning, "whether the plugin or libfabric is there cannot be seen: who looks may not read where the job's user may",
        "run it as that user (an NFS takes root for nobody, or an access control list is in force): runuser -u NAME -- ofi doctor",
        hides [PluginNotFound, PluginUncached, NoLibfabric, LibfabricPath, LoadFailed], "ENV-01";
    NeededDamaged = 116 Error, "a library that the plugin needs is cut short or damaged",
        "install that library again",
        hides [LoadFailed, ProbeDied, InitFailed, NotOnEfa], "ABI-13";
    LibfabricPath = 201 Error, "the libfabric that the settings name is not there",
        "correct or unset OFI_NCCL_LIBFABRIC_PATH (the file libfabric.so.1, or its directory)",
        hides [NoLibfabric, InitFailed, NotOnEfa], "ENV-20";
    NoLibfabric = 202 Error, "libfabric would not be found",
        "install it (AWS: the EFA installer, /opt/amazon/efa; Debian, Ubuntu: apt-get install libfabric1; RHEL, Fedora: dnf install libfabric), or set OFI_NCCL_LIBFABRIC_PATH to it",
        hides [InitFailed, NotOnEfa], "ENV-18, BUILD-02";
    LibfabricDamaged = 203 Error, "the file of libfabric is cut short or damaged",
        "install it again",
        hides [InitFailed, NotOnEfa, ProbeDied, LoadFailed], "ABI-13";
    LibfabricNeeds = 204 Error, "libfabric needs a library that is not there",
        "install that library (rdma-core for libibverbs and libefa)",
        hides [InitFailed, NotOnEfa, LoadFailed], "BUILD-06";
    LibfabricNeedsDamaged = 214 Error, "a library that libfabric needs is cut short or damaged",
        "install that library again (rdma-core for libibverbs and libefa)",
        hides [InitFailed, NotOnEfa, LoadFailed, ProbeDied, NoEfaProvider], "ABI-13";
    LibfabricVersionMissing = 205 Error, "libfabric needs a newer library than the one that is found",
        "install libfabric and rdma-core from one EFA installer, and look which of two copies comes first",
        hides [InitFailed, NotOnEfa, LoadFailed], "ENV-04";
    NoEfaProvider = 206 Error, "this libfabric has no EFA provider",
        "use the EFA installer's libfabric: put /opt/amazon/efa/lib first, or set OFI_NCCL_LIBFABRIC_PATH",
        hides [InitFailed, NotOnEfa, LibfabricTooOld, LibfabricAgeUnknown], "ENV-05, ENV-20";
    LibfabricTooOld = 207 Error, "this libfabric is too old for EFA: 1.22 is needed",
        "use the EFA installer's libfabric: put /opt/amazon/efa/lib first, or set OFI_NCCL_LIBFABRIC_PATH",
        hides [InitFailed, NotOnEfa], "ENV-11, decision 6";
    LibfabricAgeUnknown = 212 Warning, "the version of this libfabric is not known, and EFA needs 1.22",
        "use the EFA installer's libfabric: put /opt/amazon/efa/lib first, or set OFI_NCCL_LIBFABRIC_PATH",
        hides [], "ENV-11, decision 6";
    TwoLibfabrics = 208 Warning, "the process has two copies of libfabric",
        "make both users load one copy: remove the bundled one, or set OFI_NCCL_LIBFABRIC_PATH to the first",
        hides [], "ENV-19";
    EfaFiltered = 209 Error, "FI_PROVIDER leaves EFA out",
        "unset FI_PROVIDER, or set it to efa",
        hides [InitFailed, NotOnEfa], "ENV-05, ENV-20";
    IfaceFiltered = 210 Error, "FI_EFA_IFACE names no EFA of this host",
        "unset FI_EFA_IFACE, or name devices of /sys/class/infiniband",
        hides [InitFailed, NotOnEfa], "ENV-05";
    FilterEmpty = 211 Error, "FI_PROVIDER is set and empty: libfabric lists no provider at all",
        "unset it (a script or a job file says FI_PROVIDER= and means: not set)",
        hides [EfaFiltered, InitFailed, NotOnEfa], "ENV-20";
    IfaceLeavesOut = 213 Warning, "FI_EFA_IFACE leaves EFAs of this host out",
        "unset FI_EFA_IFACE, or name all of them: what it leaves out carries nothing",
        hides [UnevenRails], "ENV-05";
    NoEfaAttached = 301 Error, "this instance type has EFAs, and none is attached",
        "launch it with interface type efa in the launch template (pods: the limit vpc.amazonaws.com/efa)",
        hides [InitFailed, NotOnEfa, EfasMissing, NoDeviceNodes, NoDriver], "TOPO-11, CONN-23";
    NoDriver = 302 Error, "an EFA is on the bus, and its kernel driver is not loaded",
        "modprobe efa; if there is no such module run the EFA installer for this kernel",
        hides [InitFailed, NotOnEfa, NoUverbs, NoDeviceNodes, EfasMissing, UnevenRails, NodesMissing], "ENV-05";
    NoUverbs = 303 Error, "the kernel module ib_uverbs is not loaded",
        "modprobe ib_uverbs",
        hides [InitFailed, NotOnEfa, NoDeviceNodes, NodesMissing], "ENV-05";
    NoDeviceNodes = 304 Error, "the EFAs have no device files in this container or host",
        "docker: --device=/dev/infiniband (each uverbs file); Kubernetes: the limit vpc.amazonaws.com/efa; on the host: udevadm trigger",
        hides [InitFailed, NotOnEfa, NodesMissing, UnevenRails], "ENV-05";
    NodeDenied = 305 Error, "this user may not open the EFAs' device files",
        "chmod 666 /dev/infiniband/uverbs*, or the udev rule of rdma-core",
        hides [InitFailed, NotOnEfa, NodeRefused], "ENV-05, ENV-18";
    NodeRefused = 306 Error, "the EFAs' device files are there, and opening one is refused",
        "the container's device rules leave them out: docker --device=/dev/infiniband/uverbs0 (mounting the directory is not enough)",
        hides [InitFailed, NotOnEfa], "GPU-10, ENV-05";
    NodesMissing = 307 Warning, "some of the EFAs have no device file here",
        "give the container the device files of all EFAs, or of the same number near each accelerator",
        hides [], "CONN-12, TOPO-16";
    PortDown = 308 Error, "the port of an EFA is not active",
        "look at dmesg; stop and start the instance if it stays so",
        hides [InitFailed, NotOnEfa], "CONN-01";
    EfasMissing = 309 Warning, "this instance has fewer EFAs than its type can have",
        "launch it with an EFA on each network card",
        hides [UnevenRails], "TOPO-11";
    MemlockLow = 310 Error, "the limit of locked memory is too low for EFA",
        "ulimit -l unlimited (limits.conf, LimitMEMLOCK=infinity for slurmd); docker: --ulimit memlock=-1",
        hides [InitFailed, NotOnEfa, MemlockBounded], "REG-02, REG-03";
    MemlockBounded = 311 Warning, "locked memory is bounded: large jobs fail when they register more",
        "ulimit -l unlimited; docker: --ulimit memlock=-1",
        hides [], "REG-02";
    ShmUnusable = 318 Error, "/dev/shm cannot be written: EFA's provider and NCCL fail when they share memory",
        "mount it (mount -t tmpfs -o mode=1777 tmpfs /dev/shm); docker: leave out --read-only, or --tmpfs /dev/shm; Kubernetes: an emptyDir of medium Memory at /dev/shm",
        hides [ShmTiny, ShmSmall, ShmNotMounted, InitFailed, NotOnEfa], "ENV-22";
    ShmTiny = 312 Error, "/dev/shm is too small: EFA's provider fails or crashes when it opens its domains",
        "docker: --shm-size=1g or more; Kubernetes: an emptyDir of medium Memory at /dev/shm",
        hides [ShmSmall, InitFailed, NotOnEfa], "ENV-22";
    ShmSmall = 313 Warning, "/dev/shm is small for so many EFAs",
        "docker: --shm-size=1g or more; Kubernetes: an emptyDir of medium Memory at /dev/shm",
        hides [], "ENV-22";
    ShmNotMounted = 319 Warning, "/dev/shm is no file system of its own: shared memory is on a disk, or takes another's room",
        "mount it: mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        hides [], "ENV-22";
    ForkAndHuge = 314 Error, "FI_EFA_FORK_SAFE and FI_EFA_USE_HUGE_PAGE are both on: libfabric aborts",
        "set FI_EFA_USE_HUGE_PAGE=0",
        hides [InitFailed, NotOnEfa, ProbeDied, NoHugePages], "GPU-01";
    ForkUnsafe = 315 Error, "this kernel needs FI_EFA_FORK_SAFE=1, and it is not set",
        "set FI_EFA_FORK_SAFE=1, or use a kernel from 5.13 on",
        hides [], "ENV-23";
    NoHugePages = 316 Warning, "FI_EFA_USE_HUGE_PAGE asks for huge pages, and none is free",
        "reserve some (sysctl vm.nr_hugepages), or unset FI_EFA_USE_HUGE_PAGE",
        hides [], "REG-19, GPU-01";
    NoDeviceMemory = 317 Error, "EFA cannot reach the memory of the GPUs",
        "load nvidia_peermem (older driver: efa_nv_peermem), or use what has dma-buf: a kernel from 5.12 on, with NVIDIA's open driver",
        hides [InitFailed, NotOnEfa], "GPU-09, ENV-06";
    NoTopology = 401 Warning, "the PCI tree of this host cannot be seen: NICs are not grouped by accelerator",
        "mount /sys into the container",
        hides [UnevenRails], "TOPO-13";
    GroupsWrong = 402 Error, "the rule for groups of NICs does not fit this host",
        "correct or unset OFI_NCCL_NIC_GROUPS and OFI_NCCL_FORCE_NUM_RAILS",
        hides [InitFailed, UnevenRails], "CONN-11";
    UnevenRails = 403 Warning, "devices of this host differ in their number of rails",
        "give this host all its NICs, or set OFI_NCCL_FORCE_NUM_RAILS to the smaller number on all ranks",
        hides [], "CONN-11, CONN-12";
    TopoFileMissing = 404 Warning, "NCCL_TOPO_FILE names a file that cannot be read",
        "correct or unset NCCL_TOPO_FILE",
        hides [], "TOPO-06, TOPO-07";
    TopoFileBig = 405 Error, "the file of NCCL_TOPO_FILE has more than NCCL takes",
        "unset NCCL_TOPO_FILE: the plugin writes one that fits",
        hides [], "TOPO-02";
    TopoFileBad = 406 Warning, "NCCL refuses or misreads the file of NCCL_TOPO_FILE",
        "correct it (`ofi topo validate` names each fault), or unset NCCL_TOPO_FILE",
        hides [], "TOPO-02";
    AcceleratorsMissing = 407 Warning, "sysfs does not show all accelerators of this instance type, by which NICs make devices",
        "mount /sys of the host, or replace the instance (dmesg, nvidia-smi): other hosts make other devices of the same NICs",
        hides [UnevenRails], "TOPO-13";
    NicsIdle = 408 Note, "settings leave NICs of this host without work",
        "unset OFI_NCCL_NIC_GROUPS and OFI_NCCL_FORCE_NUM_RAILS on all ranks, unless other hosts have fewer NICs",
        hides [], "CONN-11";
    Withdrawn = 501 Error, "a withdrawn variable is set: init fails",
        "unset it, and set the ones named in its place",
        hides [InitFailed], "protocol 2i";
    Contradiction = 502 Error, "variables contradict each other: init fails",
        "change or unset one of those named, on all ranks",
        hides [InitFailed], "protocol 2i";
    BadValue = 503 Warning, "a variable has a value that cannot be used: the default counts",
        "correct it or unset it",
        hides [], "ENV-14";
    UnknownVariable = 504 Warning, "there is no variable of this name",
        "correct the name or unset it",
        hides [], "ENV-14";
    Fatal = 505 Error, "a variable makes the job fail",
        "unset it",
        hides [InitFailed, ProbeDied], "providers 6";
    Harmful = 506 Warning, "a variable does harm",
        "unset it",
        hides [], "providers 6";
    Obsolete = 507 Note, "a variable is not needed any more",
        "unset it",
        hides [], "providers 6";
    NoInterface = 508 Error, "NCCL_SOCKET_IFNAME leaves no interface: ranks do not find each other",
        "name an interface of this host, or unset it",
        hides [], "ENV-16, HANG-10";
    LoopbackOnly = 509 Warning, "NCCL_SOCKET_IFNAME leaves the loopback interface alone: one host, no more",
        "unset it, or name an interface that other hosts reach",
        hides [], "ENV-16";
    LoopbackFirst = 515 Warning, "NCCL_SOCKET_IFNAME lets the loopback interface in, and NCCL takes the first: ranks of other hosts do not reach it",
        "leave lo out as NCCL does by itself: of a list with ^ add lo (^docker0,lo), of another take it away; or unset it",
        hides [], "ENV-16";
    Misspelt = 510 Warning, "a variable's name is almost one that libfabric, NCCL or the plugin reads: nobody reads it",
        "correct the name, or unset it",
        hides [], "ENV-14";
    TunerMissing = 511 Warning, "NCCL_TUNER_PLUGIN names a file that would not be found: NCCL tunes by itself",
        "correct it, add the directory of the file to LD_LIBRARY_PATH, or unset it",
        hides [], "ENV-12";
    ProviderPath = 512 Warning, "FI_PROVIDER_PATH has an entry without a provider of libfabric",
        "name the directory that has the providers (libefa-fi.so and the like), or unset it",
        hides [], "ENV-20";
    StallOrder = 513 Warning, "a stall is an error before it is told of: OFI_NCCL_STALL_FAIL is less than OFI_NCCL_STALL_WARN",
        "set OFI_NCCL_STALL_WARN to less than OFI_NCCL_STALL_FAIL: its line says who is waited for",
        hides [], "HANG-08, HANG-10";
    NetworkEmpty = 514 Error, "NCCL_NET is set and empty: NCCL takes that for the name of a network, which nobody has, and its init fails",
        "unset it (a script or a job file says NCCL_NET= and means: not set)",
        hides [], "ENV-21; ncclNetInit of nvidia-nccl-cu12 2.18.3 and 2.28.9";
    BadPair = 601 Error, "these versions are known not to work together",
        "update one of them",
        hides [], "REG-05";
    PoorPair = 602 Warning, "these versions are known to have a fault together",
        "update one of them",
        hides [], "REG-05";
    ProbeDied = 701 Error, "a process that loaded the plugin was killed",
        "the signal and the last line are above; run `ofi doctor` with FI_LOG_LEVEL=info for more",
        hides [], "ABI-13";
    ProbeSilent = 702 Error, "loading and starting the plugin did not end in time",
        "look what it waits for: the last line is above; raise --deadline if the host is slow",
        hides [], "HANG-10";
    LoadFailed = 703 Error, "the loader refuses the plugin",
        "its words are above; ldd of the file shows what is missing",
        hides [], "ENV-02, ENV-03";
    InitFailed = 704 Error, "the plugin does not start here: the job falls back to sockets",
        "its own first error is above, with what to do",
        hides [], "ENV-05, ENV-06, ENV-07";
    NotOnEfa = 705 Error, "the plugin starts, and none of its devices is an EFA of this host: jobs run over TCP or worse",
        "set FI_PROVIDER=efa on all ranks: it then fails with its reason, in place of taking another network; likely: 1. EFA's provider refuses these devices (what it said is above; FI_LOG_LEVEL=info says more), 2. another libfabric is loaded than the EFA installer's (OFI_NCCL_LIBFABRIC_PATH, LD_LIBRARY_PATH), 3. this plugin takes no EFA",
        hides [], "ENV-05, ENV-07, ENV-20";
    StartedWithWarnings = 706 Warning, "the plugin starts, and warns",
        "its own warnings are above, with what to do",
        hides [], "ENV-05";
}

#[cfg(test)]
mod tests {
    use super::{Code, Severity};
    use std::collections::HashSet;

    #[test]
    fn rows_are_unique_lines_with_a_source() {
        let mut numbers = HashSet::new();
        for code in Code::ALL {
            let row = code.row();
            assert!(numbers.insert(row.number), "{code}");
            for text in [row.title, row.fix, row.source] {
                assert!(
                    text.is_ascii() && !text.is_empty() && !text.contains('\n'),
                    "{code}"
                );
            }
            assert!(!row.hides.contains(code), "{code}");
        }
    }

    /// Otherwise two findings could hide each other, and nothing would be said.
    #[test]
    fn nothing_hides_what_hides_it() {
        fn reaches(from: Code, to: Code, depth: usize) -> bool {
            let hidden = from.row().hides;
            depth < 20
                && hidden
                    .iter()
                    .any(|next| *next == to || reaches(*next, to, depth + 1))
        }
        for code in Code::ALL {
            assert!(!reaches(*code, *code, 0), "{code}");
            assert!(code.row().hides.is_empty() || code.row().severity > Severity::Note);
        }
    }
}
