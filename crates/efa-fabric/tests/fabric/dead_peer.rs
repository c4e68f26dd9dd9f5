//! A peer that is killed: what the survivor sees differs by provider (providers.md 1a), so each is
//! held to what it does. What all share: no crash, no hang in a call, and closing works.

use core::ffi::CStr;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use efa_fabric::{
    CompletionError, Context2, Errno, Info, PeerAddr, Posted, Source, Target, leak_count,
};

use crate::common::{self, Block, Event, Side, accepted, on_each_provider, until};

on_each_provider! { survivor }

/// How long a provider is watched after the death of the peer.
const WATCH: Duration = Duration::from_secs(2);

/// Names the provider to the child process.
const CHILD: &str = "OFI_TEST_CHILD_PROVIDER";

/// Not a test: the peer, when this binary is run again by `survivor`.
#[test]
fn child() {
    let Some(provider) = std::env::var_os(CHILD) else {
        return;
    };
    // SAFETY: prctl(2): asks the kernel to kill this process with its parent; no pointers.
    let code = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    assert_eq!(code, 0);
    let provider = std::ffi::CString::new(provider.into_encoded_bytes()).expect("a name");
    let Some(info) = common::info("child", known(&provider), common::modes()) else {
        return;
    };
    let side = Side::new(&info);
    let into = Block::new(&side.domain, 4096);
    let target = into.target(PeerAddr::ANY);
    let name = hex(&side.ep.name().expect("name"));
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nPEER {name} {} {}", target.addr, target.key).expect("stdout");
    out.flush().expect("stdout");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("stdin");
    side.av.insert(&unhex(line.trim())).expect("insert");
    // Until killed: the parent's writes need this side's progress.
    loop {
        side.poll().into_iter().for_each(Event::assert_good);
        std::thread::yield_now();
    }
}

fn known(provider: &CStr) -> &'static CStr {
    [c"tcp;ofi_rxm", c"shm", c"efa"]
        .into_iter()
        .find(|name| *name == provider)
        .unwrap_or(c"tcp")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// Starts the peer and exchanges addresses with it.
fn start(side: &Side, provider: &str) -> (Child, Target) {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "dead_peer::child", "--nocapture"])
        .env(CHILD, provider)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = lines
        .find_map(|line| {
            line.expect("the child's output")
                .strip_prefix("PEER ")
                .map(String::from)
        })
        .expect("the child's address");
    let fields: Vec<&str> = line.split(' ').collect();
    let peer = side.av.insert(&unhex(fields[0])).expect("insert");
    let number = |field: &str| field.parse().expect("a number");
    let target = Target {
        peer,
        addr: number(fields[1]),
        key: number(fields[2]),
    };
    let name = hex(&side.ep.name().expect("name"));
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin, "{name}").expect("the child listens");
    (child, target)
}

/// What the survivor saw after the death.
#[derive(Debug, Default)]
struct Seen {
    errors: Vec<CompletionError>,
    successes: usize,
    /// Posts that were accepted.
    accepted: usize,
    /// Whether the last post was still refused at the end.
    busy_at_end: bool,
}

/// Posts one write after the other for a while, and notes what comes of them.
fn watch(side: &Side, source: Source, target: Target, contexts: &mut [Context2]) -> Seen {
    let mut seen = Seen::default();
    let start = Instant::now();
    let mut contexts = contexts.iter_mut().map(core::ptr::from_mut);
    let mut context = contexts.next();
    while start.elapsed() < WATCH {
        if let Some(pointer) = context {
            // SAFETY: block and contexts outlive the endpoint's use: it is closed before them.
            let posted = unsafe { side.ep.post_writedata(source, 1, target, pointer) };
            seen.busy_at_end = posted.expect("a post") == Posted::Busy;
            if !seen.busy_at_end {
                seen.accepted += 1;
                context = contexts.next();
            }
        }
        for event in side.poll() {
            match event {
                Event::Done(_) => seen.successes += 1,
                Event::Failed(error) => seen.errors.push(error),
            }
        }
        std::thread::yield_now();
    }
    seen
}

fn survivor(info: &Info) {
    let side = Side::new(info);
    let (mut child, target) = start(&side, info.provider_name());
    let from = Block::of(&side.domain, &[1; 4096]);
    let mut contexts: Vec<Context2> = (0..16).map(|_| Context2::new()).collect();
    // SAFETY: block and contexts outlive the endpoint, which is closed before them.
    accepted([&side, &side], || unsafe {
        side.ep
            .post_writedata(from.source(), 1, target, &raw mut contexts[0])
    });
    until("a write to the living peer", || {
        side.poll().into_iter().map(Event::done).count() == 1
    });
    child.kill().expect("kill");
    child.wait().expect("wait");
    remove_leftovers(child.id());
    let seen = watch(&side, from.source(), target, &mut contexts);
    check(info, &seen);
    let leaks = leak_count();
    drop(side);
    assert_eq!(leak_count(), leaks);
}

/// A killed process leaves its files of shared memory behind, named after it.
fn remove_leftovers(pid: u32) {
    let prefix = format!("{pid}:");
    let files = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    for file in files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix)) {
        std::fs::remove_file(file.path()).expect("a file of a child of ours");
    }
}

/// Holds a provider to what it does.
fn check(info: &Info, seen: &Seen) {
    let lost = [
        Errno::ECANCELED,
        Errno::ECONNRESET,
        Errno::ECONNABORTED,
        Errno::ENOTCONN,
    ];
    for error in &seen.errors {
        assert!(lost.contains(&error.errno()), "{error}");
        assert!(!error.text().is_empty(), "{error}");
    }
    match info.provider_name() {
        // Every post is accepted and fails.
        "tcp;ofi_rxm" => {
            assert_eq!(seen.accepted, 16, "{seen:?}");
            assert_eq!(seen.errors.len() + seen.successes, 16, "{seen:?}");
            assert!(
                seen.successes <= 1,
                "only what was in flight may succeed: {seen:?}"
            );
            assert_eq!(
                seen.errors.last().map(CompletionError::errno),
                Some(Errno::ENOTCONN)
            );
        }
        // What was in flight fails, or had left before the death was noticed; then it is busy for
        // ever: deadlines are the user's affair.
        "tcp" | "net" => {
            assert!(seen.busy_at_end, "{seen:?}");
            assert_eq!(
                seen.errors.len() + seen.successes,
                seen.accepted,
                "{seen:?}"
            );
        }
        "efa" => check_efa(seen),
        // Nobody says a word: success up to 1.22, no completion at all in 2.5.
        "shm" => {
            assert!(seen.errors.is_empty(), "{seen:?}");
            assert!(
                seen.successes == 0 || seen.successes == seen.accepted,
                "{seen:?}"
            );
        }
        other => panic!("nothing is known of {other}"),
    }
}

/// The device finds out: every post is accepted, and fails.
fn check_efa(seen: &Seen) {
    assert_eq!((seen.accepted, seen.errors.len()), (16, 16), "{seen:?}");
    for error in &seen.errors {
        let code = (error.errno(), error.prov_errno());
        assert_eq!(code, (Errno::ECONNABORTED, 13), "{error}");
    }
}
