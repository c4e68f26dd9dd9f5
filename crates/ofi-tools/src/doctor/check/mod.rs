//! The checks: pure functions from a host to findings.
//!
//! Order does not matter: the table of codes says what follows from what.

mod efa;
mod environment;
mod instance;
mod libfabric;
mod lint;
mod memory;
mod names;
mod needs;
mod plugin;
mod probe;
pub(crate) mod topology;
mod versions;

use super::facts::Host;
use super::finding::Finding;
use super::probe::Outcome;
use super::providers::Providers;

/// All findings of a host; `probed` is what a child that loaded the plugin said, where there was one, and
/// `providers` what libfabric said.
pub(crate) fn all(
    host: &Host,
    probed: Option<&Outcome>,
    providers: Option<&Providers>,
) -> Vec<Finding> {
    let checks = [
        plugin::check,
        libfabric::check,
        efa::check,
        memory::check,
        topology::check,
        environment::check,
        lint::check,
        versions::check,
    ];
    let mut found: Vec<Finding> = checks.iter().flat_map(|check| check(host)).collect();
    found.extend(names::check(host));
    if let Some(outcome) = probed {
        found.extend(probe::check(host, outcome, (providers, &found)));
    }
    found
}
