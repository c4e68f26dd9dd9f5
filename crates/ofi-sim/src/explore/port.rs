//! The engine's port into the small network, with what has to be true of each post.

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, Lane, Outcome, PeerAddr, Post, RailPort, Wire};

use super::net::{Flight, Net, RECV, SEND, key, message_of};
use super::scene::Scene;
use crate::ops::{NAME_BYTES, address, endpoint_name, host_of};

const EINVAL: i32 = 22;

/// The port of one host.
#[derive(Debug)]
pub(super) struct Port<'a> {
    pub(super) scene: &'a Scene,
    pub(super) net: &'a mut Net,
    pub(super) host: usize,
}

impl RailPort for Port<'_> {
    fn post(&mut self, post: &Post) -> Outcome {
        let (lane, wire) = (post.lane(), *post.wire());
        if self.net.busy == Some((self.host, lane)) {
            return Outcome::Busy;
        }
        let k = match self.judge(lane, &wire) {
            Ok(k) => k,
            Err(what) => {
                let host = self.host;
                self.net
                    .violation(format!("host {host} posts {wire:?} on {lane:?}: {what}"));
                return Outcome::Failed(Cause::errno(EINVAL));
            }
        };
        if let (Wire::EagerCopy { rx, len, .. }, true) = (wire, self.scene.copies_at_once) {
            let k = self.net.held(rx).unwrap_or(u8::MAX);
            self.net.bytes_land((k, 0), len, false);
            return Outcome::Completed;
        }
        let mut bytes = Vec::new();
        let mut injected = false;
        if let Wire::Control { len, .. } = wire {
            bytes.resize(len.into(), 0);
            let written = post.encode(&mut bytes);
            if written != bytes.len() {
                self.net.violation(format!("{wire:?} encodes {written}"));
            }
            injected = len <= self.scene.inject_max;
        }
        self.net.flights.push(Flight {
            from: self.host,
            lane,
            wire,
            token: (!injected).then_some(post.token()),
            bytes,
            k,
            landed: matches!(wire, Wire::EagerCopy { .. } | Wire::FlushRead { .. }),
            completed: false,
        });
        if injected {
            Outcome::Completed
        } else {
            Outcome::Accepted
        }
    }

    fn resolve(&mut self, lane: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        let host = name[3];
        if host < 2 && name[..NAME_BYTES] == endpoint_name(host, lane) {
            Ok(address(host, lane))
        } else {
            Err(Cause::errno(EINVAL))
        }
    }
}

impl Port<'_> {
    /// The message that a post belongs to.
    fn judge(&self, lane: Lane, wire: &Wire) -> Result<Option<u8>, &'static str> {
        match *wire {
            Wire::Control { peer, .. } => self.goes(lane, peer).map(|()| None),
            Wire::Eager {
                peer, addr, len, ..
            } => {
                self.goes(lane, peer)?;
                let k = self.reads(addr, len)?;
                let whole = (addr, len) == (super::net::buffer(SEND, k), self.sent(k));
                whole.then_some(Some(k)).ok_or("an eager message is whole")
            }
            Wire::Write {
                peer,
                addr,
                len,
                remote_addr,
                remote_key,
                ..
            } => {
                self.goes(lane, peer)?;
                self.writes(lane, [addr, len, remote_addr, remote_key])
                    .map(Some)
            }
            Wire::EagerCopy { rx, len, addr, .. } => {
                let k = self.net.held(rx).ok_or("nothing lies there")?;
                let (to, offset) = message_of(RECV, addr).ok_or("to no buffer")?;
                let right = (to, offset, len) == (k, 0, self.scene.moved(k));
                right
                    .then_some(Some(k))
                    .ok_or("copied elsewhere, or in part")
            }
            Wire::FlushRead { addr, .. } => {
                let (k, _) = message_of(RECV, addr).ok_or("a flush of no buffer")?;
                Ok(Some(k))
            }
            Wire::Put { .. } | Wire::Get { .. } => Err("nobody asked for it"),
        }
    }

    fn goes(&self, lane: Lane, peer: PeerAddr) -> Result<(), &'static str> {
        let other = u8::try_from(1 - self.host).ok();
        (host_of(peer, lane) == other)
            .then_some(())
            .ok_or("to an address that is not the peer's on this lane")
    }

    fn sent(&self, k: u8) -> u32 {
        self.scene.messages.get(usize::from(k)).map_or(0, |m| m.0)
    }

    /// The message that lies at `addr` of the sender, whose request is alive.
    fn reads(&self, addr: u64, len: u32) -> Result<u8, &'static str> {
        let (k, offset) = message_of(SEND, addr).ok_or("from no buffer")?;
        let fortune = self.net.fortunes.get(usize::from(k)).ok_or("no message")?;
        if !fortune.started[SEND] || fortune.done[SEND] || self.net.closed[SEND] {
            return Err("its request is not alive");
        }
        (u64::from(offset) + u64::from(len) <= u64::from(self.sent(k)))
            .then_some(k)
            .ok_or("beyond the buffer")
    }

    fn writes(&self, lane: Lane, [addr, len, to, to_key]: [u64; 4]) -> Result<u8, &'static str> {
        let len = u32::try_from(len).map_err(|_| "too long")?;
        let k = self.reads(addr, len)?;
        let there = message_of(RECV, to).ok_or("to no buffer")?;
        if Some(there) != message_of(SEND, addr) {
            return Err("to another message's buffer, or another place in it");
        }
        if to_key != key(lane.rail()) {
            return Err("with the key of another rail");
        }
        (there.1 + len <= self.scene.moved(k))
            .then_some(k)
            .ok_or("beyond the receive")
    }
}
