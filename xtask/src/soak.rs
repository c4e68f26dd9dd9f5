//! `cargo xtask soak`: hours of life on real providers, with a verdict about what grew.

use core::time::Duration;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::artifacts::{self, Profile};
use crate::process::{Ended, Program};
use crate::programs::{self, Carrier};
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    minutes: u64,
    /// Seconds between two kills of the peer.
    kill_every: u64,
    /// On every libfabric, not only on the newest.
    all: bool,
}

impl Asked {
    fn read(mut options: &[&str]) -> Result<Self> {
        let mut asked = Self {
            minutes: 60,
            kill_every: 60,
            all: false,
        };
        loop {
            options = match options {
                [] => return Ok(asked),
                ["--all", rest @ ..] => {
                    asked.all = true;
                    rest
                }
                [name, value, rest @ ..] => {
                    let number = value.parse().with_context(|| format!("{name} {value}"))?;
                    match *name {
                        "--minutes" => asked.minutes = number,
                        "--kill-every" => asked.kill_every = number,
                        _ => bail!("soak has no option {name}; see cargo xtask help"),
                    }
                    rest
                }
                [name] => bail!("soak has no option {name}, or it needs a number"),
            };
        }
    }
}

/// Runs on all carriers at once; fails if one of them fails or grows.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let report = setup::prepare(here, Extent::System);
    report.any()?;
    let built = artifacts::build(here, Profile::Release)?;
    let program = programs::compile(here, "soak", &[])?;
    let from = if asked.all { 0 } else { report.found.len() - 1 };
    let carriers = Carrier::all(&report.found[from..]);
    let logs = here.target.join("soak");
    fs::create_dir_all(&logs)?;
    let tracks = carriers.iter().map(|carrier| Track {
        name: carrier.name(),
        log: logs.join(carrier.name()),
        program: carrier
            .program(&built, &program, 4)
            .args([asked.minutes * 60, asked.kill_every].map(|number| number.to_string()))
            .env("OFI_NCCL_CONNECT_TIMEOUT", "20")
            .env("OFI_NCCL_STALL_FAIL", "8")
            .limit(Duration::from_secs(60 * (asked.minutes + 5))),
    });
    judge(side_by_side(tracks.collect())?)
}

/// A program that runs beside others.
#[derive(Debug)]
struct Track {
    name: String,
    log: PathBuf,
    program: Program,
}

/// How each ended, and what it said.
fn side_by_side(tracks: Vec<Track>) -> Result<Vec<(String, Ended, String)>> {
    std::thread::scope(|scope| {
        let start = |track: Track| {
            println!("{}: {}", track.name, track.program.line());
            scope.spawn(move || -> Result<_> {
                let ended = track.program.run_into(&File::create(&track.log)?)?;
                Ok((track.name, ended, fs::read_to_string(&track.log)?))
            })
        };
        let running: Vec<_> = tracks.into_iter().map(start).collect();
        let ends = running.into_iter().map(|track| {
            let ended = track.join();
            ended.map_err(|_| anyhow::anyhow!("a thread that waited for a program ended"))?
        });
        ends.collect()
    })
}

fn judge(ends: Vec<(String, Ended, String)>) -> Result<()> {
    let mut bad = Vec::new();
    for (name, ended, said) in ends {
        println!("--- {name}: {ended:?}\n{}", said.trim_end());
        if ended != Ended::Well {
            bad.push(name);
        }
    }
    if !bad.is_empty() {
        bail!("not well: {}", bad.join(", "));
    }
    println!("soak: nothing failed, nothing grows");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Asked, Track, judge, side_by_side};
    use crate::process::{Ended, Program};

    #[test]
    fn options_are_numbers_with_names() {
        let asked = Asked::read(&["--all", "--minutes", "3"]).unwrap();
        assert_eq!((asked.minutes, asked.kill_every, asked.all), (3, 60, true));
        for wrong in [&["--minutes"][..], &["--minutes", "x"], &["--fast", "1"]] {
            Asked::read(wrong).unwrap_err();
        }
    }

    #[test]
    fn one_that_fails_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let track = |name: &str, script: &str| Track {
            name: name.to_owned(),
            log: dir.path().join(name),
            program: Program::new("sh").args(["-c", script]),
        };
        let tracks = vec![track("good", "echo ok"), track("grows", "echo bad; exit 1")];
        let ends = side_by_side(tracks).unwrap();
        assert_eq!(ends[0], ("good".to_owned(), Ended::Well, "ok\n".to_owned()));
        assert_eq!(ends[1].2, "bad\n");
        let error = judge(ends).unwrap_err().to_string();
        assert_eq!(error, "not well: grows");
        judge(Vec::new()).unwrap();
    }
}
