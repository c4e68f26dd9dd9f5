//! The last records of a domain, for a dump: with the names that they need to be understood, which were said long
//! before.

use super::{Trace, lane_of};
use crate::dump;
use crate::peers::Peers;
use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{EpName, Lane};
use ofi_trace::{Reader, Record, Stamped};
use std::collections::HashSet;

impl Trace {
    /// Which endpoint there is on a lane. For the file alone: a dump says so anew.
    pub(crate) fn endpoint(&mut self, lane: Lane, peers: &Peers) {
        self.name(lane, endpoint_of(peers));
    }

    /// A peer became reachable. For the file alone, too.
    #[cold]
    pub(crate) fn peer(&mut self, lane: Lane, peer: u64, name: &[u8; EP_NAME_BYTES]) {
        self.name(lane, Record::Peer { peer, name });
    }

    /// What was kept last, and who is meant in it; `None`: nothing is kept. O(records + peers).
    pub(crate) fn last(&self, ends: &[(Lane, &Peers)]) -> Option<dump::Trace> {
        let ring = self.ring.as_ref()?;
        let kept = ring.to_bytes();
        let records: Vec<Stamped<'_>> = Reader::of_records(&kept).map_while(Result::ok).collect();
        let named: HashSet<(ofi_trace::Lane, u64)> = records.iter().filter_map(peer_of).collect();
        let mut names = Vec::new();
        let mut name = |lane, record| {
            let names_at = Stamped {
                at_ns: records.first().map_or(0, |first| first.at_ns),
                domain: 0,
                lane,
                record,
            };
            names_at.encode(&mut names);
        };
        for &(lane, peers) in ends {
            let lane = lane_of(lane);
            name(lane, endpoint_of(peers));
            let meant = peers
                .known()
                .filter(|(_, peer)| named.contains(&(lane, peer.0)));
            for (of_peer, peer) in meant {
                let peer = peer.0;
                name(
                    lane,
                    Record::Peer {
                        peer,
                        name: bytes_of(of_peer),
                    },
                );
            }
        }
        names.extend_from_slice(&kept);
        let (since, lost) = (self.clock.started_unix_ns(), ring.lost());
        Some(dump::Trace::new(since, lost, &names))
    }
}

fn bytes_of(name: &EpName) -> &[u8] {
    name.bytes.get(..usize::from(name.len)).unwrap_or(&[])
}

fn endpoint_of(peers: &Peers) -> Record<'_> {
    Record::Endpoint {
        name: bytes_of(peers.own()),
        format: peers.format(),
    }
}

/// To whom an operation went.
const fn peer_of(stamped: &Stamped<'_>) -> Option<(ofi_trace::Lane, u64)> {
    match stamped.record {
        Record::Post { peer, .. } => Some((stamped.lane, peer)),
        _ => None,
    }
}
