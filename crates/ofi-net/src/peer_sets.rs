//! Which endpoint sets receive communicators are on, with an endpoint for each communicator of a peer
//! (`OFI_NCCL_ENDPOINT_PER_COMM`, protocol 2d.1).
//!
//! A peer is known by the address of its data rail 0. A communicator goes to the first set that no
//! communicator of that peer is on, so there are as many sets as the peer with the most communicators
//! has, and a set whose communicators are closed is used again.

use ofi_rdma::{CommKey, EpName};

/// One set: a domain with engine and endpoints of its own.
#[derive(Debug)]
struct PeerSet {
    /// Number of the domain in the registry.
    number: usize,
    /// Whose communicators are on it.
    peers: Vec<(EpName, CommKey)>,
}

/// All sets of a device.
#[derive(Debug, Default)]
pub(crate) struct PeerSets {
    sets: Vec<PeerSet>,
}

impl PeerSets {
    /// Number of a domain that no communicator of `peer` is on. O(communicators).
    pub(crate) fn find(&self, peer: &EpName) -> Option<usize> {
        let free = |set: &&PeerSet| set.peers.iter().all(|(name, _)| name != peer);
        self.sets.iter().find(free).map(|set| set.number)
    }

    /// A domain that was opened for this.
    pub(crate) fn add(&mut self, number: usize) {
        let peers = Vec::new();
        self.sets.push(PeerSet { number, peers });
    }

    /// A communicator of `peer` is on the domain.
    pub(crate) fn occupy(&mut self, number: usize, peer: EpName, comm: CommKey) {
        if let Some(set) = self.set(number) {
            set.peers.push((peer, comm));
        }
    }

    /// A communicator of the domain is closed.
    pub(crate) fn release(&mut self, number: usize, comm: CommKey) {
        if let Some(set) = self.set(number) {
            set.peers.retain(|(_, known)| *known != comm);
        }
    }

    fn set(&mut self, number: usize) -> Option<&mut PeerSet> {
        self.sets.iter_mut().find(|set| set.number == number)
    }
}

/// The address in a name that a peer sent: what stands behind it is not of the address.
pub(crate) fn address_of(name: &EpName) -> EpName {
    let bytes = name.bytes.get(..usize::from(name.len)).unwrap_or_default();
    EpName::new(bytes).unwrap_or(EpName::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(seed: u8) -> EpName {
        EpName::new(&[seed; 16]).unwrap()
    }

    #[test]
    fn a_peer_is_on_each_set_once_and_closed_ones_make_room() {
        let mut sets = PeerSets::default();
        assert_eq!(sets.find(&peer(1)), None, "none is open");
        sets.add(4);
        let comm = |bits| CommKey::from_bits(bits);
        sets.occupy(4, peer(1), comm(1));
        assert_eq!(sets.find(&peer(1)), None);
        assert_eq!(sets.find(&peer(2)), Some(4), "peers share a set");
        sets.add(7);
        sets.occupy(7, peer(1), comm(1));
        assert_eq!(sets.find(&peer(1)), None);
        sets.release(4, comm(1));
        assert_eq!(sets.find(&peer(1)), Some(4));
        sets.release(9, comm(1));
    }

    #[test]
    fn rubbish_behind_an_address_is_no_part_of_it() {
        let (clean, mut dirty) = (peer(3), peer(3));
        dirty.bytes[40] = 0xEE;
        assert_eq!(address_of(&dirty), clean);
    }
}
