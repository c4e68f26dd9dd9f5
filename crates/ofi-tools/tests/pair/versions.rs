//! Versions of the two sides: told where they differ, and a cause where something fails.

use super::{Listening, listen, pair, said, tcp};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

/// Both directions of a connection to `to`; in the one to `to`, `old` becomes `new`.
fn between(to: &str, old: &str, new: &str) -> String {
    assert_eq!(old.len(), new.len(), "frames say how long they are");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let (to, old, new) = (to.to_owned(), old.to_owned(), new.to_owned());
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let back = std::thread::spawn(move || copy(far_too, near_too, |_| {}));
        copy(near, far, |bytes| {
            let text = bytes.to_owned();
            for at in (0..text.len()).filter(|at| text[*at..].starts_with(old.as_bytes())) {
                bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
            }
        });
        back.join().unwrap();
    });
    at
}

fn copy(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        change(&mut bytes[..len]);
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    // Either end may have closed both ways by now.
    drop(to.shutdown(std::net::Shutdown::Write));
}

/// The versions that this machine's `ofi pair` says it has, by their names in its hello.
fn own(env: &[(&str, &str)]) -> serde_json::Value {
    let listening = listen(&["--json"], env);
    let ran = pair(&["connect", &listening.at, "--json"], env)
        .output()
        .unwrap();
    let (status, text) = listening.end();
    assert_eq!(status, Some(0), "{text}{}", said(&ran));
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        json["warnings"],
        serde_json::json!([]),
        "the same on both: {json:#}"
    );
    json["here"].clone()
}

/// Each of the three, in a run that succeeds and in one that does not.
#[test]
fn versions_that_differ_are_told_and_are_a_cause() {
    let env = [("FI_PROVIDER", tcp()), ("OFI_NCCL_PROTOCOL", "RDMA")];
    let here = own(&env);
    for name in ["version", "libfabric", "provider_version"] {
        let version = here[name].as_str().unwrap();
        assert!(version.contains('.'), "{name}: {version}");
        let (old, other) = (
            format!("\"{name}\":\"{version}\""),
            "9".repeat(version.len()),
        );
        let new = format!("\"{name}\":\"{other}\"");
        let told = format!(" {version} here, {other} on ");
        let listening = listen(&[], &env);
        let at = between(&listening.at, &old, &new);
        let ran = pair(&["connect", &at], &env).output().unwrap();
        let (status, text) = listening.end();
        assert_eq!(
            (status, ran.status.code()),
            (Some(0), Some(0)),
            "{text}{}",
            said(&ran)
        );
        let is_told =
            |text: &str| text.contains("warning: versions differ: ") && text.contains(&told);
        assert!(is_told(&text), "{name}: {text}");
        assert!(
            !said(&ran).contains("differ"),
            "unchanged on its way: {}",
            said(&ran)
        );

        let listening = listen(&[], &env);
        let at = between(&listening.at, &old, &new);
        let one = [env[0], env[1], ("OFI_NCCL_FORCE_NUM_RAILS", "1")];
        let ran = pair(&["connect", &at], &one).output().unwrap();
        let (status, text) = listening.end();
        assert_eq!((status, ran.status.code()), (Some(1), Some(1)), "{text}");
        let cause = text
            .lines()
            .find(|line| line.contains("have different versions"));
        assert!(
            cause.is_some_and(|cause| cause.contains(&told)),
            "{name}: {text}"
        );
        assert!(
            !said(&ran).contains("have different versions"),
            "{}",
            said(&ran)
        );
    }
}

/// This run's libfabric against the system's: what is told is what they have.
#[test]
fn the_libfabrics_of_two_sides_are_compared() {
    let env = [
        ("FI_PROVIDER", "tcp;ofi_rxm"),
        ("OFI_NCCL_PROTOCOL", "RDMA"),
    ];
    let mut listening = pair(&["listen", "--addr", "127.0.0.1:0"], &env);
    let child = listening
        .env_remove("OFI_LIBFABRIC_PATH")
        .stdin(Stdio::null())
        .spawn();
    let listening = Listening::of(child.unwrap());
    let ran = pair(&["connect", &listening.at, "--json"], &env)
        .output()
        .unwrap();
    let (status, text) = listening.end();
    assert_eq!(
        (status, ran.status.code()),
        (Some(0), Some(0)),
        "{text}{}",
        said(&ran)
    );
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let [here, there] = ["here", "there"].map(|side| json[side]["libfabric"].as_str().unwrap());
    let warnings = json["warnings"].to_string();
    let told = format!("libfabric {here} here, {there} on ");
    assert_eq!(warnings.contains(&told), here != there, "{json:#}");
}
