//! The emulated EFA as a provider, with a plan of faults, and its statistics afterwards.

use super::{SCENARIO, bounded, child};
use core::sync::atomic::{AtomicU32, Ordering};
use efa_emu::shape::Shape;
use efa_emu::stats::Snapshot;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its name in `FI_PROVIDER`.
pub const EFA: &str = "efa";

/// Where the scenario finds its own statistics.
const STATS: &str = "EFA_EMU_STATS";
/// And a file tree with the sysfs of the shape.
const ROOT: &str = "OFI_NET_TEST_ROOT";

/// What a process needs to find it: nothing is chosen at random, and there is one NIC where nobody asks
/// for another shape.
pub fn dress(command: &mut Command) {
    command
        .env("FI_PROVIDER_PATH", provider_dir())
        .env("EFA_EMU_NICS", "1")
        .env("EFA_EMU_SEED", "1");
}

/// A directory with the provider under a name that libfabric loads, and nothing else.
fn provider_dir() -> PathBuf {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("efa-provider");
    std::fs::create_dir_all(&dir).unwrap();
    // Built beside the tests, as what they depend on.
    let deps = std::env::current_exe().unwrap();
    let file = deps.parent().unwrap().join("libefa_emu_fi.so");
    assert!(file.exists(), "{} was not built", file.display());
    // Several test programs do this at once: each makes its own link and moves it into place.
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let own = dir.join(format!("{}-{turn}", std::process::id()));
    symlink(file, &own).unwrap();
    std::fs::rename(own, dir.join("libefa-fi.so")).unwrap();
    dir
}

/// Runs `scenario` on emulated EFAs under a plan; afterwards nothing may be left open.
pub fn under_plan(name: &str, plan: &str, scenario: fn()) -> Vec<Snapshot> {
    on_shape("custom:nics=4", name, plan, scenario)
}

/// The same on the NICs of an instance. In the child, where `scenario` runs, there is nothing to
/// look at afterwards.
pub fn on_shape(shape: &str, name: &str, plan: &str, scenario: fn()) -> Vec<Snapshot> {
    on_part((shape, None), name, plan, scenario)
}

/// The same on some NICs of an instance, by name: what a container shows.
pub fn on_part(
    (shape, interfaces): (&str, Option<&str>),
    name: &str,
    plan: &str,
    scenario: fn(),
) -> Vec<Snapshot> {
    let names = interfaces.map(|names| ("FI_EFA_IFACE", names));
    let set: Vec<_> = names.into_iter().chain([("EFA_EMU_PLAN", plan)]).collect();
    on_shape_with((shape, &set), name, scenario)
}

/// The same with more variables.
pub fn on_shape_with(
    (shape, set): (&str, &[(&str, &str)]),
    name: &str,
    scenario: fn(),
) -> Vec<Snapshot> {
    if std::env::var(SCENARIO).as_deref() == Ok(name) {
        scenario();
        return Vec::new();
    }
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Shape::by_name(shape)
        .unwrap()
        .write_root(root.path())
        .unwrap();
    let mut command = child(name, EFA);
    command
        .env(STATS, dir.path())
        .env("EFA_EMU_SHAPE", shape)
        .env(ROOT, root.path())
        .env("EFA_EMU_NAME", "main")
        .envs(set.iter().copied());
    let output = bounded(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let context = format!("{name} with {set:?}: {}\n{text}\n{errors}", output.status);
    assert!(output.status.success(), "{context}");
    assert!(text.contains("1 passed"), "ran nothing: {context}");
    let seen = Snapshot::read_dir(dir.path()).unwrap();
    assert!(!seen.is_empty(), "nobody used the NICs: {context}");
    // Peers may have been killed by their plan, or by the test.
    for process in seen.iter().filter(|process| process.process == "main") {
        let leaks: Vec<_> = process.leaks().collect();
        assert!(
            leaks.is_empty(),
            "{leaks:?} left open; {process}\n{context}"
        );
    }
    seen
}

/// The statistics of this process so far, in a scenario.
pub fn so_far() -> Snapshot {
    let dir = std::env::var_os(STATS).unwrap();
    let pid = std::process::id();
    let all = Snapshot::read_dir(Path::new(&dir)).unwrap();
    all.into_iter().find(|process| process.pid == pid).unwrap()
}

/// The file tree of the shape, in a scenario.
pub fn root() -> PathBuf {
    std::env::var_os(ROOT).unwrap().into()
}
