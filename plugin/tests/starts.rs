//! What a start of the plugin says to the collectives library's logger, on each kind of provider: nothing
//! that worries where all is well, and one warning with cause and cure where it is not.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness;

/// One way to start: the provider, variables, how it ends (see `start.c`), and what the warning has.
struct Start<'a> {
    provider: &'a str,
    settings: &'a [(&'a str, &'a str)],
    ends: &'a str,
    texts: &'a [&'a str],
}

/// Where there are four NICs.
const FOUR: (&str, &str) = ("EFA_EMU_NICS", "4");
const GROUPS: (&str, &str) = ("OFI_NCCL_NIC_GROUPS", "rdmap0s4,rdmap0s5;rdmap0s6,rdmap0s7");

/// What is about RDMA has to be asked for: the v4 table speaks SENDRECV, and so does one NIC a device.
const RDMA: (&str, &str) = ("OFI_NCCL_PROTOCOL", "RDMA");

/// In place of a provider: `FI_PROVIDER` is not set.
const UNSET: &str = "(unset)";

/// A host that is for EFA.
const P5: (&str, &str) = ("OFI_NCCL_FORCE_PRODUCT_NAME", "p5.48xlarge");

/// All is well, with each protocol and with none chosen.
const HEALTHY: &[(&str, &[(&str, &str)])] = &[
    ("tcp", &[]),
    ("tcp", &[RDMA, ("OFI_NCCL_FORCE_NUM_RAILS", "4")]),
    // Who asks for another provider than EFA need not be warned of it.
    ("tcp", &[P5]),
    ("shm", &[]),
    ("shm", &[RDMA]),
    ("efa", &[]),
    ("efa", &[FOUR, GROUPS]),
    ("efa", &[FOUR, ("OFI_NCCL_PROTOCOL", "SENDRECV")]),
];

/// Each with the code of its reason, the cause by name, and the way out.
const ODD: &[Start<'_>] = &[
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", "/nonexistent/libfabric.so.1")],
        ends: "fails",
        texts: &[
            "OFI-E0101",
            "/nonexistent/libfabric.so.1",
            "apt-get install libfabric1",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", "/proc/self/exe")],
        ends: "fails",
        texts: &["OFI-E0118", "/proc/self/exe", "OFI_NCCL_LIBFABRIC_PATH"],
    },
    // Not even the version of a pipe is asked for: nobody writes to it.
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", "/dev/null")],
        ends: "fails",
        texts: &["OFI-E0118", "/dev/null (it is no file)"],
    },
    // libefa of another rdma-core, libhwloc that an image lacks.
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", LACKING_FABRIC)],
        ends: "fails",
        texts: &[
            "OFI-E0118",
            "undefined symbol: efadv_query_mr",
            "`ofi doctor` and ldd",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", OLD_FABRIC)],
        ends: "fails",
        texts: &[
            "OFI-E0102",
            "libfabric.so.1 is libfabric 1.16, and 1.17 is needed",
        ],
    },
    Start {
        provider: "nosuch",
        settings: &[],
        ends: "fails",
        texts: &["OFI-E0103", "FI_PROVIDER=nosuch", "fi_info -l"],
    },
    // Names that libfabric takes to the last blank, and one of a fabric.
    Start {
        provider: " efa",
        settings: &[P5],
        ends: "fails",
        texts: &[
            "OFI-E0103",
            "FI_PROVIDER=\" efa\"; libfabric takes blanks for a part of a name",
        ],
    },
    Start {
        provider: "efa-direct",
        settings: &[],
        ends: "fails",
        texts: &[
            "OFI-E0103",
            "FI_PROVIDER=efa-direct; efa-direct is a fabric",
        ],
    },
    Start {
        provider: "\"tcp\"",
        settings: &[],
        ends: "fails",
        texts: &["OFI-E0103", "the quotes are part of the value"],
    },
    // Whatever is in a variable, what to do is within what collectives libraries keep of a line.
    Start {
        provider: LONG,
        settings: &[],
        ends: "fails",
        texts: &["OFI-E0103", "FI_PROVIDER=\"xxxx", "xx..\"; likely: "],
    },
    // libfabric takes an empty filter as one that nothing passes.
    Start {
        provider: "",
        settings: &[],
        ends: "fails",
        texts: &["OFI-E0103", "FI_PROVIDER set and empty", "unset it"],
    },
    // A host for EFA where libfabric has none: nothing else in silence, with any protocol.
    Start {
        provider: UNSET,
        settings: &[P5],
        ends: "fails",
        texts: &[
            "OFI-E0115",
            "p5.48xlarge has 32 EFAs",
            "set FI_PROVIDER=tcp",
        ],
    },
    Start {
        provider: UNSET,
        // A size of such a family that has no EFA: that comes first.
        settings: &[("OFI_NCCL_FORCE_PRODUCT_NAME", "trn1.2xlarge")],
        ends: "fails",
        texts: &["OFI-E0115", "sizes that have one", "likely: this size"],
    },
    Start {
        provider: UNSET,
        settings: &[("OFI_NCCL_FORCE_PRODUCT_NAME", "p4d.24xlarge"), RDMA],
        ends: "fails",
        texts: &["OFI-E0115", "p4d.24xlarge has 4 EFAs", "ofi doctor"],
    },
    // A filter that lets EFA in, and others too.
    Start {
        provider: "^shm",
        settings: &[P5],
        ends: "warns",
        texts: &[
            "OFI-W0116",
            "p5.48xlarge has 32 EFAs",
            "FI_PROVIDER=^shm gave tcp",
        ],
    },
    // A container without the devices, or another interface than there is.
    Start {
        provider: "efa",
        settings: &[("FI_EFA_IFACE", "rdmap99s0")],
        ends: "fails",
        texts: &[
            "OFI-E0103",
            "FI_PROVIDER=efa; this host shows no EFA on PCI",
            "/dev/infiniband",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_EXCLUDE_TCP_IF", ALL_INTERFACES)],
        ends: "fails",
        texts: &[
            "OFI-E0104",
            "excluded by OFI_NCCL_EXCLUDE_TCP_IF",
            "set OFI_NCCL_EXCLUDE_TCP_IF",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_PROTOCOL", "TCP")],
        ends: "warns",
        texts: &["OFI-W0203", "OFI_NCCL_PROTOCOL=\"TCP\"", "RDMA", "SENDRECV"],
    },
    Start {
        provider: "tcp",
        settings: &[RDMA, ("OFI_NCCL_NIC_GROUPS", "eth77,eth78")],
        ends: "fails",
        texts: &[
            "OFI-E0111",
            "\"eth77\", which is no NIC of this host; there are: ",
        ],
    },
    Start {
        provider: "efa",
        settings: &[RDMA, FOUR, GROUPS, ("OFI_NCCL_FORCE_NUM_RAILS", "3")],
        ends: "fails",
        texts: &[
            "OFI-E0111",
            "3 rails cannot be made of the 2 NICs of device 0",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[
            RDMA,
            ("OFI_NCCL_ENDPOINT_PER_COMM", "1"),
            ("OFI_NCCL_DOMAIN_PER_THREAD", "1"),
        ],
        ends: "fails",
        texts: &[
            "OFI-E0202",
            "OFI_NCCL_ENDPOINT_PER_COMM",
            "OFI_NCCL_DOMAIN_PER_THREAD",
        ],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_RDMA_MIN_POSTED_BOUNCE_BUFFERS", "5")],
        ends: "fails",
        texts: &["OFI-E0201", "BOUNCE_BUFFERS=5: withdrawn: set "],
    },
    Start {
        provider: "tcp",
        settings: &[RDMA, ("OFI_NCCL_EARLY_COMPLETION", "1")],
        ends: "fails",
        texts: &["OFI-E0206", "unset OFI_NCCL_EARLY_COMPLETION"],
    },
    // Writes that the device does not do by itself, or a libfabric that does not say so.
    Start {
        provider: "efa",
        settings: &[RDMA, ("EFA_EMU_GENERATION", "1.17")],
        ends: "fails",
        texts: &["OFI-E0119", "OFI_NCCL_PROTOCOL=SENDRECV"],
    },
    // No locked memory: known at the first use, for init registers nothing.
    Start {
        provider: "efa",
        settings: &[RDMA, ("EFA_EMU_PLAN", "mr-limit count=0")],
        ends: "unusable",
        texts: &["OFI-E0501", "FI_ENOMEM", "memlock"],
    },
    // A queue that the provider does not make, and no way to the memory of the instance's GPUs: known with the
    // first endpoint.
    Start {
        provider: "efa",
        settings: &[RDMA, ("OFI_NCCL_CQ_SIZE", "100000000")],
        ends: "unusable",
        texts: &[
            "OFI-E0110",
            "100000000 entries",
            "OFI_NCCL_CQ_SIZE: lower it",
        ],
    },
    Start {
        provider: "efa",
        settings: &[
            ("EFA_EMU_SHAPE", "p4d"),
            ("EFA_EMU_LACKS", "hmem"),
            ("OFI_NCCL_FORCE_PRODUCT_NAME", "p4d.24xlarge"),
        ],
        ends: "unusable",
        texts: &["OFI-E0120", "p4d.24xlarge"],
    },
    // What a job can run with is a warning, and one.
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_FORCE_NUM_RAILS", "9")],
        ends: "warns",
        texts: &["OFI-W0203", "OFI_NCCL_FORCE_NUM_RAILS=\"9\""],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_FORCE_NUM_RAIL", "4")],
        ends: "warns",
        texts: &["OFI-W0204", "OFI_NCCL_FORCE_NUM_RAILS"],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_TRACE_FILE", "/proc/nosuch/x")],
        ends: "warns",
        texts: &["OFI-W0205", "/proc/nosuch/x.", "No such file"],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_DUMP_DIR", "/proc/nosuch")],
        ends: "warns",
        texts: &["OFI-W0211", "OFI_NCCL_DUMP_DIR=/proc/nosuch: No such file"],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_STATS_DIR", "/proc/nosuch")],
        ends: "warns",
        texts: &["OFI-W0215", "/proc/nosuch/", "No such file"],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS", "500")],
        ends: "warns",
        texts: &["OFI-W0209", "is 500, above ", "using 128 for both"],
    },
    // Devices by hand that cannot all be connected, and NICs where nobody shows the bus that they are on.
    Start {
        provider: "efa",
        settings: &[
            RDMA,
            FOUR,
            (GROUPS.0, "rdmap0s4,rdmap0s5,rdmap0s6;rdmap0s7"),
        ],
        ends: "warns",
        texts: &["OFI-W0113", "devices have 1 to 3 rails", GROUPS.0],
    },
    Start {
        provider: "efa",
        settings: &[FOUR, ("OFI_NCCL_FS_ROOT", "/nonexistent")],
        ends: "warns",
        texts: &[
            "OFI-W0117",
            "4 NICs are PCI functions, and /nonexistent/sys/bus/pci/devices shows no",
        ],
    },
    // Foreign text is no format: names and values of variables reach the logger as they are.
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_%s%n%1$s", "1")],
        ends: "warns",
        texts: &["OFI-W0204", "\"OFI_NCCL_%s%n%1$s\""],
    },
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_CQ_SIZE", "%s%n%s%n%99999999d")],
        ends: "warns",
        texts: &["OFI-W0203", "OFI_NCCL_CQ_SIZE=\"%s%n%s%n%99999999d\""],
    },
    // The same from a path, through libfabric's and the loader's words.
    Start {
        provider: "tcp",
        settings: &[("OFI_NCCL_LIBFABRIC_PATH", "/%s%n%x/libfabric.so.1")],
        ends: "fails",
        texts: &["OFI-E0101", "/%s%n%x/libfabric.so.1"],
    },
    Start {
        provider: "efa",
        settings: &[
            ("EFA_EMU_SHAPE", "p4d"),
            ("FI_EFA_IFACE", "rdmap16s27"),
            ("OFI_NCCL_FORCE_PRODUCT_NAME", "p4d.24xlarge"),
        ],
        ends: "warns",
        texts: &["OFI-W0114", "1 of the 4 EFAs of p4d.24xlarge"],
    },
];

/// Stands for the names of all that are there.
const ALL_INTERFACES: &str = "*";

/// Stand for a libfabric that is older than any that works, and for one that lacks what it needs.
const OLD_FABRIC: &str = "(old)";
const LACKING_FABRIC: &str = "(lacking)";

/// More than anybody shows of a name.
const LONG: &str = match core::str::from_utf8(&[b'x'; 3000]) {
    Ok(text) => text,
    Err(_) => "",
};

fn interfaces() -> String {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.join(",")
}

fn run(plugin: &Path, start: &Start<'_>) {
    let Start {
        provider,
        settings,
        ends,
        texts,
    } = start;
    let arguments = [&[*ends], *texts].concat();
    let all = interfaces();
    let path = |dir: Option<PathBuf>| dir.unwrap_or_default().display().to_string();
    let named = |(name, value): &(&str, &str)| match *value {
        ALL_INTERFACES => ((*name).to_owned(), all.clone()),
        OLD_FABRIC => ((*name).to_owned(), path(harness::fabric("oldfabric"))),
        LACKING_FABRIC => ((*name).to_owned(), path(harness::fabric("lackingfabric"))),
        value => ((*name).to_owned(), value.to_owned()),
    };
    let settings = settings.iter().map(named);
    let change = |command: &mut Command| {
        // No file tree of an instance: what is nearest to the NICs is this machine's.
        command.env_remove("OFI_NCCL_PROTOCOL");
        if *provider == UNSET {
            command.env_remove("FI_PROVIDER");
        }
        let settings: Vec<_> = settings.collect();
        // Both names at once would be a warning of their own.
        if settings
            .iter()
            .any(|(name, _)| name == "OFI_NCCL_LIBFABRIC_PATH")
        {
            command.env_remove("OFI_LIBFABRIC_PATH");
        }
        command.envs(settings);
    };
    let plugins: [PathBuf; 1] = [plugin.into()];
    harness::run_on(provider, (&plugins, "start", &arguments), change);
}

/// Starts that work are silent.
pub(crate) fn healthy(plugin: &Path) {
    for (provider, settings) in HEALTHY {
        let start = Start {
            provider,
            settings,
            ends: "healthy",
            texts: &[],
        };
        run(plugin, &start);
        counted(plugin, &start);
    }
}

/// The same start over a libfabric that counts what it is asked: twice at most, as seen from outside.
fn counted(plugin: &Path, start: &Start<'_>) {
    let Some(dir) = harness::fabric("countingfabric") else {
        return;
    };
    let counting = dir.join("libfabric.so.1").display().to_string();
    let real = match std::env::var("OFI_LIBFABRIC_PATH") {
        Ok(path) if !path.is_empty() => path,
        _ => "libfabric.so.1".to_owned(),
    };
    let real = match Path::new(&real).is_dir() {
        true => format!("{real}/libfabric.so.1"),
        false => real,
    };
    let counts = [
        ("OFI_NCCL_LIBFABRIC_PATH", counting.as_str()),
        ("OFI_TEST_COUNTED", &counting),
        ("OFI_TEST_FABRIC", &real),
    ];
    let settings = [start.settings, &counts].concat();
    let start = Start {
        settings: &settings,
        ..*start
    };
    run(plugin, &start);
}

/// Starts that fail say why, once: those with these codes, or all with none given.
pub(crate) fn broken(plugin: &Path, codes: &[&str]) {
    odd(plugin, codes, |ends| ends == "fails");
}

/// So do those that a job can run with, or that fail later.
pub(crate) fn warned(plugin: &Path, codes: &[&str]) {
    odd(plugin, codes, |ends| ends != "fails");
}

fn odd(plugin: &Path, codes: &[&str], is_wanted: impl Fn(&str) -> bool) {
    let is_named = |start: &Start<'_>| {
        codes.is_empty() || start.texts.first().is_some_and(|code| codes.contains(code))
    };
    for start in ODD {
        if is_wanted(start.ends) && is_named(start) {
            run(plugin, start);
        }
    }
}

/// The EFA of a libfabric before 1.22, where the libfabric under test is one.
pub(crate) fn old_libfabric(plugin: &Path) {
    let start = Start {
        provider: "efa",
        settings: &[("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "0")],
        ends: if harness::libfabric_is_below(plugin, (1, 22)) {
            "fails"
        } else {
            "healthy"
        },
        texts: &["OFI-E0105", "libfabric is 1.", "EFA needs 1.22"],
    };
    run(plugin, &start);
}
