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

/// Each version of NCCL says in words of its own that there is no plugin, why, and which network it has then.
#[test]
fn every_nccl_is_understood() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/nccl.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let sections: Vec<(&str, &str)> = text
        .split("\n== ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap())
        .collect();
    assert!(sections.len() > 60, "{}", sections.len());
    for (head, log) in sections {
        let [_, status, source, network] = head.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let ran = explain(&["--json", "-"], log.as_bytes());
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let first = json["causes"][0]["source"].as_str().unwrap_or("none");
        assert_eq!(first, source, "{head}: {json:#}");
        assert_eq!(ran.status.code().unwrap().to_string(), status, "{head}");
        let networks = json["networks"].as_object().unwrap();
        let networks: Vec<&String> = networks.keys().collect();
        assert_eq!(networks, [network], "{head}");
        assert_eq!(json["unknown"]["lines"], 0, "{head}: {json:#}");
    }
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

/// Ranks of different hosts: which of them failed first their times say, and not how long their logs are.
#[test]
fn the_first_cause_of_several_logs_is_the_earliest() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let line = |time: &str, code: &str| format!("{time} h:1:2 [0] NCCL WARN NET/OFI {code} it\n");
    let late = write("late", line("2026-11-01T10:20:11", "OFI-E0601"));
    let early = "x\n".repeat(100) + &line("2026-11-01T10:10:00", "OFI-E0501");
    let early = write("early", early);
    for logs in [[&late, &early], [&early, &late]] {
        let text = explain(&logs.map(String::as_str), b"").stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("first cause: OFI-E0501"), "{text}");
        assert!(!text.contains("is a guess"), "{text}");
    }
    let untimed = write("untimed", line("", "OFI-E0402"));
    let text = explain(&[&late, &untimed], b"").stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("first cause: OFI-E0601") && text.contains("is a guess"),
        "{text}"
    );
}

#[test]
fn colours_hide_neither_networks_nor_versions() {
    let lines = "h:1:2 [0] NCCL INFO NCCL version \x1b[1m2.21.5+cuda12.4\x1b[0m\n\
        h:1:2 [0] NCCL INFO Using network Libfabric\n\
        \x1b[32m[1,4]<stdout>:\x1b[0mg:1:2 [0] NCCL INFO Using network \x1b[1mSocket\x1b[0m\n";
    let ran = explain(&["-"], lines.as_bytes());
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    for part in [
        "SOME RANKS ARE NOT USING LIBFABRIC: sockets",
        "NCCL 2.21.5+cuda12.4",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn codes_are_json_where_json_is_asked_for() {
    let json = |words: &[&str], input: &[u8]| -> serde_json::Value {
        serde_json::from_slice(&explain(words, input).stdout).unwrap()
    };
    let alone = json(&["--json", "OFI-E0103", "D107"], b"");
    assert_eq!(alone["codes"][0]["code"], "OFI-E0103");
    assert!(!alone["codes"][0]["likely"].as_array().unwrap().is_empty());
    assert_eq!(alone["codes"][1]["code"], "OFI-D107");
    let beside = json(
        &["--json", "W0204", "-"],
        b"a:1:2 NCCL INFO Using network Libfabric\n",
    );
    assert_eq!(beside["codes"][0]["code"], "OFI-W0204");
    assert_eq!(beside["networks"]["Libfabric"], 1);
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

/// It would look like a log of something else.
#[test]
fn a_compressed_log_says_how_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.gz");
    std::fs::write(&log, [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]).unwrap();
    let ran = explain(&[log.to_str().unwrap()], b"");
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("compressed (gzip): zcat it"), "{said}");
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
