//! For whom `ofi doctor` judges on this machine.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::live::{doctor, plugin, said};

/// Root reads what is its own alone, and the user of a job does not.
#[test]
fn it_is_judged_for_the_user_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "return 2;");
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let ran = doctor(dir.path(), &["--user", "nobody", "--no-load"]);
    let text = said(&ran);
    let shut = format!("{} has mode 700", dir.path().display());
    assert!(text.contains("OFI-D104") && text.contains(&shut), "{text}");
    assert!(
        text.contains("nobody (") && text.contains("(by --user)"),
        "{text}"
    );
    let ran = doctor(dir.path(), &["--user", "no-such-user", "--no-load"]);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0));
    assert!(said(&ran).contains("--user no-such-user: there is no such user"));
}

/// The file of variables has none of Slurm's own, which the prolog itself has.
#[test]
fn a_prolog_says_whose_job_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("env");
    std::fs::write(&file, "LD_LIBRARY_PATH=/nowhere\n").unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["doctor", "--for", "nccl", "--no-load", "--env-file"])
        .arg(&file)
        .env("SLURM_JOB_UID", "65534")
        .output()
        .unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    let text = said(&ran);
    assert_eq!(text.contains("(by SLURM_JOB_UID)"), is_root, "{text}");
}

/// As root on an NFS that takes root for nobody: what the system refuses says nothing of another user.
#[test]
fn what_only_the_user_may_see_is_no_error() {
    const NOBODY: u32 = 65534;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if !status.lines().any(|line| line.starts_with("Uid:\t0\t0")) {
        // Past the capture of the harness: who runs the tests sees it, on a line of its own.
        let skipped = "\nskipped: what_only_the_user_may_see_is_no_error (it takes root)\n";
        std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mode =
        |file: &Path, mode| std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    let program = dir.path().join("ofi");
    std::fs::copy(env!("CARGO_BIN_EXE_ofi"), &program).unwrap();
    mode(&program, 0o755);
    let own = dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    plugin(&own, "return 2;");
    mode(&own, 0o700);
    let ran = |user: &str| {
        let ran = Command::new(&program)
            .args(["doctor", "--for", "nccl", "--no-load", "--user", user])
            .env("LD_LIBRARY_PATH", &own)
            .env_remove("NCCL_NET_PLUGIN")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        said(&ran)
    };
    let text = ran("root");
    assert!(
        text.contains("warning OFI-D118") && !text.contains("error OFI"),
        "{text}"
    );
    // Of nobody itself, which it is, the system's word counts.
    let text = ran("nobody");
    assert!(text.contains("error OFI-D104"), "{text}");
}
