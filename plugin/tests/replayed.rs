//! The sequences of the corpus, and some made of them, in a process of their own: they set the environment,
//! and what hangs is ended.

use std::process::{Command, Stdio};

#[path = "../../fuzz/replay.rs"]
#[expect(
    dead_code,
    reason = "as much as a check of microseconds gets is for the others"
)]
mod replay;

/// Made of each file, and of noise: a sequence takes some milliseconds.
const MADE: (u64, u64) = (60, 100);

/// In the process that plays them.
const PLAYS: &str = "OFI_SEQUENCES_PLAY";

/// Plays the corpus of `target` in a child that runs the test `name` only. `finish` is called at the end,
/// and says what was done.
pub(crate) fn play(name: &str, target: &str, check: impl Fn(&[u8]), finish: fn() -> String) {
    if std::env::var_os(PLAYS).is_some() {
        replay::replay_some(target, MADE, check);
        println!("{target}: {}", finish());
        return;
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let built = test.parent().expect("a file is in a directory");
    let child = Command::new(&test)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(PLAYS, "1")
        // What cargo built beside this test.
        .env("FI_PROVIDER_PATH", built)
        .stdin(Stdio::null())
        .output()
        .expect("this test can be run again");
    let said = String::from_utf8_lossy(&child.stdout);
    let told = String::from_utf8_lossy(&child.stderr);
    let no_fabric = told.contains("OFI-E0101");
    if no_fabric && std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") {
        println!("skipped: sequences of calls (no libfabric)");
        return;
    }
    assert!(child.status.success(), "{}\n{said}\n{told}", child.status);
    let done = said.split(&format!("{target}: ")).nth(1);
    let done = done.and_then(|rest| rest.lines().next());
    println!("{target}: {}", done.expect("the child played"));
}
