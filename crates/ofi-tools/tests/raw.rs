//! `ofi raw` between two processes on libfabric's shm provider.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::process::{Command, Output};

use serde_json::Value;

fn raw(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("raw")
        .args(words)
        .env("FI_PROVIDER", "shm")
        .env("OFI_NCCL_PROTOCOL", "RDMA")
        .env("OFI_NCCL_FORCE_NUM_RAILS", "2")
        .output()
        .unwrap()
}

#[test]
fn every_wire_measures_every_mode() {
    let words = "lat bw rate --sizes 0,8,300000 --window 4 --iters 40 --rounds 1 --json -";
    let ran = raw(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let points = told["points"].as_array().unwrap();
    assert_eq!(points.len(), 9, "{told}");
    for point in points {
        for (wire, values) in point["results"].as_object().unwrap() {
            // No plugin was named, and no eager message is so long.
            let absent = wire == "plugin" || wire == "eager" && point["size"] == 300_000;
            let count = values["rounds"].as_array().unwrap().len();
            assert_eq!(count, usize::from(!absent), "{wire}: {point}");
            // Nothing per second is no speed.
            let is_nothing = point["size"] == 0 && point["mode"] == "bw";
            if !absent && !is_nothing {
                assert!(values["median"].as_f64().unwrap() > 0.0, "{wire}: {point}");
            }
        }
    }
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (words, status, says) in [
        (&["check"][..], 2, "no raw equivalent"),
        (&["lat", "--window", "500"], 2, "1 to 128"),
        (&["lat", "--rounds", "0"], 2, "1 to 1000"),
        (&["lat", "--device", "99"], 1, "device 99"),
    ] {
        let ran = raw(words);
        assert_eq!(ran.status.code(), Some(status), "{words:?}: {ran:?}");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains(says), "{words:?}: {said}");
    }
}
