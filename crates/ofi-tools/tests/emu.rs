//! `ofi emu` around a shell: what the command is given, and what comes of its status.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `ofi emu` with these words.
fn emu(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("emu")
        .args(words)
        .env_remove("FI_PROVIDER")
        .output()
        .unwrap()
}

/// Who stops `ofi emu` stops the command, and nothing stays behind.
#[test]
fn signals_go_on_to_the_command() {
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        if is_ignored(number) {
            continue; // as under nohup(1): commands inherit that, and so does whoever stops them
        }
        let status = 128 + number;
        let mut emu = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["emu", "sh", "-c", "echo $FI_PROVIDER_PATH; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = emu.stdin.take();
        let mut output = BufReader::new(emu.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let kill = format!("kill -{signal} {}", emu.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        // The end of its output: the command is gone, though its input is open.
        assert_eq!(output.read_line(&mut line).unwrap(), 0);
        let ran = emu.wait_with_output().unwrap();
        drop(input);
        assert_eq!(ran.status.code(), Some(status), "{ran:?}");
        assert!(text(&ran.stderr).contains("no process used"), "{ran:?}");
        assert!(!Path::new(line.trim()).exists(), "{line}");
    }
}

/// Whether this process, and so all it starts, ignores a signal: `SigIgn` of `proc_pid_status(5)`.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask >> (number - 1) & 1 == 1
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_command_gets_the_variables_and_gives_its_status() {
    let script = r#"test -e "$FI_PROVIDER_PATH/libefa-fi.so" && echo "$FI_PROVIDER $EFA_EMU_SHAPE $EFA_EMU_SEED $EFA_EMU_PLAN"; exit 3"#;
    let words = [
        "--shape",
        "p5",
        "--seed",
        "7",
        "--plan",
        "lose  at=1",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ran = emu(&words);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    assert_eq!(text(&ran.stdout), "efa p5 7 lose at=1\n");
    let said = text(&ran.stderr);
    assert!(
        said.contains("p5 with 32 NICs of 100 Gb/s; --seed 7; plan: lose at=1"),
        "{said}"
    );
    assert!(said.contains("no process used the emulated NICs"), "{said}");
}

#[test]
fn a_seed_nobody_chose_is_printed() {
    let ran = emu(&["sh", "-c", "echo $EFA_EMU_SEED"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let shown = format!("--seed {};", text(&ran.stdout).trim());
    assert!(text(&ran.stderr).contains(&shown), "{ran:?}");
}

#[test]
fn what_cannot_be_run_is_status_2_and_says_why() {
    for (words, says) in [
        (&["--shape", "p9", "true"][..], "p4d, p5"),
        (&["--plan", "lose when=1", "true"], "when=1"),
        (
            &["--plan", "lose nic=3; lose nic=0,4-7", "true"],
            "\"lose nic=0,4-7\": there is no NIC 4",
        ),
        (&["--plan", "lose from=9 to=8", "true"], "never strike"),
        (&["--plan", "no-such-file", "true"], "--plan no-such-file"),
        (&["/no/such/command"], "/no/such/command"),
        (&["--generation", "9.x", "true"], "2.4, 2.5, 2.6"),
        (&["--generation", "9.9", "true"], "--generation 9.9: "),
        (&["--provider", "/no/such", "true"], "--provider /no/such"),
        (&["--provider", "/dev/null", "true"], "libefa_emu_fi.so"),
        // Another library, a program, a directory.
        (&["--provider", &libc(), "true"], "fi_prov_ini"),
        (&["--provider", "/proc/self/exe", "true"], "fi_prov_ini"),
        (&["--provider", "/tmp", "true"], "fi_prov_ini"),
    ] {
        let ran = emu(words);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        assert!(text(&ran.stderr).contains(says), "{ran:?}");
    }
}

/// The C library of this process.
fn libc() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    paths
        .find(|path| path.contains("/libc.so"))
        .unwrap()
        .to_owned()
}

/// A rule that never struck is no success of what it was to show.
#[test]
fn rules_that_never_struck_are_a_status_of_their_own() {
    let run = |plan: &str, strict: &[&str]| {
        let mut words = vec!["--plan", plan];
        words.extend(strict);
        words.extend(["--", "true"]);
        emu(&words).status.code()
    };
    assert_eq!(run("lose at=1", &[]), Some(0));
    assert_eq!(run("lose at=1", &["--strict"]), Some(5));
    assert_eq!(run("lose at=1", &["--strict=rules"]), Some(5));
    assert_eq!(run("lose at=1", &["--strict=leaks"]), Some(0));
    assert_eq!(run("lose at=1", &["--strict=some"]), Some(2));
    assert_eq!(run("lose chance=1%", &["--strict"]), Some(0));
    assert_eq!(run("", &["--strict"]), Some(0));
}

/// With the binary alone a user finds every rule, and every example of the list is one that is taken.
#[test]
fn rules_and_shapes_are_listed_and_what_is_listed_works() {
    let ran = emu(&["--help-rules"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let listed = text(&ran.stdout);
    let examples: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("example: "))
        .collect();
    assert!(examples.len() > 15, "{listed}");
    let plan = examples.join("; ");
    let ran = emu(&["--plan", &plan, "--", "sh", "-c", "echo $EFA_EMU_PLAN"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(text(&ran.stderr).contains(&plan), "{ran:?}");
    let ran = emu(&["--help-shapes"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let shapes = text(&ran.stdout)
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names: Vec<&str> = shapes.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"trn2") && names.len() > 5, "{names:?}");
    for name in names {
        let ran = emu(&["--shape", name, "true"]);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    }
    assert_eq!(emu(&[]).status.code(), Some(2));
}

#[test]
fn a_directory_that_is_asked_for_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("run");
    let ran = emu(&["--shape", "trn1", "--dir", dir.to_str().unwrap(), "true"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let guid = dir.join("root/sys/class/infiniband/rdmap16s25/node_guid");
    assert!(std::fs::read_to_string(guid).unwrap().ends_with(":1000\n"));
}

/// Statistics that are cut off, or gone, say nothing of the command: its status is what it was.
#[test]
fn the_status_is_the_commands_whatever_became_of_its_statistics() {
    for (then, code) in [("exit 3", 3), ("exit 0", 0)] {
        for harm in [": > $EFA_EMU_STATS/z.1.efastat", "rm -r $EFA_EMU_STATS"] {
            let script = format!("{harm}; {then}");
            let ran = emu(&["--", "sh", "-c", &script]);
            assert_eq!(ran.status.code(), Some(code), "{ran:?}");
            assert!(
                text(&ran.stderr).contains("ofi emu: statistics: "),
                "{ran:?}"
            );
            let ran = emu(&["--strict", "--", "sh", "-c", &script]);
            assert!(!ran.status.success(), "{ran:?}");
        }
    }
}
