//! What was told of which peer: what is new is told, what is so for all communicators to a peer once.

use crate::error::Code;
use crate::log::{self, Log, Subsys};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

/// Peers of which something was told that are remembered: what is about another one is not new.
const PEERS_MAX: usize = 64;

/// What was told of whom, and how often it came again.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<(Code, Box<str>), u32>>);

impl Told {
    /// Whether nothing of this kind was told of this peer; from now on it was.
    pub(super) fn is_new(&self, code: Code, peer: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= PEERS_MAX {
            return false;
        }
        let entry = told.entry((code, peer.into()));
        let is_new = matches!(entry, Entry::Vacant(_));
        entry.or_insert(0);
        is_new
    }

    /// Whether this says nothing new: two hosts that are set up differently are so for all their
    /// communicators. Counted.
    pub(super) fn is_known(&self, code: Code, peer: &str) -> bool {
        if code != Code::Mismatch {
            return false;
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let again = told.get_mut(&(code, peer.into()));
        again
            .map(|again| *again = again.saturating_add(1))
            .is_some()
    }

    /// The end of the domain called `label`: what was counted.
    pub(super) fn close(&self, log: &dyn Log, label: &str) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((code, peer), again) in told.iter().filter(|&(_, &again)| again > 0) {
            log::info(log, Subsys::Net, || {
                format!("{label}: peer {peer}: {code} of {again} more communicators")
            });
        }
    }
}
