//! The receiving half of the peer: CTRL, segments, eager copies (2e.3, 2e.4).

use super::{Peer, seq_of};
use crate::bytes::{Ctrl, Rng, imm_fields};
use crate::plan::{Out, Way, Whose, key, sizes};

pub(super) const GUARD: u8 = 0xA5;
pub(super) const GUARDS: usize = 64;

/// Where the receive buffer `k` of the peer lies, as its CTRL says.
const BASE: u64 = 0x7E00_0000_0000;

#[derive(Debug)]
pub(super) struct Recv {
    pub(super) seq: u32,
    pub(super) need: usize,
    pub(super) have: usize,
    pub(super) segs: usize,
    pub(super) bytes: usize,
    pub(super) placed: usize,
    pub(super) eager: bool,
    pub(super) optional: bool,
    pub(super) memory: Vec<u8>,
}

impl Recv {
    /// Done; of an optional one the application itself looks at the memory.
    pub(super) fn is_over(&self, k: u64) -> bool {
        let (sent, room) = sizes(Way::ToPeer, k);
        self.have == self.need && (!self.optional || self.placed == sent.min(room))
    }
}

impl Peer {
    /// Starts receive `k` (2e.3): a CTRL over any control rail.
    pub(crate) fn irecv(&mut self, rng: &mut Rng) {
        let (k, seq) = (self.next_recv, seq_of(self.next_recv));
        let (_, remote) = self.recv_comm.expect("accepted");
        self.next_recv += 1;
        let (_, room) = sizes(Way::ToPeer, k);
        let optional = self.setup.early && rng.percent(50);
        let keys = (0..self.setup.rails).map(|rail| key(&self.setup, Way::ToPeer, k, rail));
        let ctrl = Ctrl {
            kind: if optional { 5 } else { 2 },
            seq,
            comm: remote,
            len: u32::try_from(room).unwrap_or(0),
            addr: BASE + (k << 16) + GUARDS as u64,
            keys: keys.collect(),
        };
        let bytes = ctrl.write(self.setup.long_keys);
        let rail = rng.below(self.setup.control_rails);
        self.ctrls_sent += 1;
        self.out
            .push((Out::Control { rail, bytes }, Whose::Recv(k)));
        let need = if optional { 1 } else { 2 };
        let memory = vec![GUARD; room + 2 * GUARDS];
        let recv = Recv {
            seq,
            need,
            have: 0,
            segs: 0,
            bytes: 0,
            placed: 0,
            eager: false,
            optional,
            memory,
        };
        self.recvs.insert(k, recv);
        if let Some(early) = self.eagers.remove(&seq) {
            self.copy_eager(k, &early);
        }
    }

    fn copy_eager(&mut self, k: u64, payload: &[u8]) {
        let recv = self.recvs.get_mut(&k).expect("there");
        assert!(
            recv.segs == 0 && !recv.eager && !recv.optional,
            "{recv:?}: eager data, and once"
        );
        let room = recv.memory.len() - 2 * GUARDS;
        let kept = &payload[..payload.len().min(room)];
        recv.memory[GUARDS..GUARDS + kept.len()].copy_from_slice(kept);
        (recv.eager, recv.bytes) = (true, kept.len());
        recv.have += 1;
    }

    fn recv_of(&mut self, word: u32) -> (usize, u32, Option<u64>) {
        let (nseg, comm, seq) = imm_fields(word);
        // An immediate for an unknown receive communicator crashes this generation.
        let (id, _) = self
            .recv_comm
            .expect("an immediate for a receiver that is gone");
        assert_eq!(comm, id, "the immediate names the receiver's id");
        let found = self.recvs.iter().find(|(_, recv)| recv.seq == seq);
        (nseg, seq, found.map(|(k, _)| *k))
    }

    /// An eager message of the engine.
    pub(crate) fn eager(&mut self, word: u32, payload: &[u8]) {
        assert!(
            self.setup.their_eager >= 0,
            "eager data where no buffer is posted"
        );
        let (nseg, seq, found) = self.recv_of(word);
        assert_eq!(nseg, 1);
        match found {
            Some(k) => self.copy_eager(k, payload),
            None => assert_eq!(self.eagers.insert(seq, payload.to_vec()), None, "twice"),
        }
    }

    /// A write of the engine lands: at the place and with the key of its rail that CTRL gave out.
    pub(crate) fn land(&mut self, rail: usize, word: Option<u32>, to: (u64, u64), bytes: &[u8]) {
        let (addr, opened) = to;
        let (k, offset) = (
            (addr - BASE) >> 16,
            usize::try_from(addr & 0xFFFF).unwrap_or(0),
        );
        assert_eq!(
            opened,
            key(&self.setup, Way::ToPeer, k, rail),
            "the key of rail {rail}"
        );
        if word.is_none() && bytes.is_empty() {
            // Nobody can tell when an empty piece of a message without immediates came.
            return;
        }
        let recv = self
            .recvs
            .get_mut(&k)
            .expect("a write into a receive that is over");
        let end = recv.memory.len() - GUARDS;
        assert!(
            offset >= GUARDS && offset + bytes.len() <= end,
            "inside the buffer"
        );
        recv.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        recv.placed += bytes.len();
        assert_eq!(
            word.is_none(),
            recv.optional,
            "type 5 asks for no immediate, type 2 for one"
        );
        let Some(word) = word else { return };
        let (nseg, _, found) = self.recv_of(word);
        assert_eq!(
            found,
            Some(k),
            "the immediate and the address are of one message"
        );
        let recv = self.recvs.get_mut(&k).expect("there");
        assert!(!recv.eager && (1..=4).contains(&nseg));
        recv.segs += 1;
        recv.bytes += bytes.len();
        assert!(recv.segs <= nseg);
        recv.have += usize::from(recv.segs == nseg);
    }
}
