//! What a whole message costs, provider and all: the transport's own instructions, and those of libfabric and the C
//! library below it. No gate: the second number is not ours. It says what share of a raw provider's rate can be had at
//! all, where nothing but the processor is the limit.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::without::TRANSPORT;
use super::{LIMIT, rounds};
use crate::libfabric::Libfabric;
use crate::process::Program;
use crate::settings;
use crate::workspace::Workspace;

/// Windows of short messages, both sides in one process.
const CASE: &str = "net_window";

/// Instructions of a message, both sides together.
struct Share {
    ours: f64,
    below: f64,
}

/// Prints it for providers of this libfabric; the program is built.
///
/// # Errors
/// What cannot be measured.
pub(super) fn tell(here: &Workspace, libfabric: &Libfabric) -> Result<()> {
    let sockets = match settings::is_old(libfabric) {
        true => "tcp;ofi_rxm",
        false => "tcp",
    };
    for provider in [sockets, "shm"] {
        let Share { ours, below } = measure(here, libfabric, provider)?;
        println!(
            "hot: a message of 8 bytes over {provider}, both sides: {ours:.0} of ours, {below:.0} of libfabric and libc"
        );
    }
    Ok(())
}

fn measure(here: &Workspace, libfabric: &Libfabric, provider: &str) -> Result<Share> {
    let profile = here.target.join("hot-whole.callgrind");
    let program = TRANSPORT.program(here);
    let valgrind = Program::new("valgrind")
        .args([
            "--tool=callgrind",
            "--toggle-collect=*measured*",
            "--log-fd=1",
        ])
        .args([format!("--callgrind-out-file={}", profile.display())])
        .args([&program])
        .args([CASE]);
    let set = settings::environment(libfabric);
    let valgrind = set.iter().fold(valgrind, |valgrind, (name, value)| {
        valgrind.env(name, value)
    });
    let output = valgrind
        .env("FI_PROVIDER", provider)
        .limit(LIMIT)
        .output()?;
    let messages = rounds(&output).with_context(|| format!("{CASE} over {provider}:\n{output}"))?;
    let text = fs::read_to_string(&profile).with_context(|| profile.display().to_string())?;
    let (ours, below) = by_object(&text, TRANSPORT.example);
    ensure!(ours > 0.0 && below > 0.0, "{provider}: a side did nothing");
    Ok(Share {
        ours: ours / messages,
        below: below / messages,
    })
}

/// Costs in callgrind's file of the object whose path ends with `name`, and of all others (its manual, "Callgrind Format
/// Specification"): `ob=` says whose the lines of costs are that follow, and the one behind `calls=` is of the callee.
fn by_object(text: &str, name: &str) -> (f64, f64) {
    let (mut ours, mut below) = (0.0, 0.0);
    let mut names = HashMap::new();
    let (mut is_ours, mut is_callee) = (false, false);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("cob=") {
            named(object, &mut names);
        } else if let Some(object) = line.strip_prefix("ob=") {
            is_ours = named(object, &mut names).ends_with(name);
        } else if line.starts_with("calls=") {
            is_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_ascii_whitespace().nth(1);
            let cost = cost
                .and_then(|cost| cost.parse::<f64>().ok())
                .filter(|_| !is_callee);
            let to = if is_ours { &mut ours } else { &mut below };
            *to += cost.unwrap_or(0.0);
            is_callee = false;
        }
    }
    (ours, below)
}

/// The path of an object: `(id) path` the first time, `(id)` then.
fn named<'a>(object: &'a str, names: &mut HashMap<&'a str, &'a str>) -> &'a str {
    let (id, path) = object.split_once(' ').unwrap_or((object, ""));
    names.entry(id).or_insert(path)
}

#[cfg(test)]
mod tests {
    use super::by_object;

    #[test]
    fn costs_go_to_the_object_that_has_them() {
        let text = "events: Ir\n\nob=(1) /lib/fabric.so\nfl=(1) a.rs\nfn=(1) f\n10 5\n+2 7\ncob=(2) /t/examples/net\n\
            cfn=(2) g\ncalls=1 0\n* 40\n-3 1\n\nob=(2)\nfn=(2)\n0 40\nob=(3) /lib/c.so\nfn=(3) h\n0 2\nob=(1)\nfn=(1)\n1 1\n";
        assert_eq!(by_object(text, "examples/net"), (40.0, 16.0));
        assert_eq!(by_object("", "net"), (0.0, 0.0));
    }
}
