//! The first thing to try: from a clone to verified bytes between processes.

use anyhow::Result;

use crate::artifacts::{self, Profile};
use crate::settings::DEMO;
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// Installs what is missing, builds, and runs the loads of [`DEMO`] over loopback TCP.
pub(crate) fn run(here: &Workspace) -> Result<()> {
    let report = setup::prepare(here, Extent::System);
    let libfabric = report.any()?;
    println!(
        "libfabric {} ({})",
        libfabric.version,
        libfabric.path.display()
    );
    let built = artifacts::build(here, Profile::Release)?;
    for load in DEMO {
        let program = load.program(libfabric, &built, 1);
        println!("\n{}\n$ {}", load.title(), program.line());
        program.run()?;
    }
    Ok(())
}
