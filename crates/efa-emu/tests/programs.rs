//! libfabric's own programs on the emulated EFA; skipped, by name, where they are not installed. They run
//! on the libfabric that `OFI_LIBFABRIC_PATH` names, or on their own.

#![expect(
    clippy::print_stderr,
    reason = "a skipped test is named where people look"
)]

use core::time::Duration;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// A program that finds the provider. `None`, after saying so, if it is not installed.
fn program(name: &str) -> Option<Command> {
    match Command::new(name)
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: {name} is not installed");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    }
    let this = std::env::current_exe().expect("this binary");
    let mut command = Command::new(name);
    command
        .env("FI_PROVIDER_PATH", this.parent().expect("its directory"))
        .env("HFI_NO_BACKTRACE", "1")
        .env("IPATH_NO_BACKTRACE", "1")
        .env("EFA_EMU_SEED", "1");
    let library = std::env::var_os("OFI_LIBFABRIC_PATH").filter(|path| !path.is_empty());
    if let Some(library) = library {
        let directory = Path::new(&library).parent().expect("its directory");
        command.env("LD_LIBRARY_PATH", directory);
    }
    Some(command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The fabric `efa`, and since 2.1 `efa-direct` too.
#[test]
fn fi_info_shows_the_nics() {
    for (generation, entries) in [("1.22", 3), ("2.5", 6)] {
        shows_the_nics(generation, entries);
    }
}

fn shows_the_nics(generation: &str, entries: usize) {
    let Some(mut fi_info) = program("fi_info") else {
        return;
    };
    fi_info
        .args(["-p", "efa", "-v"])
        .env("EFA_EMU_NICS", "3")
        .env("EFA_EMU_GENERATION", generation);
    let shown = text(&fi_info.output().expect("fi_info"));
    let count = shown.matches("prov_name: efa").count();
    assert_eq!(count, entries, "{generation}: {shown}");
    for line in [
        "FI_ADDR_EFA",
        "protocol: FI_PROTO_EFA",
        "cq_data_size: 4",
        "mr_key_size: 4",
        "bus_type: FI_BUS_PCI",
        "driver: efa",
        "fi_addr_efa://[fe80:",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_wrong_setting_is_told_and_shows_no_nic() {
    let Some(mut fi_info) = program("fi_info") else {
        return;
    };
    fi_info
        .args(["-p", "efa"])
        .env("EFA_EMU_NICS", "many")
        .env("EFA_EMU_SEEDS", "7");
    let output = fi_info.output().expect("fi_info");
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("EFA_EMU_NICS=many"), "{told}");
    assert_eq!(
        told.matches("EFA_EMU_SEEDS is set and means nothing")
            .count(),
        1,
        "{told}"
    );
}

#[test]
fn fi_pingpong_plays() {
    pingpong("1.22", ("all", "1m"), &[]);
}

/// Its messages are no longer than a packet.
#[test]
fn fi_pingpong_plays_on_efa_direct() {
    pingpong("2.5", ("8192", "8k"), &[]);
}

/// Of processes that nobody numbers, and with another process id each time.
#[test]
fn the_same_seed_gives_the_same_schedule() {
    let schedules = |seed: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let stats = dir.path().to_str().expect("text");
        let set = [("EFA_EMU_SEED", seed), ("EFA_EMU_STATS", stats)];
        pingpong("2.5", ("64", "64"), &set);
        let all = efa_emu_fi::stats::Snapshot::read_dir(dir.path()).expect("statistics");
        let schedules = all.iter().map(|process| process.total().schedule);
        // Not of clients that came before the server listened.
        let mut schedules: Vec<u64> = schedules.filter(|schedule| *schedule != 0).collect();
        schedules.sort_unstable();
        schedules
    };
    let first = schedules("11");
    if program("fi_pingpong").is_some() {
        assert_eq!(first.len(), 2);
    }
    assert_eq!(first, schedules("11"));
    assert!(first.is_empty() || first != schedules("12"));
}

/// Nobody chose it: the run says how it is had again.
#[test]
fn a_seed_that_nobody_chose_is_told() {
    for said in pingpong("2.5", ("64", "64"), &[("EFA_EMU_SEED", "")]) {
        assert_eq!(said.matches("EFA_EMU_SEED=").count(), 1, "{said}");
    }
}

/// Messages of these sizes to and fro; the longest is in the table of both sides. What they say beside.
fn pingpong(generation: &str, (sizes, longest): (&str, &str), set: &[(&str, &str)]) -> Vec<String> {
    let side = || {
        let mut side = program("fi_pingpong")?;
        side.args(["-p", "efa", "-e", "rdm", "-I", "5", "-S", sizes, "-c"]);
        side.env("EFA_EMU_GENERATION", generation);
        side.envs(set.iter().copied());
        Some(side)
    };
    for _ in 0..PORTS {
        let (Some(server), Some(client)) = (side(), side()) else {
            return Vec::new();
        };
        let Some(both) = play(server, client) else {
            continue;
        };
        for output in &both {
            assert!(text(output).contains(longest), "{output:?}");
        }
        let said = both.iter();
        return said
            .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
            .collect();
    }
    panic!("the client never came through");
}

/// So many ports are tried: somebody else may take one before the server does ..
const PORTS: usize = 5;
/// .. and each server has so long until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both sides to the end; `None` if there was no server, or none that answered.
fn play(mut server: Command, mut client: Command) -> Option<[Output; 2]> {
    // A port that nobody has.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its number").port().to_string();
    drop(free);
    server.args(["-B", &port]);
    client.args(["-P", &port, "127.0.0.1"]);
    let mut server = server
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server");
    let start = Instant::now();
    loop {
        let output = client.output().expect("a client");
        if output.status.success() {
            return Some([output, server.wait_with_output().expect("the server")]);
        }
        // It may not listen yet.
        if server.try_wait().expect("the server").is_some() {
            return None;
        }
        if start.elapsed() > PATIENCE {
            server.kill().expect("kill");
            server.wait().expect("wait");
            return None;
        }
        std::thread::yield_now();
    }
}
