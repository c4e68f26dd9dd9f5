//! The plugin as C sees it: the programs of `plugin/tests`, through NCCL's tables; and the published
//! headers of both families.

#![expect(
    clippy::print_stdout,
    reason = "what is skipped is said on the test's output"
)]

use std::path::PathBuf;

#[path = "../../tests/calls.rs"]
mod calls;
#[path = "../../tests/devices.rs"]
mod devices;
#[path = "../../tests/harness.rs"]
mod harness;
#[path = "../../tests/starts.rs"]
mod starts;
#[path = "../../tests/topology.rs"]
mod topology;

/// What the programs are compiled with: the tables are NCCL's.
const FLAGS: &[&str] = &["-DOFI_TEST_NCCL"];

fn plugin() -> PathBuf {
    harness::library("libnccl_net_ofi.so", "OFI_TEST_NCCL_PLUGIN")
}

fn run(name: &str, arguments: &[&str], settings: &[(&str, &str)]) {
    harness::run(&[plugin()], name, arguments, settings);
}

#[test]
fn the_headers_are_the_tables_of_the_protocol_in_c_and_in_cxx() {
    harness::check_header_layout("layout");
}

#[test]
fn the_abi_survives_misuse_and_hundreds_of_lives() {
    run("nccl_abi", &[], &[]);
}

#[test]
fn bytes_arrive_between_versions() {
    for versions in [["6", "12"], ["7", "8"], ["9", "10"], ["11", "9"]] {
        run("pair", &versions, &[]);
    }
}

#[test]
fn bytes_arrive_over_sendrecv() {
    for versions in [["6", "12"], ["9", "9"]] {
        run("pair", &versions, &[("OFI_NCCL_PROTOCOL", "SENDRECV")]);
    }
}

#[test]
fn where_two_speak_different_protocols_both_are_told() {
    let soon = [
        ("OFI_NCCL_STALL_WARN", "1"),
        ("OFI_NCCL_CONNECT_TIMEOUT", "3"),
    ];
    run("protocols", &["12"], &soon);
}

#[test]
fn bytes_arrive_over_four_rails() {
    run("pair", &["12", "10"], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]);
}

#[test]
fn memory_of_a_gpu_is_sent_and_received_and_never_touched() {
    devices::messages(&plugin(), &["6", "12"]);
}

#[test]
fn a_dma_buf_that_is_refused_goes_by_its_address_with_one_warning() {
    devices::fall_back(&plugin(), "8");
}

#[test]
fn memory_that_the_nic_refuses_after_all_is_told_with_what_helps() {
    devices::refused(&plugin(), "9");
}

#[test]
fn where_there_is_no_cuda_its_memory_is_refused_with_a_code() {
    let sendrecv = ("OFI_NCCL_PROTOCOL", "SENDRECV");
    devices::none(&plugin(), "9");
    devices::run(&plugin(), &["9", "nocuda"], false, &[]);
    let lacks = ("EFA_EMU_LACKS", "cuda");
    devices::run(&plugin(), &["9", "nodevice"], true, &[lacks]);
    devices::run(&plugin(), &["9", "nodevice"], true, &[lacks, sendrecv]);
}

#[test]
fn contexts_of_threads_share_a_transport() {
    run("contexts", &["11"], &[]);
    run("contexts", &["12"], &[]);
}

#[test]
fn each_traffic_class_is_had_beside_the_others() {
    run("traffic", &[], &[]);
}

#[test]
fn a_profiler_sees_each_request_begin_and_end_once() {
    run("profiler", &["10"], &[]);
    run("profiler", &["12"], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]);
}

/// malloc counts what is in its caches as allocated (`tcache`, some 20 KiB of it seen to come and go).
const WITHOUT_CACHES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");

#[test]
fn a_thousand_connections_leave_nothing() {
    // The shorter the queues, the sooner they have gone round.
    let short = [
        ("OFI_NCCL_CQ_SIZE", "1"),
        ("OFI_NCCL_RDMA_MIN_POSTED_CONTROL_BUFFERS", "64"),
        ("OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS", "64"),
        WITHOUT_CACHES,
    ];
    run("thousand", &["12", "3000"], &short);
    let four = [&short[..], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]].concat();
    run("thousand", &["10", "7000"], &four);
}

#[test]
fn both_plugins_in_one_process_move_data_between_them() {
    let neuron = harness::library("libnccom_net.so", "OFI_TEST_NEURON_PLUGIN");
    // Not there: the first of them makes it.
    let above = format!(
        "{}/two-plugins-{}",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    let dir = format!("{above}/of/the/job");
    let settings = [("OFI_NCCL_STATS_DIR", dir.as_str())];
    harness::run(&[plugin(), neuron], "two_plugins", &[], &settings);
    // Each has a file of its own: the name is that of the process, and the second one taken.
    let files = std::fs::read_dir(&dir).expect("the directory that they have made");
    let names: Vec<String> = files
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let mut firsts = names
        .iter()
        .filter(|name| name.ends_with(".stats"))
        .peekable();
    assert!(firsts.peek().is_some(), "{names:?}");
    for first in firsts {
        assert!(names.contains(&format!("{first}.1")), "{names:?}");
    }
    std::fs::remove_dir_all(&above).expect("nobody uses it any more");
}

#[test]
fn without_libfabric_init_fails_with_one_warning() {
    harness::run_without_fabric(&plugin(), "nofabric");
}

#[test]
fn the_file_for_nccl_has_the_nics_of_the_properties_and_numbers_tell_hosts_apart() {
    topology::file_and_numbers(&plugin());
}

#[test]
fn a_call_that_fails_is_one_warning_with_cause_and_cure() {
    calls::told(&plugin(), ["12", "6"]);
}

#[test]
fn a_start_that_works_warns_of_nothing() {
    starts::healthy(&plugin());
}

#[test]
fn a_start_that_fails_is_one_warning_with_cause_and_cure() {
    starts::broken(&plugin(), &[]);
}

#[test]
fn a_start_with_something_odd_is_one_warning_with_cause_and_cure() {
    starts::warned(&plugin(), &[]);
}

#[test]
fn an_efa_of_an_old_libfabric_is_refused_by_name() {
    starts::old_libfabric(&plugin());
}
