//! Regions that are used with a domain that they are not of.
//!
//! A registration serves every communicator of its device (regIsGlobal, protocol 2a.4). Where a device has
//! several domains because of traffic classes, a region gets a twin: the same memory, registered with the
//! other domain when it is first used there, closed with the region.

use crate::domain_memory::{self, MemoryCore, MemoryDomain, gone};
use crate::error::{Code, NetError};
use crate::handle_words::MrWord;
use crate::registry::Seat;
use crate::stretch::Stretch;
use core::ptr::with_exposed_provenance;
use ofi_pools::Key;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The twins of all regions of a transport.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// By region and number of the domain.
    keys: Mutex<HashMap<(MrWord, usize), Key>>,
}

impl Twins {
    /// The key of the twin with the domain of `seat`: there, or registered now. `home` is where the
    /// region is, and its key there.
    ///
    /// # Errors
    /// A region that is gone; memory that lies in a dma-buf, whose descriptor was the caller's; the
    /// provider's refusal.
    pub(crate) fn key<D: MemoryDomain>(
        &self,
        mr: MrWord,
        (home, region): (&D, Key),
        seat: &Seat<D>,
    ) -> Result<Key, NetError> {
        let name = (mr, seat.number());
        if let Some(&key) = self.keys().get(&name) {
            return Ok(key);
        }
        let stretch = stretch_of(mr, home, region)?;
        // SAFETY: whoever registered the region promised that it stays mapped until its end, and the
        // twin is closed before that is told.
        let made = unsafe { domain_memory::register(&seat.domain, stretch) }?;
        let Some(kept) = self.keep(name, made) else {
            return Ok(made);
        };
        // Another thread was faster. With the cache both have the same key and a reference each.
        domain_memory::deregister(&seat.domain, (made, mr), || ())?;
        Ok(kept)
    }

    /// Keeps a twin, unless there is one already, which is returned.
    fn keep(&self, name: (MrWord, usize), made: Key) -> Option<Key> {
        match self.keys().entry(name) {
            Entry::Occupied(kept) => Some(*kept.get()),
            Entry::Vacant(place) => {
                place.insert(made);
                None
            }
        }
    }

    /// A region is closed: its twins, with the numbers of their domains.
    pub(crate) fn take(&self, mr: MrWord) -> Vec<(usize, Key)> {
        let mut taken = Vec::new();
        self.keys().retain(|&(word, number), &mut key| {
            let is_its = word == mr;
            if is_its {
                taken.push((number, key));
            }
            !is_its
        });
        taken
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<(MrWord, usize), Key>> {
        // Every change is one call of the map.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a region registered.
fn stretch_of<D: MemoryDomain>(mr: MrWord, home: &D, region: Key) -> Result<Stretch, NetError> {
    home.with_core(|core| {
        let (_, view) = core.regions().get(region).ok_or_else(|| gone(mr))?;
        let start = usize::try_from(view.base).ok();
        match (start, usize::try_from(view.bytes)) {
            (Some(start), Ok(bytes)) if !view.in_dmabuf => Ok(Stretch {
                start: with_exposed_provenance(start),
                bytes,
                kind: view.kind,
                dmabuf: None,
            }),
            _ => {
                let what = "a region in a dma-buf is used with a communicator of another traffic class: \
                            register it with that communicator";
                Err(NetError::new(Code::StaleRegion, what))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads register at once: the second has a reference too much, whether the cache gave it the
    /// same key or not.
    #[test]
    fn whoever_comes_second_gives_back_what_it_made() {
        let twins = Twins::default();
        let (mr, first, other) = (MrWord::from_bits(7), Key::new(1, 1), Key::new(2, 1));
        assert_eq!(twins.keep((mr, 3), first), None);
        assert_eq!(twins.keep((mr, 3), first), Some(first));
        assert_eq!(twins.keep((mr, 3), other), Some(first));
        assert_eq!(twins.keep((mr, 4), other), None, "another domain");
        assert_eq!(
            twins.keep((MrWord::from_bits(8), 3), other),
            None,
            "another region"
        );
        let mut taken = twins.take(mr);
        taken.sort_unstable_by_key(|(number, _)| *number);
        assert_eq!(taken, [(3, first), (4, other)]);
        assert_eq!(twins.take(mr), []);
    }
}
