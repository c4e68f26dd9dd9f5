//! `ofi explain` against logs, each with the verdict it should have in its first line.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/logs")
}

fn explain(words: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("explain")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// What a log should be taken for: `# expect: status; source of the first cause; network; words of the output`.
fn judge(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let expected = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("# expect: ")
        .unwrap();
    let [status, source, network, says] =
        expected.split("; ").collect::<Vec<_>>().try_into().unwrap();
    let path = file.to_str().unwrap();
    let ran = explain(&[path, "--json"], b"");
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).map_err(|e| e.to_string())?;
    let first = json["causes"][0]["source"].as_str().unwrap_or("none");
    let has_network = network == "none" || json["networks"].get(network).is_some();
    let ends = ran.status.code().unwrap().to_string();
    let shown = explain(&[path], b"");
    let shown = String::from_utf8(shown.stdout).unwrap();
    if ends == status && first == source && has_network && shown.contains(says) {
        return Ok(());
    }
    Err(format!(
        "{}: status {ends}, first {first}\n{shown}",
        file.display()
    ))
}

#[test]
fn every_log_has_its_first_cause() {
    let files = std::fs::read_dir(logs())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() >= 20, "{}", files.len());
    let faults: Vec<String> = files.iter().filter_map(|file| judge(file).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn logs_of_several_ranks_are_one_story() {
    let all = ["healthy.log", "hwloc.log"].map(|name| logs().join(name));
    let words = all.each_ref().map(|path| path.to_str().unwrap());
    let ran = explain(&words, b"");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        text.contains("2 files") && text.contains("SOME RANKS ARE NOT USING LIBFABRIC"),
        "{text}"
    );
}

#[test]
fn hostile_input_is_an_answer() {
    let mut input = vec![0xff; 1 << 20];
    input.extend(b"\n\x00\x1b[2J using network \x1b[31m");
    input.extend(vec![b'A'; 1 << 20]);
    input.extend(b"\nNCCL version 99999999999999999999.1 OFI-E0103\n%s%n%p");
    let ran = explain(&["-"], &input);
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(
        text.contains("OFI-E0103") && !text.contains('\u{1b}') && text.len() < 4096,
        "{text}"
    );
    assert_eq!(explain(&["-"], b"hello\n").status.code(), Some(2));
    assert_eq!(explain(&["/no/such/log"], b"").status.code(), Some(2));
    assert_eq!(explain(&["-"], b"").status.code(), Some(2));
}

#[test]
fn a_code_is_explained_and_may_stand_beside_a_log() {
    let ran = explain(&["OFI-E0103"], b"");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{text}");
    for part in [
        "OFI-E0103: no libfabric provider fits",
        "1. FI_PROVIDER names",
        "do: ",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let ran = explain(&["w0204", "OFI-D107", "-"], b"NET/OFI OFI-E0103 no\n");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    for part in [
        "OFI-W0204: ",
        "OFI-D107: no plugin",
        "first cause: OFI-E0103",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let ran = explain(&["OFI-E9999"], b"");
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("no code OFI-E9999"));
}
