//! Ranks that somebody else started: launchers' variables, places to meet, strangers.

use core::time::Duration;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::common::{Ran, perf};

const WORK: [&str; 7] = [
    "check",
    "allreduce",
    "--check",
    "--messages",
    "30",
    "--max-size",
    "4K",
];

fn work() -> Command {
    let mut command = perf(&WORK);
    command.args(["--sizes", "4K", "--iters", "3"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ends(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

/// A port that was free a moment ago, with a free one behind it.
fn port() -> u16 {
    loop {
        let a = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = a.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

#[test]
fn ranks_of_torchrun_meet_by_its_variables() {
    let port = port().to_string();
    let start = |rank: &str| {
        let mut command = work();
        command.env("RANK", rank).env("WORLD_SIZE", "3");
        command
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", &port);
        command.spawn().unwrap()
    };
    // The last first: it has to wait for the place to be there.
    let (c, b, a) = (start("2"), start("1"), start("0"));
    ends(a).assert_verified();
    for other in [b, c] {
        let run = ends(other);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:#?}");
    }
}

#[test]
fn local_ranks_of_open_mpi_meet_at_an_abstract_socket() {
    let job = format!("test-{}", std::process::id());
    let start = |rank: &str| {
        let mut command = work();
        command
            .env("OMPI_COMM_WORLD_RANK", rank)
            .env("OMPI_COMM_WORLD_SIZE", "2");
        command
            .env("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
            .env("PMIX_NAMESPACE", &job);
        command.spawn().unwrap()
    };
    let (a, b) = (start("0"), start("1"));
    ends(a).assert_verified();
    assert_eq!(ends(b).code, Some(0));
}

#[test]
fn ranks_started_by_hand_meet_at_a_path() {
    let place = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", place.path().join("meet").display());
    let start = |rank: &str| {
        let mut command = work();
        command.args(["--ranks", "2", "--rank", rank, "--rendezvous", &path]);
        command.spawn().unwrap()
    };
    let (a, b) = (start("0"), start("1"));
    ends(a).assert_verified();
    assert_eq!(ends(b).code, Some(0));
    assert!(
        !place.path().join("meet").exists(),
        "the socket is left behind"
    );
}

#[test]
fn strangers_are_turned_away_and_the_run_goes_on() {
    let at = format!("127.0.0.1:{}", port());
    let start = |rank: &str| {
        let mut command = work();
        command.args(["--ranks", "2", "--rank", rank, "--rendezvous", &at]);
        command.spawn().unwrap()
    };
    let a = start("0");
    let hello = |rank: u8, world: u8| {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!(
            r#"{{"Hello":{{"magic":"ofi-perf","version":"{version}","rank":{rank},"world":{world},"job":"by hand"}}}}"#
        );
        let mut frame = u32::try_from(text.len()).unwrap().to_le_bytes().to_vec();
        frame.push(b'J');
        frame.extend(text.bytes());
        frame
    };
    for rubbish in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        Vec::new(),
        hello(9, 2),
        hello(1, 7),
        hello(0, 2),
    ] {
        let mut stranger = connect(&at);
        stranger.write_all(&rubbish).unwrap();
    }
    let b = start("1");
    let run = ends(a);
    run.assert_verified();
    assert!(
        run.stderr.contains("a connection was turned away"),
        "{run:#?}"
    );
    assert_eq!(ends(b).code, Some(0));
}

fn connect(at: &str) -> TcpStream {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpStream::connect(at) {
            Ok(stream) => return stream,
            Err(e) => assert!(Instant::now() < limit, "nobody listens: {e}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let at = format!("127.0.0.1:{}", port());
    let mut command = work();
    command.args([
        "--ranks",
        "3",
        "--rank",
        "0",
        "--rendezvous",
        &at,
        "--timeout",
        "1",
    ]);
    let run = ends(command.spawn().unwrap());
    let waiting = format!("waiting for 2 of 3 ranks at {at}\n");
    run.assert_says(3, &["rank(s) 1, 2 have not come", "--rendezvous", &waiting]);
    assert_eq!(run.stderr.matches("waiting for 2 of 3").count(), 1);
}

#[test]
fn a_rank_that_finds_nobody_says_where_it_looked() {
    let at = format!("127.0.0.1:{}", port());
    let mut command = work();
    command.args([
        "--ranks",
        "2",
        "--rank",
        "1",
        "--rendezvous",
        &at,
        "--timeout",
        "1",
    ]);
    let run = ends(command.spawn().unwrap());
    let waiting = format!("waiting for rank 0 at {at}\n");
    run.assert_says(3, &["rank 1 finds nobody", &at, &waiting]);
}

#[test]
fn whoever_waits_says_at_which_port_beside_the_launchers() {
    let port = port();
    let at = format!("127.0.0.1:{} (MASTER_PORT + 1)\n", port + 1);
    for (rank, text) in [
        ("0", "waiting for 1 of 2 ranks"),
        ("1", "waiting for rank 0"),
    ] {
        let mut command = work();
        command.env("RANK", rank).env("WORLD_SIZE", "2");
        command
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string());
        command.args(["--timeout", "1"]);
        let run = ends(command.spawn().unwrap());
        run.assert_says(3, &[&format!("{text} at {at}")]);
    }
}

#[test]
fn variables_that_make_no_sense_are_a_usage_error() {
    let mut command = work();
    command.env("RANK", "7").env("WORLD_SIZE", "2");
    ends(command.spawn().unwrap()).assert_says(2, &["RANK=7 and WORLD_SIZE=2", "2 to 256"]);
    let mut command = work();
    command.env("PMI_RANK", "0").env("PMI_SIZE", "2");
    ends(command.spawn().unwrap()).assert_says(2, &["started by MPICH", "--rendezvous"]);
}
