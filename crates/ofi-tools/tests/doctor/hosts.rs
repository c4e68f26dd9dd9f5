//! Every host of `hosts/`: the cause is named first, and nothing else as an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::fixture::{Fixture, hosts};

fn doctor(host: &Fixture, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("doctor")
        .arg("--root")
        .arg(host.root())
        .arg("--env-file")
        .arg(host.env_file())
        .args(&host.args)
        .args(more)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(hosts())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "host"))
        .collect();
    files.sort();
    files
}

/// What is wrong with the answer for a host, if anything.
fn judge(file: &Path) -> Result<(), String> {
    let host = Fixture::make(file);
    let ran = doctor(&host, &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout)
        .map_err(|e| format!("{e}: {}{}", text(&ran.stdout), text(&ran.stderr)))?;
    let findings = json["findings"].as_array().unwrap();
    let codes: Vec<&str> = findings
        .iter()
        .map(|f| f["code"].as_str().unwrap())
        .collect();
    if codes != host.expect {
        return Err(format!(
            "{codes:?}, not {:?}: {:#}",
            host.expect, json["findings"]
        ));
    }
    let errors = findings.iter().filter(|f| f["severity"] == "error").count();
    // Broken in one way, or in two where the name says so.
    let is_two = file
        .file_stem()
        .is_some_and(|name| name.to_string_lossy().starts_with("two-at-once"));
    if errors > 1 + usize::from(is_two) {
        return Err(format!("{errors} errors"));
    }
    if json["ok"] != (errors == 0) || ran.status.code() != Some(i32::from(errors > 0)) {
        return Err(format!("status {:?} for {errors} errors", ran.status));
    }
    let mut said = String::new();
    collect(&json, &mut said);
    let missing = host.says.iter().find(|says| !said.contains(*says));
    missing.map_or(Ok(()), |says| {
        Err(format!("it does not say {says:?}:\n{said}"))
    })
}

/// All texts of a value, a line each.
fn collect(value: &serde_json::Value, into: &mut String) {
    match value {
        serde_json::Value::String(text) => into.extend([text, "\n"]),
        serde_json::Value::Array(list) => list.iter().for_each(|value| collect(value, into)),
        serde_json::Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
        _ => {}
    }
}

#[test]
fn every_host_has_its_cause_named_first_and_nothing_else_as_an_error() {
    let files = files();
    let faults: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let name = file.file_stem()?.to_string_lossy().into_owned();
            judge(file).err().map(|why| format!("{name}: {why}"))
        })
        .collect();
    assert!(
        faults.is_empty(),
        "{} of {} hosts:\n{}",
        faults.len(),
        files.len(),
        faults.join("\n")
    );
}

#[test]
fn the_catalogue_of_hosts_is_as_large_as_promised() {
    let hosts: Vec<Vec<String>> = files().iter().map(|file| Fixture::expected(file)).collect();
    let (healthy, broken): (Vec<_>, Vec<_>) = hosts.iter().partition(|codes| codes.is_empty());
    assert!(
        healthy.len() >= 5 && broken.len() >= 40,
        "{} and {}",
        healthy.len(),
        broken.len()
    );
    let mut codes: Vec<&String> = broken.iter().filter_map(|codes| codes.first()).collect();
    codes.sort();
    codes.dedup();
    assert!(codes.len() >= 30, "{codes:?}");
}

#[test]
fn warnings_are_errors_only_when_asked() {
    let host = Fixture::make(&hosts().join("unknown-variable.host"));
    let page = doctor(&host, &[]);
    assert_eq!(page.status.code(), Some(0));
    let page = text(&page.stdout);
    assert!(
        page.contains("warning OFI-D504") && page.contains("fix: "),
        "{page}"
    );
    assert!(
        page.lines().count() < 30 && page.ends_with("1 warnings\n"),
        "{page}"
    );
    assert_eq!(doctor(&host, &["--strict"]).status.code(), Some(1));
    let ran = doctor(&host, &["--nccl-version", "x"]);
    assert_eq!(ran.status.code(), Some(2));
    let ran = doctor(&host, &["--env", "=x"]);
    assert_eq!(ran.status.code(), Some(2));
}
