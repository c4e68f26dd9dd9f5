//! The memory of one host: a map of bytes at virtual addresses, and the regions registered in it.
//!
//! Every region has another key on each rail, and no number or key is ever used twice, so an access
//! with the key of another rail, or of a region that is gone, is seen and not merely unlucky.

use ofi_rdma::RegionId;
use ofi_rdma::limits::MAX_RAILS;

/// A registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First address.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) len: u64,
}

impl Region {
    fn holds(self, addr: u64, len: u64) -> bool {
        addr.checked_sub(self.start)
            .and_then(|offset| offset.checked_add(len))
            .is_some_and(|end| end <= self.len)
    }
}

/// How the provider of a simulation addresses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressing {
    /// Remote addresses are virtual addresses; otherwise offsets into the region (decision 15).
    pub(crate) virt: bool,
    /// Exclusive-ored into keys: 0 gives key 0 to somebody; a large one needs 64-bit keys.
    pub(crate) key_salt: u64,
}

/// The memory of one host.
#[derive(Debug)]
pub(crate) struct Memory {
    base: u64,
    /// Zeroed at once, which costs nothing until it is touched; the first `used` are allocated.
    bytes: Vec<u8>,
    used: usize,
    regions: Vec<Option<Region>>,
    addressing: Addressing,
}

const RAILS: u64 = MAX_RAILS as u64;

impl Memory {
    /// No memory yet, the first address being `base`; room for about `expected` bytes.
    pub(crate) fn new(base: u64, expected: u64, addressing: Addressing) -> Self {
        Self {
            base,
            bytes: vec![0; index(expected)],
            used: 0,
            regions: Vec::new(),
            addressing,
        }
    }

    /// `len` fresh bytes at a multiple of 64.
    pub(crate) fn allocate(&mut self, len: u64) -> u64 {
        let offset = self.used.next_multiple_of(64);
        self.used = offset + index(len);
        if self.used > self.bytes.len() {
            self.bytes.resize(2 * self.used, 0);
        }
        self.base + offset as u64
    }

    /// Registers a range of allocated memory.
    pub(crate) fn register(&mut self, start: u64, len: u64) -> RegionId {
        let id = u32::try_from(self.regions.len()).unwrap_or(u32::MAX);
        self.regions.push(Some(Region { start, len }));
        RegionId(id)
    }

    /// Takes a region away. Its number and keys never come back.
    pub(crate) fn deregister(&mut self, id: RegionId) {
        if let Some(slot) = self.regions.get_mut(index(u64::from(id.0))) {
            *slot = None;
        }
    }

    /// A region, if it is (still) there.
    pub(crate) fn region(&self, id: RegionId) -> Option<Region> {
        self.regions.get(index(u64::from(id.0))).copied().flatten()
    }

    /// Remote keys of a region, one a rail.
    pub(crate) fn keys(&self, id: RegionId) -> [u64; MAX_RAILS] {
        let first = u64::from(id.0) * RAILS;
        core::array::from_fn(|rail| (first + rail as u64) ^ self.addressing.key_salt)
    }

    /// What a peer calls the local address `addr` of region `id`.
    pub(crate) fn wire_addr(&self, id: RegionId, addr: u64) -> u64 {
        match self.region(id) {
            Some(region) if !self.addressing.virt => addr.wrapping_sub(region.start),
            _ => addr,
        }
    }

    /// The region that `key` names on `rail`, there or gone.
    pub(crate) fn region_of_key(&self, rail: u8, key: u64) -> Option<RegionId> {
        let number = key ^ self.addressing.key_salt;
        if number % RAILS != u64::from(rail) {
            return None;
        }
        u32::try_from(number / RAILS).ok().map(RegionId)
    }

    /// The local address that a remote access of `len` bytes with `key` on `rail` reaches.
    pub(crate) fn remote_access(&self, rail: u8, key: u64, addr: u64, len: u64) -> Option<u64> {
        let region = self.region(self.region_of_key(rail, key)?)?;
        let local = if self.addressing.virt {
            addr
        } else {
            region.start.checked_add(addr)?
        };
        region.holds(local, len).then_some(local)
    }

    /// Whether `len` bytes at `addr` lie in region `id`.
    pub(crate) fn local_access(&self, id: RegionId, addr: u64, len: u64) -> bool {
        self.region(id)
            .is_some_and(|region| region.holds(addr, len))
    }

    /// Bytes of allocated memory.
    pub(crate) fn at(&self, addr: u64, len: u64) -> &[u8] {
        let start = index(addr.wrapping_sub(self.base));
        &self.bytes[..self.used][start..start + index(len)]
    }

    /// Bytes of allocated memory, to change.
    pub(crate) fn at_mut(&mut self, addr: u64, len: u64) -> &mut [u8] {
        let start = index(addr.wrapping_sub(self.base));
        &mut self.bytes[..self.used][start..start + index(len)]
    }

    /// Copies within this host.
    pub(crate) fn copy_within(&mut self, from: u64, to: u64, len: u64) {
        let source = index(from.wrapping_sub(self.base));
        let target = index(to.wrapping_sub(self.base));
        self.bytes.copy_within(source..source + index(len), target);
    }
}

/// A number of bytes as an index. Simulated memory is far smaller than the address space of any
/// machine that runs this.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(virt: bool) -> Memory {
        Memory::new(
            0x7000_0000,
            100,
            Addressing {
                virt,
                key_salt: 0x40,
            },
        )
    }

    #[test]
    fn a_key_opens_its_own_rail_and_range_only() {
        for virt in [true, false] {
            let mut memory = memory(virt);
            let start = memory.allocate(1000);
            let id = memory.register(start + 10, 100);
            let keys = memory.keys(id);
            let at = |addr| memory.wire_addr(id, addr);
            assert_eq!(
                memory.remote_access(2, keys[2], at(start + 10), 100),
                Some(start + 10)
            );
            assert_eq!(memory.remote_access(1, keys[2], at(start + 10), 1), None);
            assert_eq!(memory.remote_access(2, keys[2], at(start + 10), 101), None);
            assert_eq!(memory.remote_access(2, keys[2], u64::MAX, 2), None);
            if virt {
                assert_eq!(memory.remote_access(2, keys[2], start + 9, 1), None);
            }
        }
    }

    #[test]
    fn a_region_that_is_gone_stays_gone() {
        let mut memory = memory(true);
        let start = memory.allocate(64);
        let old = memory.register(start, 64);
        memory.deregister(old);
        let new = memory.register(start, 64);
        assert_ne!(old, new);
        assert!(!memory.local_access(old, start, 1));
        assert_eq!(memory.remote_access(0, memory.keys(old)[0], start, 1), None);
        assert!(memory.local_access(new, start, 64));
    }
}
