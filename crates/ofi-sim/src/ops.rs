//! Operations under way: from post until the last of their events.

use ofi_rdma::{Cause, Lane, PeerAddr, RegionId, Token, Wire};

use crate::ledger::Owner;
use crate::memory::index;

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It takes effect and completes.
    Good,
    /// It completes with an error, having taken effect or not.
    Bad { cause: Cause, lands: bool },
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) src: u8,
    pub(crate) dst: u8,
    pub(crate) lane: Lane,
    pub(crate) wire: Wire,
    /// `None`: nobody waits for a completion (injected, repeated or made up).
    pub(crate) token: Option<Token>,
    pub(crate) owner: Option<Owner>,
    pub(crate) fate: Fate,
    /// Events to come that name it.
    pub(crate) refs: u8,
    /// It took effect (or was dropped) at its target.
    pub(crate) landed: bool,
    /// It completed at its source, so its source buffer may have changed since.
    pub(crate) completed: bool,
    /// A repetition that the network made up.
    pub(crate) repeated: bool,
    /// A control message, or a copy of the payload of an operation that completed early.
    pub(crate) bytes: Vec<u8>,
}

impl Op {
    fn blank() -> Self {
        let wire = Wire::FlushRead {
            addr: 0,
            region: RegionId(0),
        };
        Self {
            src: 0,
            dst: 0,
            lane: Lane::data(0),
            wire,
            token: None,
            owner: None,
            fate: Fate::Good,
            refs: 0,
            landed: false,
            completed: false,
            repeated: false,
            bytes: Vec::new(),
        }
    }
}

/// All operations under way. Slots and their byte buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// A slot with one reference, everything reset but its source, target and lane.
    pub(crate) fn add(&mut self, src: u8, dst: u8, lane: Lane, wire: Wire) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Op::blank());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let op = self.get_mut(number);
        let bytes = core::mem::take(&mut op.bytes);
        *op = Op {
            src,
            dst,
            lane,
            wire,
            refs: 1,
            bytes,
            ..Op::blank()
        };
        op.bytes.clear();
        number
    }

    pub(crate) fn get(&self, number: u32) -> &Op {
        &self.slots[index(u64::from(number))]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Op {
        &mut self.slots[index(u64::from(number))]
    }

    /// One event less to come.
    pub(crate) fn release(&mut self, number: u32) {
        let op = self.get_mut(number);
        op.refs -= 1;
        if op.refs == 0 {
            self.free.push(number);
        }
    }

    /// Operations under way.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// The name of an endpoint of this network: `"sim"`, host, lane; in 32 bytes, as on EFA.
pub(crate) const NAME_BYTES: usize = 32;

/// The name of one endpoint.
pub(crate) fn endpoint_name(host: u8, lane: Lane) -> [u8; NAME_BYTES] {
    let mut name = [0x77; NAME_BYTES];
    name[..3].copy_from_slice(b"sim");
    name[3] = host;
    name[4] = u8::try_from(lane.index()).unwrap_or(u8::MAX);
    name
}

/// Distinguishes an address from a number that was merely left at 0.
const ADDRESS: u64 = 0x00AD_D2E5_5000_0000;

/// The address of `host` in the address vector of `lane`.
pub(crate) fn address(host: u8, lane: Lane) -> PeerAddr {
    PeerAddr(ADDRESS | u64::from(host) << 8 | lane.index() as u64)
}

/// The host behind an address, if it was made for `lane`.
pub(crate) fn host_of(peer: PeerAddr, lane: Lane) -> Option<u8> {
    let host = u8::try_from((peer.0 >> 8) & 0xFF).ok()?;
    (address(host, lane) == peer).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_good_on_its_own_lane_only() {
        let peer = address(3, Lane::data(2));
        assert_eq!(host_of(peer, Lane::data(2)), Some(3));
        assert_eq!(host_of(peer, Lane::control(2)), None);
        assert_eq!(host_of(PeerAddr(0), Lane::data(0)), None);
    }

    #[test]
    fn slots_and_their_buffers_are_reused() {
        let mut ops = Ops::default();
        let wire = Wire::FlushRead {
            addr: 1,
            region: RegionId(2),
        };
        let first = ops.add(0, 1, Lane::data(0), wire);
        ops.get_mut(first).bytes.resize(100, 1);
        ops.get_mut(first).refs += 1;
        ops.release(first);
        assert_eq!(ops.live(), 1);
        ops.release(first);
        assert_eq!(ops.live(), 0);
        assert_eq!(ops.add(0, 1, Lane::data(0), wire), first);
        assert!(ops.get(first).bytes.is_empty() && ops.get(first).bytes.capacity() >= 100);
    }
}
