//! `ofi man` and `ofi completions`, and what all commands have in common, as people use them.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::Path;
use std::process::{Command, Output};

fn ofi(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn what_a_full_disk_does_not_take_is_a_failure() {
    for words in [
        &["completions", "bash"][..],
        &["emu", "--help-shapes"],
        &["explain", "OFI-E0501"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut ofi = Command::new(env!("CARGO_BIN_EXE_ofi"));
        let ran = ofi.args(words).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            !ran.status.success() && said.contains("standard output"),
            "{words:?}: {ran:?}"
        );
    }
}

#[test]
fn an_unknown_option_of_emu_is_no_command() {
    let ran = ofi(&["emu", "--shpae", "p5", "--", "true"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.code() == Some(2) && said.contains("no option --shpae"),
        "{ran:?}"
    );
}

#[test]
fn pages_are_where_man_looks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let ran = ofi(&["man", dir.path().to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");
    let read = |page: &str| std::fs::read_to_string(dir.path().join(page)).unwrap();
    for (page, words) in [
        ("man1/ofi.1", "ofi\\-perf(1)"),
        ("man1/ofi-perf.1", "\\-\\-plugin"),
        ("man1/ofi-pair-listen.1", "\\-\\-addr"),
        ("man7/ofi-nccl.7", "OFI_NCCL_EAGER_MAX_SIZE"),
        ("man7/ofi-errors.7", "OFI\\-E0501"),
    ] {
        let text = read(page);
        assert!(
            text.contains(words) && text.contains(".TH "),
            "{page}: {text}"
        );
    }
    let ran = ofi(&["man", "/proc/nowhere"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("/proc/nowhere"));
}

/// With the shell itself: what it would offer behind these words.
fn offered(script: &Path, words: &[&str]) -> String {
    let program = r#"
        source "$0" || exit 3
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _ofi ofi "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[@]}""#;
    let ran = Command::new("bash")
        .args(["-c", program, script.to_str().unwrap()])
        .args(words)
        .output()
        .unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("ofi");
    let ran = ofi(&["completions", "bash"]);
    assert!(ran.status.success(), "{ran:?}");
    std::fs::write(&script, &ran.stdout).unwrap();
    for (words, wanted) in [
        (&["ofi", "pe"][..], "perf"),
        (&["ofi", "doctor", "--nccl"], "--nccl-version"),
        (&["ofi", "pair", "li"], "listen"),
        (&["ofi", "perf", "--log", "w"], "warn"),
        (&["ofi", "completions", "f"], "fish"),
    ] {
        let offered = offered(&script, words);
        assert!(
            offered.split_whitespace().any(|word| word == wanted),
            "{words:?}: {offered}"
        );
    }
}
