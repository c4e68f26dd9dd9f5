//! libfabric's own programs on the emulated EFA; skipped, by name, where they are not installed.
#![expect(
    clippy::print_stderr,
    reason = "a skipped test is named where people look"
)]

use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

/// A program that finds the provider. `None`, after saying so, if it is not installed.
fn program(name: &str) -> Option<Command> {
    match Command::new(name)
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: {name} is not installed");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    }
    let this = std::env::current_exe().expect("this binary");
    let mut command = Command::new(name);
    command
        .env("FI_PROVIDER_PATH", this.parent().expect("its directory"))
        .env("HFI_NO_BACKTRACE", "1")
        .env("IPATH_NO_BACKTRACE", "1")
        .env("EFA_EMU_SEED", "1");
    Some(command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn fi_info_shows_the_nics() {
    let Some(mut fi_info) = program("fi_info") else {
        return;
    };
    fi_info.args(["-p", "efa", "-v"]).env("EFA_EMU_NICS", "3");
    let shown = text(&fi_info.output().expect("fi_info"));
    assert_eq!(shown.matches("prov_name: efa").count(), 3, "{shown}");
    for line in [
        "FI_ADDR_EFA",
        "protocol: FI_PROTO_EFA",
        "cq_data_size: 4",
        "mr_key_size: 4",
        "bus_type: FI_BUS_PCI",
        "driver: efa",
        "fi_addr_efa://[fe80:",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_wrong_setting_is_told_and_shows_no_nic() {
    let Some(mut fi_info) = program("fi_info") else {
        return;
    };
    fi_info.args(["-p", "efa"]).env("EFA_EMU_NICS", "many");
    let output = fi_info.output().expect("fi_info");
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("EFA_EMU_NICS=many"), "{told}");
}

#[test]
fn fi_pingpong_plays() {
    let Some(mut server) = program("fi_pingpong") else {
        return;
    };
    let Some(mut client) = program("fi_pingpong") else {
        return;
    };
    // A port that nobody has.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its number").port().to_string();
    drop(free);
    let sizes = ["-p", "efa", "-e", "rdm", "-I", "20", "-S", "all", "-c"];
    server.args(sizes).args(["-B", &port]);
    client.args(sizes).args(["-P", &port, "127.0.0.1"]);
    let server = server
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server");
    // It may not listen yet.
    let mut shown = None;
    for _ in 0..200 {
        let output = client.output().expect("a client");
        if output.status.success() {
            shown = Some(text(&output));
            break;
        }
        std::thread::yield_now();
    }
    let shown = shown.expect("the client never came through");
    assert!(shown.contains("1m"), "{shown}");
    assert!(text(&server.wait_with_output().expect("the server")).contains("1m"));
}
