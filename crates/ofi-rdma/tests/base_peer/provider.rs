//! The provider of the engine's host: takes operations, or is busy.

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, Lane, Outcome, PeerAddr, Post, RailPort, Token, Wire};

use crate::bytes::{NAME_LEN, Rng};
use crate::plan::{Way, byte, name};

/// Where our buffer of send 0 lies.
pub(crate) const SOURCE: u64 = 0x1000_0000_0000;

/// An operation of the engine that the provider has.
#[derive(Debug)]
pub(crate) struct Flying {
    pub(crate) token: Token,
    pub(crate) lane: Lane,
    pub(crate) wire: Wire,
    /// The message, or the payload as it was when posted.
    pub(crate) bytes: Vec<u8>,
    pub(crate) landed: bool,
    pub(crate) completed: bool,
}

/// The provider of our host.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) rng: Rng,
    pub(crate) flying: Vec<Flying>,
    pub(crate) busy: usize,
}

impl RailPort for Provider {
    fn post(&mut self, post: &Post) -> Outcome {
        if self.rng.percent(self.busy) {
            return Outcome::Busy;
        }
        let wire = *post.wire();
        let bytes = match wire {
            Wire::Control { len, .. } => {
                let mut bytes = vec![0xCC; len.into()];
                assert_eq!(post.encode(&mut bytes), usize::from(len));
                bytes
            }
            Wire::Eager { addr, len, .. } => payload(addr, len as usize),
            Wire::Write { addr, len, .. } => payload(addr, usize::try_from(len).unwrap_or(0)),
            _ => Vec::new(),
        };
        // Small control messages may go by inject: complete at once.
        let inject =
            bytes.len() <= 48 && matches!(wire, Wire::Control { .. }) && self.rng.percent(20);
        self.flying.push(Flying {
            token: post.token(),
            lane: post.lane(),
            wire,
            bytes,
            landed: false,
            completed: inject,
        });
        if inject {
            Outcome::Completed
        } else {
            Outcome::Accepted
        }
    }

    fn resolve(&mut self, lane: Lane, bytes: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        // 56 bytes, of which 32 are the address: the tail is whatever the peer had there.
        let known = bytes[..NAME_LEN] == name(lane.is_control(), lane.rail().into());
        let addr = PeerAddr(0xAD00 | lane.index() as u64);
        known.then_some(addr).ok_or(Cause::errno(22))
    }
}

/// What lies at our address `addr` of a send.
fn payload(addr: u64, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    let (k, offset) = (
        (addr - SOURCE) >> 16,
        usize::try_from(addr & 0xFFFF).unwrap_or(0),
    );
    (offset..offset + len)
        .map(|at| byte(Way::ToPeer, k, at))
        .collect()
}
