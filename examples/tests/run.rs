//! Each example runs, and says what its page promises.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::process::{Command, Output};

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_schedule_covers_the_message_and_goes_on_where_the_last_one_ended() {
    let program = env!("CARGO_BIN_EXE_schedule");
    let text = printed(&run(program, &["150000", "4"]));
    let lines: Vec<&str> = text.lines().collect();
    let want = [
        "message 1023 of communicator 175053: 150000 bytes, 2 writes, immediate 0x2aaf37ff",
        "  rail 0: bytes 0..75008",
        "  rail 1: bytes 75008..150000",
        // The sequence number has wrapped.
        "message 0 of communicator 175053: 150000 bytes, 2 writes, immediate 0x2aaf3400",
        "  rail 2: bytes 0..75008",
        "  rail 3: bytes 75008..150000",
    ];
    assert_eq!(lines.get(..6), Some(&want[..]));
    let refused = run(program, &["150000", "5"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && errors.contains("1..=4"),
        "{errors}"
    );
}

#[test]
fn a_simulation_repeats_itself() {
    let program = env!("CARGO_BIN_EXE_simulate");
    let once = |seed| printed(&run(program, &[seed, "300"]));
    let text = once("7");
    assert!(
        text.contains("seed=7") && text.contains("300 messages ("),
        "{text}"
    );
    assert_eq!(text, once("7"));
    assert_ne!(text, once("8"));
}

#[test]
#[expect(clippy::print_stdout, reason = "what was skipped is said, by name")]
fn a_pair_moves_its_bytes() {
    let mut pair = Command::new(env!("CARGO_BIN_EXE_pair"));
    // The message pools of ofi_rxm, before 1.18, are sized for thousands of messages otherwise.
    pair.env("FI_OFI_RXM_MSG_TX_SIZE", "128")
        .env("FI_OFI_RXM_MSG_RX_SIZE", "128");
    let output = pair.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("OFI-E0101") && std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some() {
        println!("skipped: the example pair (no libfabric)");
        return;
    }
    let text = printed(&output);
    assert!(text.contains("1000000 sent, 1000000 received"), "{text}");
}
