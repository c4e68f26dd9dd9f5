//! A host of the BASE generation, as far as its peer can tell: ids lowest first and free at once
//! (2d.3), the message buffer (2e.9), eager or not (2e.2), completion by counting (2e.4), CLOSE (2j).
//! What it cannot bear (2.k 2) is a panic here.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{Conn, Ctrl, Rng, close, imm, recycled, u32_at, u64_at};
use crate::plan::{Out, Setup, Way, Whose, byte, content, name, sizes};

mod receiver;

use receiver::{GUARD, GUARDS, Recv};

#[derive(Debug, Default)]
struct Send {
    seq: u32,
    eager: bool,
    /// Completions needed (0: not known yet) and had.
    need: usize,
    have: usize,
    reported: usize,
}

/// One host with one communicator each way.
#[derive(Debug)]
pub(crate) struct Peer {
    setup: Setup,
    ids: BTreeSet<u32>,
    pub(crate) out: Vec<(Out, Whose)>,
    pub(crate) listener: Option<u32>,
    /// Receive communicator: its id, and that of the sender over there.
    recv_comm: Option<(u32, u32)>,
    pub(crate) accepted: bool,
    /// Send communicator: its id, and that of the receiver over there, once known.
    send_comm: Option<(u32, Option<u32>)>,
    sends: BTreeMap<u64, Send>,
    recvs: BTreeMap<u64, Recv>,
    ctrls: BTreeMap<u32, Ctrl>,
    eagers: BTreeMap<u32, Vec<u8>>,
    pub(crate) next_send: u64,
    pub(crate) next_recv: u64,
    writes_out: usize,
    ctrls_received: u64,
    ctrls_sent: u64,
    ctrls_delivered: u64,
    heard_close: Option<u64>,
    said_close: bool,
    pub(crate) done: [u64; 2],
    /// The engine's last connection message: recycled for our next (2.k 3).
    old: Option<[u8; 528]>,
}

fn seq_of(k: u64) -> u32 {
    u32::try_from(k % 1024).unwrap_or(0)
}

impl Peer {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            ids: (0..64).collect(),
            out: Vec::new(),
            listener: None,
            recv_comm: None,
            accepted: false,
            send_comm: None,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            ctrls: BTreeMap::new(),
            eagers: BTreeMap::new(),
            next_send: 0,
            next_recv: 0,
            writes_out: 0,
            ctrls_received: 0,
            ctrls_sent: 0,
            ctrls_delivered: 0,
            heard_close: None,
            said_close: false,
            done: [0; 2],
            old: None,
        }
    }

    /// Forgets a life; ids and the recycled buffer stay.
    pub(crate) fn begin(&mut self, setup: Setup) {
        let (ids, old) = (core::mem::take(&mut self.ids), self.old.take());
        assert_eq!(ids.len(), 64, "all ids are free between lives");
        *self = Self {
            ids,
            old,
            ..Self::new(setup)
        };
        self.listener = Some(self.id());
    }

    fn id(&mut self) -> u32 {
        self.ids.pop_first().expect("an id")
    }

    fn conn(&mut self, rng: &mut Rng, kind: u8, local: u32, remote: u32) -> Vec<u8> {
        let mut buffer = match self.old.take() {
            Some(old) if rng.percent(50) => old,
            _ => recycled(rng),
        };
        let count = |n: usize| u16::try_from(n).unwrap_or(0);
        let (rails, control_rails) = (count(self.setup.rails), count(self.setup.control_rails));
        Conn {
            kind,
            rails,
            control_rails,
            local,
            remote,
        }
        .write(&mut buffer, name);
        buffer.to_vec()
    }

    pub(crate) fn connect(&mut self, rng: &mut Rng, listener: u32) {
        let id = self.id();
        self.send_comm = Some((id, None));
        let bytes = self.conn(rng, 0, id, listener);
        self.out
            .push((Out::Control { rail: 0, bytes }, Whose::Nobody));
    }

    pub(crate) const fn connected(&self) -> bool {
        matches!(self.send_comm, Some((_, Some(_))))
    }

    /// A control message of the engine.
    pub(crate) fn control(&mut self, rng: &mut Rng, rail: usize, bytes: &[u8]) {
        match bytes[0] & 0xF {
            0 | 1 => {
                assert_eq!(rail, 0, "connection messages go over control rail 0");
                self.old = bytes.try_into().ok();
                self.connection(rng, Conn::read(bytes));
            }
            2 | 5 => {
                let ctrl = Ctrl::read(bytes, self.setup.long_keys, self.setup.rails);
                assert!(
                    rail < self.setup.control_rails,
                    "a control rail that is not there"
                );
                let (id, _) = self
                    .send_comm
                    .expect("CTRL for a send communicator that is gone");
                assert_eq!(ctrl.comm, id, "CTRL names the sender's id");
                assert_eq!(
                    self.heard_close.filter(|n| *n <= self.ctrls_received),
                    None,
                    "one CTRL too many"
                );
                self.ctrls_received += 1;
                self.take_ctrl(rng, ctrl);
            }
            4 => {
                assert_eq!((rail, bytes.len()), (0, 24), "CLOSE");
                let (id, _) = self
                    .send_comm
                    .expect("CLOSE for a send communicator that is gone");
                assert_eq!(u32_at(bytes, 16), id);
                assert!(self.setup.close_messages, "CLOSE is off");
                assert_eq!(
                    self.heard_close.replace(u64_at(bytes, 8)),
                    None,
                    "one CLOSE"
                );
                assert_ne!(self.heard_close, Some(0), "CLOSE only after a CTRL");
            }
            other => panic!("a control message of type {other}"),
        }
    }

    fn connection(&mut self, rng: &mut Rng, conn: Conn) {
        let counts = (usize::from(conn.rails), usize::from(conn.control_rails));
        assert_eq!(counts, (self.setup.rails, self.setup.control_rails));
        if conn.kind == 0 {
            // A CONN for an unknown listener crashes this generation.
            assert_eq!(
                Some(conn.remote),
                self.listener.take(),
                "one CONN for the listener"
            );
            self.ids.insert(conn.remote);
            let id = self.id();
            self.recv_comm = Some((id, conn.local));
            let bytes = self.conn(rng, 1, id, conn.local);
            self.out
                .push((Out::Control { rail: 0, bytes }, Whose::Answer));
        } else {
            let (id, remote) = self.send_comm.as_mut().expect("CONN_RESP for nobody");
            assert_eq!(
                (conn.remote, *remote),
                (*id, None),
                "CONN_RESP echoes our id, once"
            );
            *remote = Some(conn.local);
        }
    }

    fn take_ctrl(&mut self, rng: &mut Rng, ctrl: Ctrl) {
        let found = self.sends.iter().find(|(_, send)| send.seq == ctrl.seq);
        match found.map(|(k, send)| (*k, send.eager)) {
            None => assert_eq!(self.ctrls.insert(ctrl.seq, ctrl), None, "a CTRL twice"),
            Some((k, true)) => {
                let send = self.sends.get_mut(&k).expect("there");
                send.reported = send.reported.min(ctrl.len as usize);
                self.count_send(k);
            }
            Some((k, false)) => self.write(rng, k, &ctrl),
        }
    }

    /// Starts send `k` (2e.2).
    pub(crate) fn isend(&mut self, rng: &mut Rng) {
        let (k, seq) = (self.next_send, seq_of(self.next_send));
        let (_, Some(remote)) = self.send_comm.expect("connected") else {
            panic!("connected")
        };
        self.next_send += 1;
        let bytes = content(Way::ToUs, k);
        let ctrl = self.ctrls.remove(&seq);
        let short = i64::try_from(bytes.len()).unwrap_or(0) <= self.setup.their_eager;
        let eager = ctrl.is_none() && short && self.writes_out == 0;
        let mut send = Send {
            seq,
            eager,
            reported: bytes.len(),
            ..Send::default()
        };
        if eager {
            send.need = 2;
            let (rail, imm) = (rng.below(self.setup.rails), imm(1, remote, seq));
            self.out
                .push((Out::Eager { rail, imm, bytes }, Whose::Send(k)));
        } else {
            self.writes_out += 1;
        }
        self.sends.insert(k, send);
        if let Some(ctrl) = ctrl {
            self.write(rng, k, &ctrl);
        }
    }

    /// Any cut, over any rails, empty pieces too: the receiver has to take every one (2g.6).
    fn write(&mut self, rng: &mut Rng, k: u64, ctrl: &Ctrl) {
        let (_, remote) = self.send_comm.expect("connected");
        let mut bytes = content(Way::ToUs, k);
        bytes.truncate(ctrl.len as usize);
        let nseg = if bytes.is_empty() {
            1
        } else {
            1 + rng.below(4)
        };
        let mut cuts: Vec<usize> = (1..nseg).map(|_| rng.below(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let send = self.sends.get_mut(&k).expect("there");
        (send.need, send.reported) = (nseg, bytes.len());
        let word = imm(nseg, remote.expect("connected"), ctrl.seq);
        for cut in cuts.windows(2) {
            let rail = rng.below(self.setup.rails);
            let piece = Out::Write {
                rail,
                imm: (ctrl.kind == 2).then_some(word),
                addr: ctrl.addr + cut[0] as u64,
                key: ctrl.keys[rail],
                bytes: bytes[cut[0]..cut[1]].to_vec(),
            };
            self.out.push((piece, Whose::Send(k)));
        }
    }

    /// Something it sent completed here.
    pub(crate) fn completed(&mut self, whose: Whose) {
        match whose {
            Whose::Nobody => {}
            Whose::Answer => self.accepted = true,
            Whose::Send(k) => self.count_send(k),
            Whose::Recv(k) => {
                self.ctrls_delivered += 1;
                self.recvs.get_mut(&k).expect("there").have += 1;
            }
        }
    }

    fn count_send(&mut self, k: u64) {
        let send = self
            .sends
            .get_mut(&k)
            .expect("a completion for a send that is over");
        send.have += 1;
        assert!(
            send.need == 0 || send.have <= send.need,
            "too many completions: {send:?}"
        );
    }

    /// Takes everything that is done: sizes and bytes.
    pub(crate) fn test(&mut self) {
        let over: Vec<u64> = self
            .sends
            .iter()
            .filter(|(_, s)| s.need > 0 && s.have == s.need)
            .map(|(k, _)| *k)
            .collect();
        for k in over {
            let send = self.sends.remove(&k).expect("there");
            self.writes_out -= usize::from(!send.eager);
            let (sent, room) = sizes(Way::ToUs, k);
            assert_eq!(send.reported, sent.min(room), "the size of send {k}");
            self.done[0] += 1;
        }
        let over: Vec<u64> = self
            .recvs
            .iter()
            .filter(|(k, r)| r.is_over(**k))
            .map(|(k, _)| *k)
            .collect();
        for k in over {
            let recv = self.recvs.remove(&k).expect("there");
            let (sent, room) = sizes(Way::ToPeer, k);
            let moved = sent.min(room);
            assert!(
                recv.optional || recv.bytes == moved,
                "receive {k}: {} of {moved} bytes",
                recv.bytes
            );
            for (at, got) in recv.memory.iter().enumerate() {
                let inside = at.checked_sub(GUARDS).filter(|at| *at < moved);
                let want = inside.map_or(GUARD, |at| byte(Way::ToPeer, k, at));
                assert_eq!(*got, want, "receive {k}, byte {at}");
            }
            self.done[1] += 1;
        }
    }

    pub(crate) fn in_flight(&self) -> [usize; 2] {
        [self.sends.len(), self.recvs.len()]
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight() == [0, 0] && self.out.is_empty()
    }

    /// Closes the receive communicator (2j): CLOSE, if it is on and there was a CTRL; the id is free.
    pub(crate) fn close_recv(&mut self, rng: &mut Rng) {
        assert_eq!(self.ctrls_delivered, self.ctrls_sent);
        let Some((id, remote)) = self.recv_comm.take() else {
            return;
        };
        self.ids.insert(id);
        if self.setup.close_messages && self.ctrls_sent > 0 && !self.said_close {
            self.said_close = true;
            let bytes = close(rng, self.ctrls_delivered, remote);
            self.out
                .push((Out::Control { rail: 0, bytes }, Whose::Nobody));
        }
    }

    /// Closes the send communicator, once it may go (2j); false: it waits for CLOSE.
    pub(crate) fn close_send(&mut self) -> bool {
        let waits = self.setup.close_messages
            && self.heard_close != Some(self.ctrls_received)
            && self.ctrls_received > 0;
        if waits {
            return false;
        }
        if let Some((id, _)) = self.send_comm.take() {
            self.ids.insert(id);
        }
        true
    }
}
