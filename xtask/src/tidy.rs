//! Rules about files that neither rustc nor clippy checks.
//!
//! * [`files`] finds the files, [`lexer`] tells code from comments and strings
//! * [`rules`] holds what can be said of one file alone
//! * [`safety`] holds unsafe code against the table of docs/safety.md
//! * [`field`] holds the tests that exist against those that docs/field-reports.md names
//! * [`quotes`] holds what it quotes against what is still said
//! * [`crates`] holds the crates against ARCHITECTURE.md and their READMEs

mod crates;
mod field;
mod files;
mod lexer;
mod quotes;
mod rules;
mod safety;

use anyhow::{Result, bail};

pub(crate) use self::files::{TextFile, read_all};
use crate::traps;
use crate::workspace::Workspace;

/// The command: all rules on all files; fails with every fault named.
pub(crate) fn run(here: &Workspace) -> Result<()> {
    let files = read_all(&here.root)?;
    let mut faults: Vec<String> = files.iter().flat_map(rules::check).collect();
    faults.extend(rules::check_allowed_lengths(&files));
    faults.extend(safety::check(&files));
    faults.extend(crates::check(&files, &here.crates()?));
    faults.extend(field::check(&files));
    faults.extend(quotes::check(&files));
    faults.extend(traps::check(&files, &field::points(&files)));
    match field::missing(&files, &here.root) {
        Some(missing) => faults.extend(missing),
        None => println!(
            "skipped: ids of docs/field-reports.md (the catalogue is not beside this checkout)"
        ),
    }
    if faults.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    bail!("{} faults:\n  {}", faults.len(), faults.join("\n  "))
}

/// Prints the files that have unsafe code, as the table of docs/safety.md needs them.
pub(crate) fn list_unsafe(here: &Workspace) -> Result<()> {
    for file in read_all(&here.root)?
        .iter()
        .filter(|file| safety::has_unsafe(file))
    {
        println!("| `{}` | |", file.path);
    }
    Ok(())
}
