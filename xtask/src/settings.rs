//! Settings of runs between processes of one machine, in one place: which provider of which
//! libfabric, which variables, how much of what.

use crate::artifacts::Built;
use crate::libfabric::{Libfabric, PATH_VARIABLE};
use crate::process::Program;
use crate::tables::{self, Table, USUAL};

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    /// The TCP provider that takes the least memory. Before 1.18 `tcp;ofi_rxm` takes 250 MiB and
    /// more for a rank with 4 rails, and `net` (which became `tcp` in 1.18) 15 MiB. Where `lo` is
    /// the only interface, `net` too is found under rxm, which is made small by [`LIGHT_RXM`].
    LightTcp,
    SharedMemory,
}

/// A run of `ofi perf` on our plugins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) carrier: Carrier,
    pub(crate) ranks: u32,
    /// Rails on each device, opened on one NIC.
    pub(crate) rails: u32,
    /// What they speak: with one NIC a device it would be SENDRECV.
    pub(crate) protocol: &'static str,
    /// Where the ranks are.
    pub(crate) hosts: Hosts,
    /// The tables, dealt out to the ranks in turn.
    pub(crate) tables: &'static [Table],
    /// What `ofi perf` does: its subcommand and options.
    pub(crate) args: &'static [&'static str],
}

/// Where the ranks of a load are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// All on this host, over loopback.
    One,
    /// Two ranks in two network namespaces, joined by a veth pair for each rail: each rail is a NIC
    /// of its own, as on real hosts.
    Two,
}

const RDMA: &str = "RDMA";
const SENDRECV: &str = "SENDRECV";

/// Makes the two hosts and runs a rank on each.
const TWO_HOSTS: &str = include_str!("hosts.sh");

/// Where the ranks of two hosts meet.
const MEETING: &str = "10.77.0.1:7777";

/// rxm takes buffers of 16 KiB for every message it is sized for: with these, four ranks of four
/// rails on libfabric 1.17 take 550 MiB instead of 1300.
const LIGHT_RXM: [(&str, &str); 3] = [
    ("FI_OFI_RXM_BUFFER_SIZE", "4096"),
    ("FI_OFI_RXM_MSG_TX_SIZE", "64"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "64"),
];

/// Seconds that a load may take in all.
const TIMEOUT_SECONDS: &str = "300";

/// The demo: a check of everything between four ranks, then an all-reduce with its table.
pub(crate) const DEMO: [Load; 2] = [
    light(4, 4, &["check", "--check", "--messages", "500"]),
    light(4, 4, &["allreduce", "--check", "--sizes", "1K:16M:x4"]),
];

/// What the tests move on every libfabric: messages of random sizes up to 16 MiB, at random
/// offsets, in random order, every byte verified; a different seed each time, printed.
pub(crate) const CHECKS: [Load; 11] = [
    tcp(2, 4, &["check", "--check"]),
    tcp(4, 1, &["check", "--check"]),
    shm(2, 4, &["check", "--check"]),
    shm(8, 1, &["check", "--check"]),
    // Small and many: the sequence numbers, 1024 of them, wrap some forty times, on three
    // communicators at once.
    tcp(2, 2, &WRAPS),
    shm(2, 1, &WRAPS),
    two_hosts(2, &["check", "--check", "--messages", "1000"]),
    two_hosts(4, &["check", "--check", "--messages", "1000"]),
    light(2, 1, &["check", "--check"]).sendrecv(),
    tcp(2, 1, &WRAPS).sendrecv(),
    shm(4, 1, &["check", "--check"]).sendrecv(),
];

/// What is moved through every table of both plugins: few messages, of all sizes.
pub(crate) const TABLE_CHECKS: [Load; 6] = [
    light(2, 1, &SHORT),
    light(2, 4, &SHORT),
    shm(2, 1, &SHORT),
    shm(2, 4, &SHORT),
    light(2, 1, &SHORT_WHOLE).sendrecv(),
    shm(2, 1, &SHORT_WHOLE).sendrecv(),
];

const SHORT: [&str; 7] = [
    "check",
    "--check",
    "--truncate",
    "--messages",
    "300",
    "--max-size",
    "1M",
];

/// Without messages longer than the room for them, which SENDRECV does not cut.
const SHORT_WHOLE: [&str; 6] = ["check", "--check", "--messages", "300", "--max-size", "1M"];

const WRAPS: [&str; 8] = [
    "check",
    "--check",
    "--messages",
    "40000",
    "--max-size",
    "2K",
    "--comms",
    "3",
];

const fn light(ranks: u32, rails: u32, args: &'static [&'static str]) -> Load {
    Load {
        carrier: Carrier::LightTcp,
        ranks,
        rails,
        protocol: RDMA,
        hosts: Hosts::One,
        tables: USUAL,
        args,
    }
}

const fn tcp(ranks: u32, rails: u32, args: &'static [&'static str]) -> Load {
    Load {
        carrier: Carrier::Tcp,
        ranks,
        rails,
        protocol: RDMA,
        hosts: Hosts::One,
        tables: USUAL,
        args,
    }
}

const fn shm(ranks: u32, rails: u32, args: &'static [&'static str]) -> Load {
    Load {
        carrier: Carrier::SharedMemory,
        ranks,
        rails,
        protocol: RDMA,
        hosts: Hosts::One,
        tables: USUAL,
        args,
    }
}

const fn two_hosts(rails: u32, args: &'static [&'static str]) -> Load {
    Load {
        carrier: Carrier::Tcp,
        ranks: 2,
        rails,
        protocol: RDMA,
        hosts: Hosts::Two,
        tables: USUAL,
        args,
    }
}

impl Load {
    /// Over the other protocol.
    const fn sendrecv(self) -> Self {
        Self {
            protocol: SENDRECV,
            ..self
        }
    }

    /// For the name of a step.
    pub(crate) fn title(&self) -> String {
        let carrier = match self.carrier {
            Carrier::Tcp | Carrier::LightTcp => "tcp",
            Carrier::SharedMemory => "shm",
        };
        let Self { ranks, rails, .. } = self;
        let hosts = match self.hosts {
            Hosts::One => "",
            Hosts::Two => ", 2 hosts",
        };
        let protocol = match self.protocol {
            SENDRECV => ", SENDRECV",
            _ => "",
        };
        format!(
            "{carrier}, {ranks} ranks, {rails} rail{}{hosts}{protocol}",
            if *rails == 1 { "" } else { "s" }
        )
    }

    /// The command, on a libfabric and what was built; everything random follows from the seed.
    pub(crate) fn program(&self, libfabric: &Libfabric, built: &Built, seed: u64) -> Program {
        let program = match self.hosts {
            Hosts::One => Program::new(&built.ofi)
                .args(["perf"])
                .args(self.args)
                .env("OFI_NCCL_FORCE_NUM_RAILS", self.rails.to_string()),
            Hosts::Two => in_namespace()
                .args(["sh", "-c", TWO_HOSTS, "hosts.sh", &self.rails.to_string()])
                .args([built.ofi.as_os_str(), "perf".as_ref()])
                .args(self.args)
                .args(["--rendezvous", MEETING, "--devices", "0"]),
        };
        let program = program
            .args(tables::options(self.tables, built))
            .args(["--ranks", &self.ranks.to_string()])
            .args(["--seed", &seed.to_string(), "--timeout", TIMEOUT_SECONDS])
            .env("FI_PROVIDER", self.provider(libfabric))
            .env("OFI_NCCL_PROTOCOL", self.protocol);
        let light: &[(&str, &str)] = match self.carrier {
            Carrier::LightTcp => &LIGHT_RXM,
            Carrier::Tcp | Carrier::SharedMemory => &[],
        };
        let is_light = |name: &str| light.iter().any(|(own, _)| *own == name);
        let general = environment(libfabric)
            .into_iter()
            .filter(|(name, _)| !is_light(name));
        let light = light
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        general
            .chain(light)
            .fold(program, |program, (name, value)| program.env(name, value))
    }

    /// TCP is `tcp` from 1.18 on; before, that has no reliable datagrams and needs rxm above it.
    fn provider(&self, libfabric: &Libfabric) -> &'static str {
        match self.carrier {
            Carrier::SharedMemory => "shm",
            Carrier::Tcp if is_old(libfabric) => "tcp;ofi_rxm",
            Carrier::LightTcp if is_old(libfabric) => "net",
            Carrier::Tcp | Carrier::LightTcp => "tcp",
        }
    }
}

/// Whether two hosts can be made here: it takes network namespaces, and `ip`.
pub(crate) fn has_namespaces() -> bool {
    in_namespace()
        .args(["ip", "link", "set", "lo", "up"])
        .succeeds()
}

/// Runs what follows in a network namespace of its own.
fn in_namespace() -> Program {
    Program::new("unshare").args(namespace_options())
}

/// A program in a network namespace of its own.
pub(crate) fn in_namespace_of(program: &Program) -> Program {
    let unshare = [&["unshare"], namespace_options()].concat();
    program.clone().under(&unshare)
}

/// Of `unshare`; without being root, in a user namespace.
fn namespace_options() -> &'static [&'static str] {
    let is_root = Program::new("id")
        .args(["-u"])
        .output()
        .is_ok_and(|id| id.trim() == "0");
    if is_root {
        &["--net"]
    } else {
        &["--net", "--user", "--map-root-user"]
    }
}

/// Before 1.18. An unknown version is taken for a newer one.
pub(crate) fn is_old(libfabric: &Libfabric) -> bool {
    libfabric
        .major_minor()
        .is_some_and(|version| version < (1, 18))
}

/// Variables for whatever loads a libfabric here.
pub(crate) fn environment(libfabric: &Libfabric) -> Vec<(&'static str, String)> {
    let fixed = [
        // The default leaves out lo, which may be the only interface there is.
        ("OFI_NCCL_EXCLUDE_TCP_IF", ""),
        // rxm sizes its pools for 2048 messages on every rail of every rank: hundreds of MiB.
        ("FI_OFI_RXM_MSG_TX_SIZE", "128"),
        ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
        // Debian's libfabric pulls in libpsm2 and libinfinipath, which take over signal handlers.
        ("HFI_NO_BACKTRACE", "1"),
        ("IPATH_NO_BACKTRACE", "1"),
    ];
    let path = (PATH_VARIABLE, libfabric.path.display().to_string());
    fixed
        .into_iter()
        .map(|(name, value)| (name, value.to_owned()))
        .chain([path])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, Carrier, DEMO, LIGHT_RXM, Load};
    use crate::artifacts::Built;
    use crate::libfabric::Libfabric;

    fn line(load: Load, version: &str) -> String {
        let libfabric = Libfabric {
            version: version.to_owned(),
            path: "/x/lib.so".into(),
        };
        let built = Built::in_dir("built".as_ref());
        load.program(&libfabric, &built, 1).line()
    }

    #[test]
    fn tcp_of_an_old_libfabric_goes_through_rxm() {
        let tcp = *CHECKS
            .iter()
            .find(|load| load.carrier == Carrier::Tcp)
            .unwrap();
        assert!(line(tcp, "1.17.0").contains("FI_PROVIDER='tcp;ofi_rxm'"));
        let newer = line(tcp, "1.22.0");
        assert!(newer.contains("FI_PROVIDER=tcp "), "{newer}");
        assert!(line(tcp, "2.5.1").contains("OFI_LIBFABRIC_PATH=/x/lib.so"));
    }

    #[test]
    fn the_demo_makes_rxm_small_and_says_each_size_once() {
        for load in DEMO {
            let line = line(load, "1.17.0");
            for (name, value) in LIGHT_RXM {
                assert_eq!(line.matches(name).count(), 1, "{line}");
                assert!(line.contains(&format!("{name}={value} ")), "{line}");
            }
        }
    }
}
