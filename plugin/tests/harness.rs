//! Compiles the programs of `plugin/tests` and runs them against shared objects, over a real
//! libfabric.
//!
//! | variable | meaning |
//! |---|---|
//! | `OFI_TEST_NEURON_PLUGIN`, `OFI_TEST_NCCL_PLUGIN` | the shared object of Neuron, of NCCL; else the one that cargo built for this test |
//! | `OFI_LIBFABRIC_PATH` | the libfabric; else the system's |
//! | `OFI_TEST_PROVIDERS` | providers, separated by commas; else `tcp,shm,efa` |
//! | `OFI_TEST_ALLOW_NO_FABRIC=1` | without libfabric: skip by name instead of failing |
//!
//! `tcp` is `tcp;ofi_rxm` on libfabric before 1.18, where tcp has no endpoints of the kind needed.
//! `efa` is the emulated one, which cargo builds beside these tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The source directory of the programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

fn compiler(variable: &str, usual: [&str; 3]) -> Option<String> {
    let named = std::env::var(variable).ok();
    let candidates = named.iter().map(String::as_str).chain(usual);
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
        let cc = compiler("CC", ["cc", "gcc", "clang"])?;
        Some(compile(&cc, name))
    });
    made.clone()
}

fn compile(cc: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // The directory is that of all packages.
    let binary = format!("{}-{name}", env!("CARGO_PKG_NAME"));
    let fresh = dir.join(format!("{binary}-{}", std::process::id()));
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
        .args(super::FLAGS)
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
    let binary = dir.join(binary);
    std::fs::rename(&fresh, &binary).expect("both names are in the test's directory");
    binary
}

/// A directory with a driver's library of CUDA that is none (`fakecuda.c`); `None` without a C compiler.
pub(crate) fn fake_cuda() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = COMPILED.get_or_init(|| shared_object("fakecuda", "libcuda.so.1", "libcuda.so.1"));
    made.as_deref()
}

/// A directory with a libfabric of the tests' own (`oldfabric.c` and `lackingfabric.c`, which will not do,
/// `countingfabric.c`, which counts); `None` without a C compiler.
pub(crate) fn fabric(source: &str) -> Option<PathBuf> {
    // A name of its own: the real one is looked for by its name.
    shared_object(source, "libfabric.so.1", source)
}

/// Compiles a source to a shared object of that file name, in a directory of its own; `soname` is what the
/// loader knows it by.
fn shared_object(source: &str, file: &str, soname: &str) -> Option<PathBuf> {
    let cc = compiler("CC", ["cc", "gcc", "clang"])?;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = dir.join(format!("{}-{source}", env!("CARGO_PKG_NAME")));
    std::fs::create_dir_all(&dir).expect("the directory is that of the test");
    let fresh = dir.join(format!("{}", std::process::id()));
    let built = Command::new(cc)
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra"])
        .args(["-Werror", &format!("-Wl,-soname,{soname}"), "-o"])
        .arg(&fresh)
        .arg(sources().join(source).with_extension("c"))
        .output()
        .expect("the compiler that was just tried runs");
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{source}.c: {errors}");
    std::fs::rename(&fresh, dir.join(file)).expect("both names are in one directory");
    Some(dir)
}

/// Compiles a file of assertions about the headers, as C11 and as C++17.
pub(crate) fn check_header_layout(name: &str) {
    let compilers = [
        ("CC", ["cc", "gcc", "clang"], "-std=c11", "c"),
        ("CXX", ["c++", "g++", "clang++"], "-std=c++17", "c++"),
    ];
    for (variable, usual, standard, language) in compilers {
        let Some(compiler) = compiler(variable, usual) else {
            println!("skipped: {name} (no compiler for {language})");
            continue;
        };
        let checked = Command::new(compiler)
            .args([standard, "-x", language, "-fsyntax-only"])
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .arg(sources().join(name).with_extension("c"))
            .output()
            .expect("the compiler that was just tried runs");
        let errors = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{name} as {language}: {errors}");
    }
}

/// A shared object: next to this test, or one directory up; or what the variable names.
pub(crate) fn library(file: &str, variable: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let candidates = test.ancestors().skip(1).take(2).map(|dir| dir.join(file));
    let found: Vec<PathBuf> = candidates.filter(|path| path.is_file()).collect();
    let newest = found.into_iter().max_by_key(|path| {
        path.metadata()
            .and_then(|meta| meta.modified())
            .expect("a file has a time")
    });
    newest.unwrap_or_else(|| panic!("cargo builds {file} before its tests; or set {variable}"))
}

/// Runs a program for each provider: its first arguments are the shared objects. `settings` are
/// environment variables.
pub(crate) fn run(plugins: &[PathBuf], name: &str, arguments: &[&str], settings: &[(&str, &str)]) {
    let providers =
        std::env::var("OFI_TEST_PROVIDERS").unwrap_or_else(|_| "tcp,shm,efa".to_owned());
    for provider in providers.split(',') {
        run_on(provider, (plugins, name, arguments), |command| {
            command.envs(settings.iter().copied());
        });
    }
}

/// Runs a program on one provider: the shared objects, its name, what else it is given; `change` has the
/// last word on its environment. What it printed; nothing where it was skipped.
pub(crate) fn run_on(
    provider: &str,
    (plugins, name, arguments): (&[PathBuf], &str, &[&str]),
    change: impl FnOnce(&mut Command),
) -> Option<String> {
    let Some(binary) = program(name) else {
        println!("skipped: {name} (no C compiler)");
        return None;
    };
    let mut command = Command::new(&binary);
    command
        .args(plugins)
        .args(arguments)
        .env("FI_PROVIDER", provider)
        .env("OFI_NCCL_EXCLUDE_TCP_IF", "")
        // With one NIC a device it would be SENDRECV; the settings say so where that is meant.
        .env("OFI_NCCL_PROTOCOL", "RDMA");
    if provider == "efa" {
        emulate(&mut command);
    }
    change(&mut command);
    judge(
        &[&[name], arguments, &["on", provider]].concat().join(" "),
        &output(command),
    )
}

/// Whether the libfabric that a plugin finds is older: as a start on shm says it.
pub(crate) fn libfabric_is_below(plugin: &Path, version: (u32, u32)) -> bool {
    let Some(binary) = program("start") else {
        return false;
    };
    let mut command = Command::new(binary);
    command.arg(plugin).arg("healthy");
    command
        .env("FI_PROVIDER", "shm")
        .env("OFI_TEST_VERBOSE", "1");
    let text = String::from_utf8_lossy(&output(command).stderr).into_owned();
    let told = text.split("NET/OFI libfabric ").nth(1).unwrap_or_default();
    let mut numbers = told.split(['.', ',']).map_while(|part| part.parse().ok());
    let found = numbers.next().zip(numbers.next());
    found.is_some_and(|found| found < version)
}

/// Shows a program one emulated EFA, in whichever libfabric.
fn emulate(command: &mut Command) {
    let test = std::env::current_exe().expect("a running test has a path");
    let built = test.parent().expect("a file is in a directory");
    assert!(
        built.join("libefa_emu_fi.so").exists(),
        "cargo builds libefa_emu_fi.so before these tests"
    );
    command
        .env("FI_PROVIDER_PATH", built)
        .env("EFA_EMU_NICS", "1")
        .env("EFA_EMU_SEED", "1")
        .env("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "1");
}

/// Runs a program where there is no libfabric.
pub(crate) fn run_without_fabric(plugin: &Path, name: &str) {
    let Some(binary) = program(name) else {
        println!("skipped: {name} (no C compiler)");
        return;
    };
    let mut command = Command::new(&binary);
    command
        .arg(plugin)
        .env_remove("OFI_LIBFABRIC_PATH")
        .env("OFI_NCCL_LIBFABRIC_PATH", "/nonexistent/libfabric.so.1");
    let output = output(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{name}: {status}\n{stderr}");
}

fn output(mut command: Command) -> Output {
    command
        .output()
        .expect("a program that was just compiled runs")
}

const NO_FABRIC: &str = "libfabric is missing: install it, set OFI_LIBFABRIC_PATH, or let the tests \
                         be skipped with OFI_TEST_ALLOW_NO_FABRIC=1";

fn judge(what: &str, output: &Output) -> Option<String> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for line in stdout.lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line} [{what}]");
    }
    let no_fabric = stderr.contains("OFI-E0101");
    if no_fabric && std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") {
        println!("skipped: {what} (no libfabric)");
        return None;
    }
    let hint = if no_fabric { NO_FABRIC } else { "" };
    let status = output.status;
    assert!(
        status.success(),
        "{what}: {status}\n{hint}\n{stdout}\n{stderr}"
    );
    assert!(stdout.ends_with("ok\n"), "{what} ended early: {stdout}");
    Some(stdout.into_owned())
}
