//! The plugin as C sees it: the programs of `plugin/tests`, through Neuron's tables.

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

/// What the programs are compiled with: the tables are Neuron's.
const FLAGS: &[&str] = &[];

fn plugin() -> PathBuf {
    harness::library("libnccom_net.so", "OFI_TEST_NEURON_PLUGIN")
}

fn run(name: &str, arguments: &[&str], settings: &[(&str, &str)]) {
    harness::run(&[plugin()], name, arguments, settings);
}

/// Short, but a healthy connection comes up within it on a machine that is busy with other things.
const PATIENT: [(&str, &str); 2] = [
    ("OFI_NCCL_CONNECT_TIMEOUT", "8"),
    ("OFI_NCCL_STALL_FAIL", "4"),
];

const SHORT: [(&str, &str); 2] = [
    ("OFI_NCCL_CONNECT_TIMEOUT", "2"),
    ("OFI_NCCL_STALL_FAIL", "2"),
];

#[test]
fn the_headers_are_the_tables_of_the_protocol_in_c_and_in_cxx() {
    harness::check_header_layout("layout");
}

#[test]
fn memory_of_a_neuron_device_is_sent_and_received_and_never_touched() {
    devices::messages(&plugin(), &["5", "6"]);
}

#[test]
fn a_dma_buf_that_is_refused_goes_by_its_address_with_one_warning() {
    devices::fall_back(&plugin(), "6");
}

#[test]
fn memory_that_the_nic_refuses_after_all_is_told_with_what_helps() {
    devices::refused(&plugin(), "6");
}

#[test]
fn where_there_is_no_device_its_memory_is_refused_with_a_code() {
    devices::none(&plugin(), "6");
}

#[test]
fn the_abi_survives_misuse_and_a_hundred_lives() {
    run("abi", &[], &[]);
}

#[test]
fn bytes_arrive_through_v6() {
    run("pair", &["6", "6"], &[]);
}

#[test]
fn bytes_arrive_through_v5() {
    run("pair", &["5", "5"], &[]);
}

#[test]
fn bytes_arrive_through_v4_and_between_versions() {
    run("pair", &["4", "4"], &[]);
    run("pair", &["4", "6"], &[]);
    run("pair", &["6", "4"], &[]);
}

/// v4 by itself, the others where it is asked for: tables of one process may differ, the protocol not.
#[test]
fn bytes_arrive_over_sendrecv() {
    run("pair", &["4", "4"], &[("OFI_NCCL_PROTOCOL", "")]);
    for versions in [["4", "6"], ["5", "4"], ["6", "5"], ["6", "6"]] {
        run("pair", &versions, &[("OFI_NCCL_PROTOCOL", "SENDRECV")]);
    }
}

#[test]
fn where_two_speak_different_protocols_both_are_told() {
    let soon = [
        ("OFI_NCCL_STALL_WARN", "1"),
        ("OFI_NCCL_CONNECT_TIMEOUT", "3"),
    ];
    run("protocols", &["6"], &soon);
}

#[test]
fn bytes_arrive_over_four_rails() {
    run("pair", &["6", "6"], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]);
}

#[test]
fn bytes_arrive_without_eager_messages_and_with_close_messages() {
    let settings = [
        ("OFI_NCCL_EAGER_MAX_SIZE", "-1"),
        ("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "0"),
    ];
    run("pair", &["6", "6"], &settings);
}

#[test]
fn one_sided_calls_change_remote_memory_and_nothing_around_it() {
    run("onesided", &["6"], &[]);
    run("onesided", &["5"], &[("OFI_NCCL_FORCE_NUM_RAILS", "2")]);
}

#[test]
fn an_optional_receive_is_done_early_where_that_can_be() {
    let settings = [
        ("OFI_NCCL_EAGER_MAX_SIZE", "-1"),
        ("OFI_NCCL_FORCE_NUM_RAILS", "2"),
    ];
    run("optional", &["6"], &settings);
    run("optional", &["5"], &[("OFI_NCCL_EAGER_MAX_SIZE", "-1")]);
}

#[test]
fn bad_handles_and_garbage_are_errors_within_the_deadline() {
    run("badhandle", &[], &SHORT);
}

#[test]
fn a_peer_killed_at_any_stage_is_an_error_within_the_deadline() {
    run("killed", &[], &PATIENT);
}

/// Two cells of the matrix that `cargo xtask kills` runs whole.
#[test]
fn with_many_requests_in_flight_a_killed_or_stopped_peer_is_an_error_within_the_deadline() {
    run("kills", &["sending", "KILL", "64"], &PATIENT);
    run("kills", &["receiving", "STOP", "128"], &PATIENT);
}

#[test]
fn threads_with_connections_of_their_own_share_a_device() {
    run("threads", &["3"], &[]);
}

#[test]
fn a_peer_killed_at_any_stage_of_sendrecv_is_an_error_within_the_deadline() {
    let [connect, stall] = PATIENT;
    run(
        "killed",
        &[],
        &[connect, stall, ("OFI_NCCL_PROTOCOL", "SENDRECV")],
    );
}

#[test]
fn abort_on_error_ends_the_process_but_for_a_close_after_fini() {
    run("abort", &[], &[("OFI_NCCL_ABORT_ON_ERROR", "1")]);
}

#[test]
fn a_logger_that_calls_back_and_fini_among_calls() {
    run("reentry", &[], &[]);
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
    run("thousand", &["6", "3000"], &short);
    let four = [&short[..], &[("OFI_NCCL_FORCE_NUM_RAILS", "4")]].concat();
    run("thousand", &["4", "7000"], &four);
}

#[test]
fn without_libfabric_init_fails_with_one_warning() {
    harness::run_without_fabric(&plugin(), "nofabric");
}

#[test]
fn a_call_that_fails_is_one_warning_with_cause_and_cure() {
    calls::told(&plugin(), ["6", "4"]);
}

#[test]
fn a_start_that_works_warns_of_nothing() {
    starts::healthy(&plugin());
}

/// A few: the others are the same code.
#[test]
fn a_start_that_fails_is_one_warning_with_cause_and_cure() {
    starts::broken(&plugin(), &["OFI-E0103"]);
    starts::warned(&plugin(), &["OFI-W0203"]);
}

#[test]
fn an_efa_of_an_old_libfabric_is_refused_by_name() {
    starts::old_libfabric(&plugin());
}
