//! The communicators of an engine, at the index of their wire id: what a completion names is found by
//! one comparison and one multiplication.
//!
//! Dense, because ids are taken lowest first; ids that rest leave a slot empty meanwhile. A key carries a
//! generation as those of [`ofi_pools::Table`] do: odd while the slot is occupied, one more at each
//! change. Communicators move when the table grows: nothing outside may keep a place in it.

use alloc::vec::Vec;
use ofi_pools::Key;

use crate::comm::Comm;
use crate::dialect::Dialect;

/// Begins with a cache line: that of what messages touch.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Entry<D: Dialect> {
    /// Odd while there is one.
    generation: u32,
    comm: Option<Comm<D>>,
}

const _: () = assert!(
    size_of::<Entry<crate::dialect::Base>>() == 256,
    "found by a shift"
);

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Comms<D: Dialect> {
    entries: Vec<Entry<D>>,
    len: u32,
}

impl<D: Dialect> Default for Comms<D> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }
}

impl<D: Dialect> Comms<D> {
    /// Puts a communicator at its id; `None` when there is one. Amortized O(1).
    pub(crate) fn insert(&mut self, comm: Comm<D>) -> Option<Key> {
        let id = comm.local_id;
        let at = id as usize;
        if at >= self.entries.len() {
            let vacant = || Entry {
                comm: None,
                generation: 0,
            };
            self.entries.resize_with(at + 1, vacant);
        }
        let entry = self.entries.get_mut(at).filter(|e| e.comm.is_none())?;
        entry.comm = Some(comm);
        entry.generation = entry.generation.wrapping_add(1);
        self.len += 1;
        Some(Key::new(id, entry.generation))
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Comm<D>> {
        let entry = self.entries.get(key.index() as usize)?;
        if entry.generation != key.generation() {
            return None;
        }
        entry.comm.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Comm<D>> {
        let entry = self.entries.get_mut(key.index() as usize)?;
        if entry.generation != key.generation() {
            return None;
        }
        entry.comm.as_mut()
    }

    /// The communicator of a wire id, whatever id a peer named.
    #[inline]
    pub(crate) fn at_mut(&mut self, id: u32) -> Option<(Key, &mut Comm<D>)> {
        let entry = self.entries.get_mut(id as usize)?;
        let key = Key::new(id, entry.generation);
        entry.comm.as_mut().map(|comm| (key, comm))
    }

    /// Takes a communicator out.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Comm<D>> {
        let entry = self.entries.get_mut(key.index() as usize)?;
        if entry.generation != key.generation() {
            return None;
        }
        let comm = entry.comm.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.len -= 1;
        Some(comm)
    }

    /// The key of the communicator of a wire id.
    pub(crate) fn key_at(&self, id: u32) -> Option<Key> {
        let entry = self.entries.get(id as usize)?;
        entry.comm.as_ref()?;
        Some(Key::new(id, entry.generation))
    }

    /// One more than the highest id that was ever used.
    pub(crate) fn capacity(&self) -> u32 {
        // Ids have 18 bits.
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Comm<D>> {
        self.entries.iter().filter_map(|entry| entry.comm.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::CommKind;
    use crate::dialect::Base;
    use crate::state::CommState;
    use proptest::prelude::*;

    fn comm(id: u32) -> Comm<Base> {
        Comm::new(CommKind::Send, CommState::Connecting, id, 0)
    }

    proptest! {
        /// Keys find their communicator while it is there, and nothing after.
        #[test]
        fn keys_expire(ops in proptest::collection::vec((any::<bool>(), 0..40_u32), 0..200)) {
            let mut comms = Comms::default();
            let mut live: [Option<Key>; 40] = [None; 40];
            let mut stale = Vec::new();
            for (inserts, id) in ops {
                let slot = &mut live[id as usize];
                if inserts {
                    let key = comms.insert(comm(id));
                    prop_assert_eq!(key.is_some(), slot.is_none(), "one for each id");
                    *slot = slot.or(key);
                } else if let Some(key) = slot.take() {
                    prop_assert_eq!(comms.remove(key).map(|c| c.local_id), Some(id));
                    stale.push(key);
                }
                prop_assert_eq!(comms.len() as usize, live.iter().flatten().count());
                for (id, key) in (0..).zip(live) {
                    prop_assert_eq!(comms.key_at(id), key);
                    prop_assert_eq!(comms.at_mut(id).map(|(key, c)| (key, c.local_id)), key.map(|k| (k, id)));
                    let found = key.and_then(|key| comms.get(key)).map(|c| c.local_id);
                    prop_assert_eq!(found, key.map(Key::index));
                }
                for key in &stale {
                    prop_assert!(comms.get(*key).is_none() && comms.get_mut(*key).is_none());
                    prop_assert!(comms.remove(*key).is_none());
                }
            }
        }
    }

    #[test]
    fn an_id_that_nobody_has_finds_nobody() {
        let mut comms = Comms::<Base>::default();
        assert!(comms.insert(comm(3)).is_some());
        assert_eq!(comms.capacity(), 4);
        for id in [0, 2, 4, 0x3_FFFF, u32::MAX] {
            assert!(comms.at_mut(id).is_none() && comms.key_at(id).is_none());
        }
        assert!(
            comms.get(Key::new(2, 0)).is_none(),
            "a key that was never handed out"
        );
    }
}
