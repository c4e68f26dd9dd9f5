//! What a process that loaded and started the plugin said.

use super::libfabric;
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::finding::Finding;
use crate::doctor::probe::{Outcome, Stage};

/// Lines of a log that are shown.
const LINES: usize = 3;

pub(super) fn check(host: &Host, outcome: &Outcome) -> Vec<Finding> {
    let copies = match outcome {
        Outcome::Started { libfabrics, .. } | Outcome::Refused { libfabrics, .. } => libfabrics,
        Outcome::Died { .. } | Outcome::Silent { .. } => &Vec::new(),
    };
    let ended = ended(host, outcome);
    ended
        .into_iter()
        .chain(libfabric::two_copies(copies))
        .collect()
}

fn ended(host: &Host, outcome: &Outcome) -> Option<Finding> {
    let path = host
        .libraries
        .loaded()
        .map(|library| library.path.display().to_string());
    let path = path.unwrap_or_default();
    match outcome {
        Outcome::Started { .. } => None,
        Outcome::Refused {
            stage, why, log, ..
        } => {
            let code = match stage {
                Stage::Load => Code::LoadFailed,
                Stage::Init => Code::InitFailed,
            };
            let first = format!("{path}: {why}");
            Some(Finding::new(
                code,
                [first].into_iter().chain(log.iter().take(LINES).cloned()),
            ))
        }
        Outcome::Died { how, log } => {
            let first = format!("{path}: {how}");
            let last = log.iter().rev().take(LINES).rev().cloned();
            Some(Finding::new(
                Code::ProbeDied,
                [first].into_iter().chain(last),
            ))
        }
        Outcome::Silent { seconds, log } => {
            let first = format!("{path}: no answer in {seconds} s");
            let last = log.iter().rev().take(LINES).rev().cloned();
            Some(Finding::new(
                Code::ProbeSilent,
                [first].into_iter().chain(last),
            ))
        }
    }
}
