//! Address vectors: tables, as EFA has them; the same address twice is the same entry.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::address::{Address, SIGNIFICANT};
use super::domain::Domain;
use super::peer::Peer;
use crate::mem::known;

/// An address vector.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) domain: Arc<Domain>,
    /// Names it in the segment.
    pub(crate) number: u32,
    /// Endpoints that are bound to it.
    pub(crate) users: AtomicUsize,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Option<Target>>,
    by_address: HashMap<Address, u64>,
    free: Vec<u64>,
}

/// Whom an operation is for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// `None`: there was no such process.
    pub(crate) peer: Option<Arc<Peer>>,
}

impl Vector {
    pub(crate) fn new(domain: Arc<Domain>) -> Self {
        domain.users.fetch_add(1, Ordering::Relaxed);
        let stats = domain.nic.stats(domain.process);
        stats.avs.fetch_add(1, Ordering::Relaxed);
        Self {
            number: domain.process.number(),
            users: AtomicUsize::new(0),
            table: RwLock::default(),
            domain,
        }
    }

    /// The number of an address, new or not. `None` if there is no more room.
    pub(crate) fn insert(&self, address: Address) -> Option<u64> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = table.by_address.get(&address) {
            return Some(*number);
        }
        let process = self.domain.process;
        let bytes = address.to_bytes();
        if !known::add(process.segment(), self.number, &bytes[..SIGNIFICANT]) {
            return None;
        }
        let target = Target {
            address,
            peer: process.peer(address.segment),
        };
        let number = match table.free.pop() {
            Some(number) => number,
            None => {
                table.entries.push(None);
                table.entries.len() as u64 - 1
            }
        };
        if let Some(entry) = usize::try_from(number)
            .ok()
            .and_then(|i| table.entries.get_mut(i))
        {
            *entry = Some(target);
        }
        table.by_address.insert(address, number);
        Some(number)
    }

    /// Removes an entry. `false` if there is none.
    pub(crate) fn remove(&self, number: u64) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(number).ok();
        let taken = index
            .and_then(|i| table.entries.get_mut(i))
            .and_then(Option::take);
        let Some(target) = taken else {
            return false;
        };
        table.by_address.remove(&target.address);
        table.free.push(number);
        let bytes = target.address.to_bytes();
        known::remove(
            self.domain.process.segment(),
            self.number,
            &bytes[..SIGNIFICANT],
        );
        true
    }

    pub(crate) fn target(&self, number: u64) -> Option<Target> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.entries.get(usize::try_from(number).ok()?)?.clone()
    }

    /// The number of an address that was inserted.
    pub(crate) fn number_of(&self, address: &Address) -> Option<u64> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_address.get(address).copied()
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        let process = self.domain.process;
        for address in table.by_address.keys() {
            let bytes = address.to_bytes();
            known::remove(process.segment(), self.number, &bytes[..SIGNIFICANT]);
        }
        let stats = self.domain.nic.stats(process);
        stats.avs.fetch_sub(1, Ordering::Relaxed);
        self.domain.users.fetch_sub(1, Ordering::Relaxed);
    }
}
