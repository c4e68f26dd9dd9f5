//! The plugin as C sees it: compiles the programs of `plugin/tests` and runs them against the shared
//! object, over a real libfabric.
//!
//! | variable | meaning |
//! |---|---|
//! | `OFI_PLUGIN_PATH` | the shared object; else the one that cargo built for this test |
//! | `OFI_LIBFABRIC_PATH` | the libfabric; else the system's |
//! | `OFI_TEST_PROVIDERS` | providers, separated by commas; else `tcp,shm` |
//! | `OFI_TEST_ALLOW_NO_FABRIC=1` | without libfabric: skip by name instead of failing |
//!
//! `tcp` is `tcp;ofi_rxm` on libfabric before 1.18, where tcp has no endpoints of the kind needed.

#![expect(
    clippy::print_stdout,
    reason = "what is skipped is said on the test's output"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The source directory of the programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

fn compiler() -> Option<String> {
    let named = std::env::var("CC").ok();
    let candidates = named
        .iter()
        .map(String::as_str)
        .chain(["cc", "gcc", "clang"]);
    candidates.map(str::to_owned).find(|cc| {
        Command::new(cc)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    })
}

/// The compiled program; `None` without a C compiler. Each is compiled once.
fn program(name: &str) -> Option<PathBuf> {
    static COMPILED: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let made = compiled.entry(name.to_owned()).or_insert_with(|| {
        let cc = compiler()?;
        Some(compile(&cc, name))
    });
    made.clone()
}

fn compile(cc: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let fresh = dir.join(format!("{name}-{}", std::process::id()));
    let built = Command::new(cc)
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
        ])
        .arg(&fresh)
        .arg(sources().join(name).with_extension("c"))
        .args(["-ldl", "-pthread"])
        .output()
        .expect("the compiler that was just tried runs");
    assert!(
        built.status.success(),
        "{name}.c: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    // Another run of these tests may be executing the old one: replaced, never rewritten.
    let binary = dir.join(name);
    std::fs::rename(&fresh, &binary).expect("both names are in the test's directory");
    binary
}

/// The shared object: next to this test, or one directory up.
fn plugin() -> PathBuf {
    if let Some(path) = std::env::var_os("OFI_PLUGIN_PATH") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let file = "libnccom_net.so";
    let candidates = test.ancestors().skip(1).take(2).map(|dir| dir.join(file));
    let found: Vec<PathBuf> = candidates.filter(|path| path.is_file()).collect();
    let newest = found.into_iter().max_by_key(|path| {
        path.metadata()
            .and_then(|meta| meta.modified())
            .expect("a file has a time")
    });
    newest.expect("cargo builds the library before its tests; or set OFI_PLUGIN_PATH")
}

/// Runs a program for each provider. `settings` are environment variables.
fn run(name: &str, arguments: &[&str], settings: &[(&str, &str)]) {
    let Some(binary) = program(name) else {
        println!("skipped: {name} (no C compiler)");
        return;
    };
    let providers = std::env::var("OFI_TEST_PROVIDERS").unwrap_or_else(|_| "tcp,shm".to_owned());
    for provider in providers.split(',') {
        let mut command = Command::new(&binary);
        command
            .arg(plugin())
            .args(arguments)
            .env("FI_PROVIDER", provider)
            .env("OFI_NCCL_EXCLUDE_TCP_IF", "")
            .envs(settings.iter().copied());
        judge(
            &[&[name], arguments, &["on", provider]].concat().join(" "),
            &output(command),
        );
    }
}

fn output(mut command: Command) -> Output {
    command
        .output()
        .expect("a program that was just compiled runs")
}

const NO_FABRIC: &str = "libfabric is missing: install it, set OFI_LIBFABRIC_PATH, or let the tests \
                         be skipped with OFI_TEST_ALLOW_NO_FABRIC=1";

fn judge(what: &str, output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for line in stdout.lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line} [{what}]");
    }
    let no_fabric = stderr.contains("OFI-E0101");
    if no_fabric && std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") {
        println!("skipped: {what} (no libfabric)");
        return;
    }
    let hint = if no_fabric { NO_FABRIC } else { "" };
    let status = output.status;
    assert!(
        status.success(),
        "{what}: {status}\n{hint}\n{stdout}\n{stderr}"
    );
    assert!(stdout.ends_with("ok\n"), "{what} ended early: {stdout}");
}

const SHORT: [(&str, &str); 2] = [
    ("OFI_NCCL_CONNECT_TIMEOUT", "2"),
    ("OFI_NCCL_STALL_FAIL", "2"),
];

#[test]
fn the_abi_survives_misuse_and_a_hundred_lives() {
    run("abi", &[], &[]);
}

#[test]
fn bytes_arrive_through_v6() {
    run("pair", &["6", "6"], &[]);
}

#[test]
fn bytes_arrive_through_v5() {
    run("pair", &["5", "5"], &[]);
}

#[test]
fn bytes_arrive_through_v4_and_between_versions() {
    run("pair", &["4", "4"], &[]);
    run("pair", &["4", "6"], &[]);
    run("pair", &["6", "4"], &[]);
}

#[test]
fn bytes_arrive_over_four_rails() {
    run("pair", &["6", "6"], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]);
}

#[test]
fn bytes_arrive_without_eager_messages_and_with_close_messages() {
    let settings = [
        ("OFI_NCCL_EAGER_MAX_SIZE", "-1"),
        ("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "0"),
    ];
    run("pair", &["6", "6"], &settings);
}

#[test]
fn bad_handles_and_garbage_are_errors_within_the_deadline() {
    run("badhandle", &[], &SHORT);
}

#[test]
fn a_peer_killed_at_any_stage_is_an_error_within_the_deadline() {
    run("killed", &[], &SHORT);
}

#[test]
fn abort_on_error_ends_the_process_but_for_a_close_after_fini() {
    run("abort", &[], &[("OFI_NCCL_ABORT_ON_ERROR", "1")]);
}

#[test]
fn a_logger_that_calls_back_and_fini_among_calls() {
    run("reentry", &[], &[]);
}

#[test]
fn without_libfabric_init_fails_with_one_warning() {
    let Some(binary) = program("nofabric") else {
        println!("skipped: nofabric (no C compiler)");
        return;
    };
    let mut command = Command::new(&binary);
    command
        .arg(plugin())
        .env_remove("OFI_LIBFABRIC_PATH")
        .env("OFI_NCCL_LIBFABRIC_PATH", "/nonexistent/libfabric.so.1");
    let output = output(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "nofabric: {}\n{stderr}",
        output.status
    );
}
