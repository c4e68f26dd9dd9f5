//! `cargo xtask sim`: random simulations of the engine, on all processors, until one fails.

use core::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process::Program;
use crate::workspace::Workspace;

/// Messages of one simulation.
const MESSAGES: u64 = 2_000;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// The first seed; `None`: one that nobody tried.
    from: Option<u64>,
    seeds: u64,
    minutes: u64,
    /// Of SENDRECV.
    is_tagged: bool,
}

impl Asked {
    fn read(mut options: &[&str]) -> Result<Self> {
        let mut asked = Self {
            from: None,
            seeds: u64::MAX,
            minutes: 10,
            is_tagged: false,
        };
        if let ["--tagged", rest @ ..] = options {
            (asked.is_tagged, options) = (true, rest);
        }
        while let [name, value, rest @ ..] = options {
            let number = || value.parse().with_context(|| format!("{name} {value}"));
            match *name {
                "--from" => asked.from = Some(number()?),
                "--seeds" => asked.seeds = number()?,
                "--minutes" => asked.minutes = number()?,
                _ => break,
            }
            options = rest;
        }
        match options {
            [] => Ok(asked),
            [name, ..] => bail!("sim has no option {name}; see cargo xtask help"),
        }
    }
}

/// Runs `ofi-sim`'s example, which hunts and sums up.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let from = asked.from.unwrap_or_else(fresh);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let numbers = [from, asked.seeds, MESSAGES, asked.minutes * 60];
    println!("seeds from {from}, {threads} at a time");
    let build = ["run", "--release", "--quiet", "-p", "ofi-sim", "--example"];
    let hunt: &[&str] = match asked.is_tagged {
        true => &["tagged", "--"],
        false => &["sim", "--", "hunt"],
    };
    Program::new("cargo")
        .args(build)
        .args(hunt)
        .args(numbers.map(|number| number.to_string()))
        .args([threads.to_string()])
        .dir(&here.root)
        .limit(Duration::from_secs(60 * (asked.minutes + 30)))
        .run()
}

/// A seed from the clock, far from those that the tests take.
fn fresh() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1 << 40, |since| {
        since.as_micros().try_into().unwrap_or(1 << 40)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_with_names() {
        let asked = Asked::read(&["--seeds", "7", "--from", "9"]).unwrap();
        let expected = Asked {
            from: Some(9),
            seeds: 7,
            minutes: 10,
            is_tagged: false,
        };
        assert_eq!(asked, expected);
        let asked = Asked::read(&["--tagged", "--seeds", "7", "--from", "9"]).unwrap();
        assert_eq!(
            asked,
            Asked {
                is_tagged: true,
                ..expected
            }
        );
        for wrong in [&["--seeds"][..], &["--seeds", "many"], &["--fast", "1"]] {
            Asked::read(wrong).unwrap_err();
        }
    }
}
