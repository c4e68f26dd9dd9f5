//! `ofi doctor` on this machine, with plugins that do not start, crash, or never answer.

use std::path::Path;
use std::process::{Command, Output};

/// A plugin in C whose init does this, with the name of libfabric in its file.
pub(super) fn plugin(dir: &Path, init: &str) {
    plugin_with(dir, init, "libfabric.so.1");
}

fn plugin_with(dir: &Path, init: &str, opens: &str) {
    let source = format!(
        "#include <stdlib.h>\n#include <unistd.h>\n#include <signal.h>\n\
         const char opens[] = \"{opens}\"; static int count = 1, failing = 3; static char *name = \"mlx5_0\";\n\
         static int init(void *log) {{ (void)log; {init} }}\n\
         static int devices(int *n) {{ *n = count; return 0; }}\n\
         static int other(void) {{ return 3; }}\n\
         struct properties {{ char *name, *path; unsigned long long guid; int support, speed, port; float latency; int comms, receives; }};\n\
         static int properties(int n, struct properties *p) {{ p->name = name; p->support = p->comms = p->receives = 1; return failing; }}\n\
         void *ncclNetPlugin_v6[22] = {{ \"made\", init, devices, properties, other, other, other, other, other,\n\
           other, other, other, other, other, other, other, other, other, other, other, other, other }};\n"
    );
    let file = dir.join("made.c");
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(dir.join("libnccl-net.so"))
        .arg(&file)
        .status()
        .unwrap();
    assert!(built.success());
}

pub(super) fn doctor(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["doctor", "--for", "nccl"])
        .args(words)
        .env("LD_LIBRARY_PATH", dir)
        .env_remove("NCCL_NET_PLUGIN")
        .env_remove("NCCL_NET")
        .output()
        .unwrap()
}

pub(super) fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

#[test]
fn how_a_plugin_fails_is_told() {
    for (init, words, code, says) in [
        ("return 2;", &[][..], "OFI-D704", "init"),
        ("abort();", &[], "OFI-D701", "SIGABRT"),
        (
            "for (;;) pause();",
            &["--deadline", "0.3"],
            "OFI-D702",
            "no answer in 0.3 s",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        plugin(dir.path(), init);
        let ran = doctor(dir.path(), words);
        let text = said(&ran);
        assert_eq!(ran.status.code(), Some(1), "{text}");
        assert!(text.contains(code) && text.contains(says), "{text}");
        // An option of another command.
        assert!(!text.contains("--log"), "{text}");
    }
}

/// What a plugin says in C: lines of warnings through the logger that it gets.
fn saying(lines: &[&str], then: &str) -> String {
    let declared = "void (*say)(int, unsigned long, const char *, int, const char *, ...) = log; ";
    let said = lines
        .iter()
        .map(|line| format!("say(2, 1, \"made.c\", 1, \"%s\", \"{line}\"); "));
    declared.to_owned() + &said.collect::<String>() + then
}

/// The cause may stand behind any number of warnings, and what a plugin that starts warns of is news too.
#[test]
fn what_a_plugin_says_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let warnings = ["OFI-W0204 first", "OFI-W0204 second", "OFI-W0204 third"];
    let all: Vec<&str> = warnings
        .into_iter()
        .chain(["OFI-E0103 the cause"])
        .collect();
    plugin(dir.path(), &saying(&all, "return 2;"));
    let text = said(&doctor(dir.path(), &[]));
    assert!(
        text.contains("OFI-D704") && text.contains("the cause"),
        "{text}"
    );
    plugin(dir.path(), &saying(&warnings, "failing = 0; return 0;"));
    let text = said(&doctor(dir.path(), &[]));
    assert!(
        text.contains("warning OFI-D706") && text.contains("OFI-W0204 first"),
        "{text}"
    );
    plugin(dir.path(), "failing = 0; return 0;");
    let text = said(&doctor(dir.path(), &[]));
    assert!(!text.contains("OFI-D706"), "{text}");
}

/// NCCL takes the network whose name it is asked for, and only the plugin knows its own.
#[test]
fn a_plugin_that_calls_itself_otherwise_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    for (name, is_taken) in [("Libfabric", false), ("MADE", false), ("unset", true)] {
        plugin(dir.path(), "failing = 0; return 0;");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ofi"));
        command
            .args(["doctor", "--for", "nccl"])
            .env("LD_LIBRARY_PATH", dir.path())
            .env_remove("NCCL_NET_PLUGIN")
            .env("NCCL_NET", name);
        if name == "unset" {
            command.env_remove("NCCL_NET");
        }
        let text = said(&command.output().unwrap());
        assert_eq!(
            text.matches("error OFI-D102").count(),
            usize::from(!is_taken),
            "{text}"
        );
        assert_eq!(
            text.contains("started: \"made\""),
            name == "Libfabric",
            "{text}"
        );
    }
}

/// What harms a job on the instance is told where its environment is tried on an emulated one.
#[test]
fn settings_are_judged_on_emulated_instances_too() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "return 0;");
    for (name, value, code) in [
        ("FI_EFA_MTU_SIZE", "8900", "error OFI-D505"),
        ("NCCL_PROTO", "LL128", "warning OFI-D506"),
        ("FI_EFA_IFACE", "rdmap79s0", "warning OFI-D213"),
        ("NCCL_DEBUG", "INFO", "verdict: healthy"),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["emu", "--shape", "p5"])
            .arg(env!("CARGO_BIN_EXE_ofi"))
            .args([
                "doctor",
                "--for",
                "nccl",
                "--no-load",
                "--nccl-version",
                "2.18.3",
            ])
            .env("LD_LIBRARY_PATH", dir.path())
            .env_remove("NCCL_NET_PLUGIN")
            .env_remove("NCCL_NET")
            .env_remove("FI_PROVIDER")
            .env(name, value)
            .output()
            .unwrap();
        let text = said(&ran);
        assert!(text.contains(code), "{name}: {text}");
        assert!(!text.contains("VERSION_CHECK"), "{name}: {text}");
    }
}

#[test]
fn nothing_is_loaded_when_not_asked() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "raise(SIGSEGV); return 0;");
    let text = said(&doctor(dir.path(), &["--no-load"]));
    assert!(!text.contains("OFI-D70"), "{text}");
    assert!(
        text.contains("libnccl-net.so (by LD_LIBRARY_PATH), tables v6"),
        "{text}"
    );
}

#[test]
fn a_plugin_that_starts_without_a_device_is_no_start() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "count = 0; return 0;");
    let ran = doctor(dir.path(), &[]);
    let text = said(&ran);
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(
        text.contains("OFI-D704") && text.contains("counted 0"),
        "{text}"
    );
}

/// As a prolog does it, which has nothing of the job's environment.
#[test]
fn a_file_is_all_of_the_environment_of_what_is_started() {
    let dir = tempfile::tempdir().unwrap();
    plugin(
        dir.path(),
        "return getenv(\"ASKED\") == 0 || getenv(\"LEAKED\") != 0;",
    );
    let file = dir.path().join("job.env");
    let path = dir.path().display();
    for (more, fails) in [("ASKED=1\n", false), ("", true)] {
        std::fs::write(&file, format!("LD_LIBRARY_PATH={path}\n{more}")).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["doctor", "--for", "nccl", "--env-file"])
            .arg(&file)
            .env("LEAKED", "1")
            .env("NCCL_NET_PLUGIN", "none")
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .unwrap();
        let text = said(&ran);
        assert!(!text.contains("OFI-D101"), "{text}");
        assert_eq!(text.contains("init returned 1"), fails, "{text}");
    }
}

/// A look at a host with the variables of a job leaves nothing in the directories of that job: its tools would
/// take what is there for processes of the job.
#[test]
fn a_look_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("of_the_job");
    std::fs::create_dir(&out).unwrap();
    let names = [
        "OFI_NCCL_STATS_DIR",
        "OFI_NCCL_DUMP_DIR",
        "OFI_NCCL_TRACE_FILE",
    ];
    let is_set = names.map(|name| format!("getenv(\"{name}\")")).join(" || ");
    // A plugin whose init succeeds where none of them is there.
    plugin(dir.path(), &format!("return {is_set} ? 2 : 0;"));
    let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["doctor", "--for", "nccl"])
        .env("LD_LIBRARY_PATH", dir.path())
        .env_remove("NCCL_NET_PLUGIN")
        .env_remove("NCCL_NET")
        .env("OFI_NCCL_EXCLUDE_TCP_IF", "")
        .envs(names.map(|name| (name, out.join("made"))))
        .output()
        .unwrap();
    let text = said(&ran);
    // Its properties are no matter here.
    assert!(text.contains("getProperties returned"), "{text}");
    let left: Vec<_> = std::fs::read_dir(&out).unwrap().collect();
    assert!(left.is_empty(), "{left:?}: {text}");
}

/// A job whose collectives library brings one libfabric and whose plugin finds another.
#[test]
fn two_libfabrics_of_a_started_plugin_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("empty.c");
    std::fs::write(&source, "int x;\n").unwrap();
    let copies = ["one", "two"].map(|name| dir.path().join(name).join("libfabric.so.1"));
    for copy in &copies {
        std::fs::create_dir(copy.parent().unwrap()).unwrap();
        let mut build = Command::new("cc");
        build
            .args(["-shared", "-fPIC", "-o"])
            .arg(copy)
            .arg(&source);
        assert!(build.status().unwrap().success());
    }
    let opened = copies.each_ref().map(|copy| {
        format!(
            "extern void *dlopen(const char *, int); dlopen(\"{}\", 2);",
            copy.display()
        )
    });
    let [one, two] = &opened;
    for (init, copies) in [(one.clone(), 1), (format!("{one} {two}"), 2)] {
        plugin(dir.path(), &format!("{init} return 0;"));
        let text = said(&doctor(dir.path(), &[]));
        let told = text.matches("mapped: ").count();
        assert_eq!(told, if copies == 2 { 2 } else { 0 }, "{text}");
        assert_eq!(text.contains("OFI-D208"), copies == 2, "{text}");
    }
}

/// Real children with this machine's libfabric, where there is one.
#[test]
fn providers_are_listed_and_what_would_be_taken_is_told() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "return 0;");
    let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["doctor", "--for", "nccl", "--json"])
        .args([
            "--env",
            "FI_PROVIDER=nosuch",
            "--env",
            "OFI_NCCL_EXCLUDE_TCP_IF=",
        ])
        .env("LD_LIBRARY_PATH", dir.path())
        .env_remove("NCCL_NET_PLUGIN")
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let facts = json["facts"].as_array().unwrap();
    let has_libfabric = facts
        .iter()
        .any(|fact| fact["name"] == "libfabric" && fact["text"] != "none");
    if !has_libfabric {
        let skipped =
            "skipped: providers_are_listed_and_what_would_be_taken_is_told (no libfabric)";
        std::io::Write::write_all(&mut std::io::stderr(), format!("\n{skipped}\n").as_bytes())
            .unwrap();
        return;
    }
    let providers = json["providers"].as_array().unwrap();
    let tcp = providers
        .iter()
        .find(|provider| provider["name"].as_str().unwrap().starts_with("tcp"));
    let tcp = tcp.unwrap_or_else(|| panic!("{json:#}"));
    assert!(tcp["version"].as_str().unwrap().contains('.'), "{tcp}");
    assert!(!tcp["domains"].as_array().unwrap().is_empty(), "{tcp}");
    // The filter of the job hides nothing from the list, and is tried too.
    for (provider, ok, says) in [("tcp", true, "devices: "), ("nosuch", false, "OFI-E0103 ")] {
        let takes = json["takes"].as_array().unwrap();
        let taken = takes.iter().find(|taken| taken["provider"] == provider);
        let taken = taken.unwrap_or_else(|| panic!("{json:#}"));
        assert_eq!(taken["ok"], ok, "{taken}");
        assert!(taken["text"].as_str().unwrap().contains(says), "{taken}");
    }
}

#[test]
fn a_running_process_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep")
        .arg("60")
        .env("LD_LIBRARY_PATH", dir.path())
        .env("OFI_NCCL_EAGERMAXSIZE", "1")
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let ran = doctor(Path::new("/"), &["--pid", &pid]);
    child.kill().unwrap();
    child.wait().unwrap();
    let text = said(&ran);
    assert!(
        text.contains("OFI-D504") && text.contains("did you mean OFI_NCCL_EAGER_MAX_SIZE"),
        "{text}"
    );
}

/// By its file, or by what it did when it was started.
#[test]
fn a_plugin_of_another_network_leaves_emulated_efas_unused() {
    for opens in ["libibverbs.so.1", "libfabric.so.1"] {
        let dir = tempfile::tempdir().unwrap();
        plugin_with(dir.path(), "failing = 0; return 0;", opens);
        let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["emu", "--shape", "c5n"])
            .arg(env!("CARGO_BIN_EXE_ofi"))
            .args(["doctor", "--for", "nccl", "--nccl-version", "2.18.3"])
            .env("LD_LIBRARY_PATH", dir.path())
            .env_remove("NCCL_NET_PLUGIN")
            .env_remove("NCCL_NET")
            .env_remove("FI_PROVIDER")
            .output()
            .unwrap();
        let text = said(&ran);
        assert_eq!(ran.status.code(), Some(1), "{opens}: {text}");
        assert_eq!(text.matches("error OFI-D115").count(), 1, "{opens}: {text}");
        assert_eq!(
            text.contains("started: \"made\""),
            opens == "libfabric.so.1",
            "{text}"
        );
        assert!(!text.contains("error OFI-D704"), "{opens}: {text}");
    }
}

/// A plugin of libfabric that takes TCP where there are EFAs, with nothing in its settings that says so.
#[test]
fn a_plugin_on_other_devices_than_the_efas_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let libfabric = dir.path().join("libfabric.so.1");
    let mut build = Command::new("cc");
    let source = dir.path().join("empty.c");
    std::fs::write(&source, "int x;\n").unwrap();
    build
        .args(["-shared", "-fPIC", "-o"])
        .args([&libfabric, &source]);
    assert!(build.status().unwrap().success());
    let open = format!(
        "extern void *dlopen(const char *, int); dlopen(\"{}\", 2);",
        libfabric.display()
    );
    for (device, codes) in [("lo", 1), ("made_by_itself", 0)] {
        plugin(
            dir.path(),
            &format!("{open} name = \"{device}\"; failing = 0; return 0;"),
        );
        let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["emu", "--shape", "c5n"])
            .arg(env!("CARGO_BIN_EXE_ofi"))
            .args(["doctor", "--for", "nccl", "--nccl-version", "2.18.3"])
            .env("LD_LIBRARY_PATH", dir.path())
            .env_remove("NCCL_NET_PLUGIN")
            .env_remove("NCCL_NET")
            .env_remove("FI_PROVIDER")
            .output()
            .unwrap();
        let text = said(&ran);
        assert_eq!(
            text.matches("error OFI-D705").count(),
            codes,
            "{device}: {text}"
        );
        if codes > 0 {
            assert_eq!(ran.status.code(), Some(1), "{text}");
            assert!(
                text.contains("with: lo") && text.contains("likely: 1. "),
                "{text}"
            );
        }
    }
}

#[test]
fn emulated_instances_are_healthy_unless_a_nic_is_missing() {
    let beside = Path::new(env!("CARGO_BIN_EXE_ofi")).parent().unwrap();
    let files = ["libefa_emu_fi.so", "deps/libefa_emu_fi.so"].map(|file| beside.join(file));
    // Any file will do for what is looked at: the provider is found, and not loaded.
    let provider = files
        .iter()
        .find(|file| file.exists())
        .map_or_else(|| "/proc/self/exe".into(), Clone::clone);
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "return 0;");
    for (shape, says) in [
        ("p5", "verdict: healthy"),
        ("trn1", "verdict: healthy"),
        ("custom:nics=28,product=p5.48xlarge", "OFI-D309"),
        (
            "custom:nics=7,product=trn1.32xlarge",
            "7 of 8 EFAs are attached",
        ),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["emu", "--shape", shape, "--provider"])
            .arg(&provider)
            .arg(env!("CARGO_BIN_EXE_ofi"))
            .args([
                "doctor",
                "--for",
                "nccl",
                "--nccl-version",
                "2.18.3",
                "--no-load",
            ])
            .env("LD_LIBRARY_PATH", dir.path())
            .env_remove("NCCL_NET_PLUGIN")
            .env_remove("NCCL_NET")
            .env_remove("FI_PROVIDER")
            .output()
            .unwrap();
        let text = said(&ran);
        assert_eq!(ran.status.code(), Some(0), "{shape}: {text}");
        assert!(text.contains(says), "{shape}: {text}");
    }
}
