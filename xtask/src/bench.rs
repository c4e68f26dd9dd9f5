//! `cargo xtask bench`: everything that is measured, and the pages and charts made of it.
//!
//! Parts, in their order: `micro` (the benches of the crates, each beside its public baselines), `raw` (end to
//! end beside libfabric's own operations), `rails` (four against one), `hot` (instructions), `pages` (what is written of it). One part alone
//! takes what the others left.
//!
//! * [`micro`], [`raw`], [`rails`]: running; [`results`]: reading what came of it
//! * [`targets`]: what should be, and whether it is; [`page`], [`chart`]: docs/benchmarks.md and its pictures

mod chart;
mod micro;
mod page;
mod rails;
mod raw;
mod results;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::hot;
use crate::workspace::Workspace;
use results::Results;

/// What is measured.
const PARTS: [&str; 5] = ["micro", "raw", "rails", "hot", "pages"];

/// How it is measured.
#[derive(Debug)]
struct Bench<'a> {
    here: &'a Workspace,
    /// Where results go.
    out: PathBuf,
    is_quick: bool,
}

/// The command.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let (is_quick, parts) = parse(options)?;
    let bench = Bench {
        here,
        out: here.target.join("bench-results"),
        is_quick,
    };
    fs::create_dir_all(&bench.out).with_context(|| bench.out.display().to_string())?;
    for part in parts {
        println!("bench: {part}");
        match part {
            "micro" => micro::run(&bench)?,
            "raw" => raw::run(&bench)?,
            "rails" => rails::run(&bench)?,
            "hot" => hot::run(here, &["--update"])?,
            _ => page::write(here, &Results::read(&bench.out)?, is_quick)?,
        }
    }
    Ok(())
}

/// Whether it is to be quick, and the parts asked for: all, if none is.
fn parse<'a>(options: &[&'a str]) -> Result<(bool, Vec<&'a str>)> {
    let is_quick = options.contains(&"--quick");
    let named: Vec<&str> = options
        .iter()
        .copied()
        .filter(|o| *o != "--quick")
        .collect();
    if let Some(unknown) = named.iter().find(|part| !PARTS.contains(part)) {
        bail!(
            "bench has no part {unknown}; there are {}",
            PARTS.join(", ")
        );
    }
    let all = || PARTS.to_vec();
    Ok((is_quick, if named.is_empty() { all() } else { named }))
}

/// Removes a file of an earlier run: what fails now must not stand as measured.
fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{PARTS, parse};

    #[test]
    fn all_parts_unless_some_are_named() {
        assert_eq!(parse(&["--quick"]).unwrap(), (true, PARTS.to_vec()));
        assert_eq!(
            parse(&["raw", "pages"]).unwrap(),
            (false, vec!["raw", "pages"])
        );
        parse(&["fast"]).unwrap_err();
    }
}
