//! Healthy runs: every table, every mode, every byte.

use crate::common::{bare, nccl, neuron, perf, ran};

/// Small enough for a debug build on a busy machine.
const SMALL: [&str; 8] = [
    "--messages",
    "60",
    "--max-size",
    "64K",
    "--sizes",
    "0,1,4K,40000",
    "--iters",
    "12",
];

#[test]
fn every_table_of_both_families_moves_verified_bytes() {
    let tables = (4..=6)
        .map(|v| (neuron(), v))
        .chain((6..=12).map(|v| (nccl(), v)));
    for (plugin, version) in tables {
        let mut command = bare(&["check", "bidir", "allreduce", "--check"]);
        command.arg("--plugin").arg(plugin).args(SMALL);
        command
            .arg("--symbol")
            .arg(format!("ncclNetPlugin_v{version}"));
        let run = ran(command);
        run.assert_verified();
        let seen = format!("(ncclNetPlugin_v{version}, ");
        assert!(run.stdout.contains(&seen), "{run:#?}");
    }
}

#[test]
fn all_modes_with_several_ranks_comms_and_devices() {
    let mut command = perf(&["all", "--check", "--ranks", "3", "--comms", "2"]);
    command
        .args(["--devices", "all", "--window", "1,4", "--flush"])
        .args(SMALL);
    let run = ran(command);
    run.assert_verified();
    for mode in [
        "lat",
        "bw",
        "bidir",
        "rate",
        "check",
        "allreduce",
        "allgather",
        "alltoall",
    ] {
        let rows = run
            .stdout
            .lines()
            .filter(|l| l.starts_with(&format!("{mode} ")));
        let expected = match mode {
            "lat" => 4,
            "check" => 2,
            _ => 8,
        };
        assert_eq!(rows.count(), expected, "{mode}: {run:#?}");
    }
}

#[test]
fn cut_messages_random_sizes_and_pairs_are_verified() {
    let mut command = perf(&["check", "bw", "--check", "--truncate", "--random-sizes"]);
    command
        .args(["--ranks", "4", "--pairs", "all", "--element", "u32"])
        .args(SMALL);
    ran(command).assert_verified();
}

#[test]
fn integers_are_reduced_exactly_with_more_than_one_piece_a_chunk() {
    let mut command = perf(&["allreduce", "--check", "--ranks", "4", "--element", "u32"]);
    command.args([
        "--sizes",
        "0,4,1K,100000",
        "--slice",
        "4096",
        "--iters",
        "3",
    ]);
    ran(command).assert_verified();
}

#[test]
fn the_same_seed_moves_the_same_bytes_and_json_says_so() {
    let document = |seed: &str| -> serde_json::Value {
        let mut command = perf(&["check", "--json", "-", "--seed", seed]);
        command.args(SMALL);
        let run = ran(command);
        assert_eq!(run.code, Some(0), "{run:#?}");
        serde_json::from_str(&run.stdout).unwrap()
    };
    let (a, b, c) = (document("7"), document("7"), document("8"));
    assert_eq!(a["schema"], 1);
    assert_eq!(a["ok"], true);
    assert_eq!(a["verified"]["messages"], 120);
    assert_eq!(a["verified"]["bytes"], b["verified"]["bytes"]);
    assert_ne!(a["verified"]["bytes"], c["verified"]["bytes"]);
    assert_eq!(a["rows"][0]["mode"], "check");
    assert_eq!(a["ranks"][1]["devices"][1]["name"], "loop1");
    assert_eq!(a["plan"]["flavors"][0], "neuron");
    assert_eq!(a["plan"]["element"], "f32");
    assert_eq!(a["plan"]["pairs"], "first");
    assert_eq!(a["plan"]["yield"], "auto");
    assert_eq!(a["plan"]["log"], "warn");
    assert!(a["ranks"][0]["memory_kib"].as_u64().unwrap() > 0);
}

#[test]
fn an_unverified_run_promises_nothing_and_draws_its_plot() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plot.svg");
    let mut command = perf(&["lat", "bw", "--sizes", "1:4K:x4", "--iters", "10"]);
    command.arg("--plot").arg(&file);
    let run = ran(command);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(!run.stdout.contains("all bytes verified"), "{run:#?}");
    assert!(!run.stdout.contains("checked"), "{run:#?}");
    let svg = std::fs::read_to_string(file).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 3);
}

#[test]
fn a_run_of_which_a_part_was_verified_promises_no_more_than_that() {
    let mut command = perf(&["rate", "check", "--messages", "20", "--max-size", "4K"]);
    command.args(["--sizes", "8", "--iters", "4"]);
    let run = ran(command);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let last = run.stdout.lines().last();
    assert_eq!(last, Some("all bytes of the rows marked * verified"));
    let marked = |mode: &str| {
        let mut rows = run.stdout.lines().filter(|l| l.starts_with(mode));
        rows.all(|l| l.ends_with(" *"))
    };
    assert!(marked("check ") && !marked("rate "), "{run:#?}");
}

#[test]
fn a_plot_of_nothing_is_said_to_be_empty() {
    let place = tempfile::tempdir().unwrap();
    let mut command = perf(&["check", "--messages", "20", "--max-size", "4K"]);
    command.arg("--plot").arg(place.path().join("plot.svg"));
    let run = ran(command);
    run.assert_verified();
    assert!(
        run.stderr.contains("plot.svg is an empty drawing"),
        "{run:#?}"
    );
}

#[test]
fn the_plugins_log_reaches_standard_error_and_is_counted() {
    let mut command = perf(&["rate", "--sizes", "8", "--iters", "4"]);
    command.args(["--env", "1:LOOP_FAULT=warn"]);
    let run = ran(command);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(
        run.stderr.trim(),
        "[rank 1 WARN loop_plugin.c:1] a warning for the test"
    );
    assert!(run.stdout.contains("1 warnings of the plugin"), "{run:#?}");
}

#[test]
fn the_readmes_command_runs_as_written() {
    let readme = include_str!("../../README.md");
    let line = readme
        .lines()
        .find(|l| l.starts_with("ofi perf check allreduce"))
        .unwrap();
    let mut args: Vec<&str> = line.split_whitespace().skip(2).collect();
    let at = args.iter().position(|a| *a == "--plugin").unwrap();
    args.drain(at..at + 2);
    let mut command = perf(&args);
    command.args(SMALL);
    ran(command).assert_verified();
}
