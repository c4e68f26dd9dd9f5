//! What a start asks for, what it costs, and what it says: nothing that worries where all is well, and all
//! there is to know where it is not.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Lines, Side, config, on_each_provider, sendrecv};
use ofi_net::log::{Level, Log};
use ofi_net::{Code, Config, Protocol, Transport};
use std::process::Command;
use std::sync::Arc;

/// The first start of a process asks twice at most, the next not at all; neither warns.
fn quiet_and_quick(settings: &Config) {
    let first = Side::new(settings.clone());
    let queries = first.net.startup().queries;
    let lines = first.log.at(Level::Info);
    assert!((1..=2).contains(&queries), "{queries} queries: {lines:?}");
    let about = lines.iter().filter(|line| line.starts_with("libfabric "));
    assert_eq!(about.count(), 1, "the provider is told of once: {lines:?}");
    let second = Side::new(settings.clone());
    assert_eq!(second.net.startup().queries, 0);
    for side in [&first, &second] {
        assert_eq!(side.log.at(Level::Warn), Vec::<String>::new());
        let lines = side.log.at(Level::Info);
        let told = lines.iter().filter(|line| line.starts_with("start-up: "));
        assert_eq!(told.count(), 1, "{lines:?}");
        assert_eq!(side.net.nccl_topology(), None);
    }
    let names = |side: &Side| side.net.properties(0).unwrap().clone();
    assert_eq!(names(&first), names(&second));
}

#[test]
fn rdma_starts_quietly_with_two_queries() {
    on_each_provider("rdma_starts_quietly_with_two_queries", || {
        quiet_and_quick(&config(2));
    });
}

#[test]
fn sendrecv_starts_quietly_with_two_queries() {
    on_each_provider("sendrecv_starts_quietly_with_two_queries", || {
        quiet_and_quick(&sendrecv());
    });
}

/// Where nobody chose a protocol both are looked for.
fn open() {
    let undecided = Config {
        protocol: None,
        force_num_rails: None,
        ..config(1)
    };
    quiet_and_quick(&undecided);
    assert_eq!(Side::new(undecided).net.protocol(), Protocol::SendRecv);
    // Rails by hand decide for RDMA, which need not have been asked for alone yet.
    let several = Config {
        protocol: None,
        ..config(2)
    };
    let side = Side::new(several);
    assert_eq!(side.net.protocol(), Protocol::Rdma);
    assert!(side.net.startup().queries <= 1);
    let (send, recv) = common::connect(&side.net, &side.net);
    side.net.close_send(send).unwrap();
    side.net.close_recv(recv).unwrap();
}

#[test]
fn an_open_protocol_starts_quietly_with_two_queries() {
    on_each_provider("an_open_protocol_starts_quietly_with_two_queries", open);
}

/// What a user has who sets nothing, where libfabric has no EFA and where it has: a protocol chosen, or
/// none, and the provider that libfabric lists first.
fn nobody_says_anything() {
    let unset = |config: Config| Config {
        fi_provider: None,
        force_num_rails: None,
        ..config
    };
    for protocol in [None, Some(Protocol::Rdma), Some(Protocol::SendRecv)] {
        let config = unset(Config {
            protocol,
            ..config(1)
        });
        // Each as the first of its process, as far as libfabric's answers go.
        if std::env::var("OFI_NET_TEST_PROTOCOL").as_deref() == Ok(&format!("{protocol:?}")) {
            quiet_and_quick(&config);
            let side = Side::new(config);
            assert_eq!(side.net.protocol(), protocol.unwrap_or(Protocol::SendRecv));
            let one_sided = protocol == Some(Protocol::Rdma);
            let properties = side.net.properties(0).unwrap();
            assert_eq!(properties.rma_supported, one_sided, "virtual addresses");
        }
    }
}

#[test]
fn without_a_named_provider_a_start_asks_twice_at_most() {
    let name = "without_a_named_provider_a_start_asks_twice_at_most";
    if std::env::var_os("OFI_NET_TEST_PROTOCOL").is_some() {
        return nobody_says_anything();
    }
    for provider in ["", "efa"] {
        for protocol in ["None", "Some(Rdma)", "Some(SendRecv)"] {
            let mut command = common::child(name, provider);
            command.env_remove("FI_PROVIDER");
            command.env("OFI_NET_TEST_PROTOCOL", protocol);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{protocol}: {text}\n{errors}");
            assert!(text.contains("1 passed"), "{text}");
        }
    }
}

/// Nothing is left: the block in the log has every set that was tried and a reason for every entry, and
/// the one error, which the plugin logs as its one warning, has code, reasons and what to do.
fn nothing_fits() {
    let interfaces = std::fs::read_dir("/sys/class/net").unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let none = Config {
        exclude_tcp_if: interfaces.map(name).collect(),
        ..config(1)
    };
    let log = Arc::new(Lines::default());
    let init = Transport::init(none, Arc::clone(&log) as Arc<dyn Log>);
    let provider = std::env::var("FI_PROVIDER").unwrap();
    let Err(error) = init else {
        assert!(["shm", "efa"].contains(&provider.as_str()), "{provider}");
        return;
    };
    assert_eq!(error.code(), Code::AllRejected);
    let text = error.to_string();
    for part in ["OFI-E0104", "OFI_NCCL_EXCLUDE_TCP_IF", "likely: ", "do: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\n') && text.len() < 1000, "{text}");
    assert_eq!(log.at(Level::Warn), Vec::<String>::new());
    let block = log.at(Level::Info);
    assert!(
        block[0].starts_with("looking for NICs for RDMA: libfabric "),
        "{block:?}"
    );
    let exact = "tried FI_MSG|FI_RMA|FI_HMEM|FI_LOCAL_COMM|FI_REMOTE_COMM, mr_mode FI_MR_LOCAL|";
    assert!(
        block[1].starts_with(exact) && block[1].ends_with(": none"),
        "{block:?}"
    );
    assert!(
        block[2].starts_with("tried any capabilities, ") && block[2].ends_with(" entries"),
        "{block:?}"
    );
    // Each that is left out has its reason, and none is told in Rust's words.
    let told = block[3..].iter().take_while(|line| line.starts_with("  "));
    assert!(told.count() >= 1, "{block:?}");
    assert!(
        !block.iter().any(|line| line.contains("Caps(")),
        "{block:?}"
    );
    let rejected = block.iter().filter(|line| line.contains("excluded by"));
    assert!(rejected.count() >= 1, "{block:?}");
    // Who mends it and tries again asks anew.
    let side = Side::new(config(1));
    assert!(side.net.startup().queries > 0);
}

#[test]
fn a_failed_start_says_what_was_tried_and_why_not() {
    on_each_provider(
        "a_failed_start_says_what_was_tried_and_why_not",
        nothing_fits,
    );
}

/// A provider that this libfabric does not have is an error that names it, not another provider: both
/// protocols are looked for, and the first answer stands.
fn named_provider_is_missing() {
    let undecided = Config {
        protocol: None,
        ..config(1)
    };
    let log = Arc::new(Lines::default());
    let error = Transport::init(undecided, Arc::clone(&log) as Arc<dyn Log>).unwrap_err();
    assert_eq!(error.code(), Code::NoProvider);
    let text = error.to_string();
    for part in ["OFI-E0103", "FI_PROVIDER=nosuch", "likely: ", "fi_info -l"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(log.at(Level::Warn), Vec::<String>::new());
    let block = log.at(Level::Info);
    let lines = |start: &str, end: &str| {
        let lines = block.iter();
        let lines = lines.filter(|line| line.starts_with(start) && line.ends_with(end));
        lines.count()
    };
    assert_eq!(lines("looking for NICs for ", ""), 2, "{block:?}");
    assert_eq!(
        lines("tried FI_MSG|FI_RMA|FI_HMEM", ": none"),
        1,
        "{block:?}"
    );
    // The list that serves both protocols is told of once.
    assert_eq!(lines("tried any capabilities, ", ": none"), 1, "{block:?}");
    assert_eq!(
        lines(
            "not tried FI_MSG|FI_RMA|FI_TAGGED|",
            ": there is none for RDMA"
        ),
        1,
        "{block:?}"
    );
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let name = "a_provider_that_is_not_there_is_named";
    if std::env::var("FI_PROVIDER").as_deref() == Ok("nosuch") {
        return named_provider_is_missing();
    }
    let output = common::child(name, "nosuch").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "{text}");
}

/// The devices are those that the list leaves, and names that keep nothing out are told of where they could.
fn excluded_by_name() {
    let start = |names: &[String]| {
        let excluding = Config {
            exclude_tcp_if: names.to_vec(),
            ..sendrecv()
        };
        let side = Side::new(excluding);
        let names =
            (0..side.net.devices().unwrap()).map(|n| side.net.properties(n).unwrap().name.clone());
        (names.collect::<Vec<_>>(), side)
    };
    let told = |side: &Side| {
        assert_eq!(side.log.at(Level::Warn), Vec::<String>::new());
        let mut lines = side.log.at(Level::Info);
        lines.retain(|line| line.starts_with("OFI_NCCL_EXCLUDE_TCP_IF "));
        lines
    };
    let (all, side) = start(&[]);
    assert_eq!(told(&side), Vec::<String>::new());
    let provider = std::env::var("FI_PROVIDER").unwrap();
    let is_ip = !["shm", "efa"].contains(&provider.as_str());
    // docker0 is of the default, and nowhere on many hosts.
    let (left, side) = start(&["docker0", "eth77", "eth78:1"].map(str::to_owned));
    assert_eq!(left, all);
    let line = "OFI_NCCL_EXCLUDE_TCP_IF has \"eth77,eth78:1\", and there is no such interface here: it takes \
                exact names";
    assert_eq!(told(&side), if is_ip { vec![line] } else { Vec::new() });
    if let ([first, others @ ..], true) = (&all[..], is_ip && all.len() > 1) {
        let (left, side) = start(core::slice::from_ref(first));
        assert_eq!(left, others);
        assert_eq!(told(&side), Vec::<String>::new());
    }
}

#[test]
fn interfaces_are_excluded_by_name_and_other_names_are_told_of() {
    on_each_provider(
        "interfaces_are_excluded_by_name_and_other_names_are_told_of",
        excluded_by_name,
    );
}

/// shm where `/dev/shm` is too small for it: libfabric does not list it, and the error says why.
fn no_room() {
    let error = Transport::init(config(1), Arc::new(Lines::default()) as Arc<dyn Log>).unwrap_err();
    assert_eq!(error.code(), Code::NoProvider, "{error}");
    let text = error.to_string();
    for part in ["FI_PROVIDER=shm; /dev/shm has 64 KiB, ", "--shm-size=1g"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn shm_without_room_says_so() {
    const SMALL: &str = "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$@\"";
    let name = "shm_without_room_says_so";
    if std::env::var("OFI_NET_TEST_SCENARIO").as_deref() == Ok(name) {
        return no_room();
    }
    let inside = |command: &Command| {
        let mut outer = Command::new("unshare");
        outer.args(["-rm", "sh", "-c", SMALL, "sh"]);
        outer.arg(command.get_program()).args(command.get_args());
        let set = command.get_envs();
        outer.envs(set.filter_map(|(name, value)| Some((name, value?))));
        outer.output()
    };
    let can = inside(&Command::new("true")).is_ok_and(|output| output.status.success());
    if !can {
        return common::say(&format!("skipped: {name} (no mount namespace here)"));
    }
    let output = inside(&common::child(name, "shm")).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "{text}");
}
