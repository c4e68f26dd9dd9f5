//! From what the completion queue said to the communicator it is for. Everything here comes from a
//! peer: unknown ids, impossible counts and repeated messages are counted and dropped, or fail the
//! one communicator they name.

use alloc::boxed::Box;
use ofi_pools::Key;
use ofi_sched::Policy;

use crate::comm::CommKind;
use crate::dialect::{Dialect, ImmFields};
use crate::engine::{Early, EarlyCtrl, Engine};
use crate::error::{Mismatch, Violation, Why};
use crate::event::Stray;
use crate::limits::MAX_RAILS;
use crate::port::RxId;
use crate::request::{Kind, Request};
use crate::state::CommState;
use crate::window::{Lookup, Slot};
use crate::wire::MessageType;
use crate::wire::close::Close;
use crate::wire::conn::Conn;
use crate::wire::ctrl::Ctrl;

/// What becomes of a receive buffer that an eager message came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RxFate {
    /// Post it again.
    Repost,
    /// The engine holds it; it comes back through [`Engine::take_released`].
    Held,
}

/// A rail, whatever the port says.
const RAIL_MASK: u8 = 3;
const _: () = assert!(MAX_RAILS == RAIL_MASK as usize + 1);

/// The low half of CQ data: the immediate (decision 3).
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is wanted"
)]
const fn immediate(data: u64) -> u32 {
    data as u32
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// A write of a peer landed on data rail `rail`: `FI_REMOTE_WRITE`, with its CQ data (the
    /// immediate is the low half), and with the length where the provider says it (libfabric 1.17 does not on TCP: providers 1a).
    #[inline(always)]
    pub fn on_remote_write(&mut self, rail: u8, data: u64, len: Option<u64>) {
        match len {
            Some(len) if self.landed_well(rail, data, len) => {}
            Some(len) => self.land_closely(rail, data, len),
            None => self.land_untold(rail, data),
        }
    }

    /// The way of nearly all writes: a segment that its message waits for. False, and nothing was changed, for
    /// any other. Every check is here, and no call: nothing has to be kept beside one in a register that would
    /// have to be saved.
    #[inline(always)]
    fn landed_well(&mut self, rail: u8, data: u64, len: u64) -> bool {
        let imm = immediate(data);
        let Some((_, comm)) = self.comms.at_mut(D::imm_comm(imm)) else {
            return false;
        };
        if !comm.is_open(CommKind::Recv) {
            return false;
        }
        // The request itself says which message it is.
        let Some(index) = comm.window.active_in_slot_of(D::imm_seq(imm)) else {
            return false;
        };
        let Some((_, request)) = self.requests.at_mut(index) else {
            return false;
        };
        if !request.segment::<D>(imm, rail & RAIL_MASK, len) {
            return false;
        }
        comm.moved = true;
        self.news();
        true
    }

    /// The provider does not say the length; the peer may.
    #[cold]
    #[inline(never)]
    fn land_untold(&mut self, rail: u8, data: u64) {
        let fields = D::decode_imm(immediate(data));
        let comm = self.comms.at_mut(fields.comm);
        let len = comm.and_then(|(_, comm)| comm.len_told(data));
        if let (None, Some((_, request))) = (len, self.message_of(fields)) {
            request.lengths_unknown();
        }
        self.land_closely(rail, data, len.unwrap_or(0));
    }

    /// A write of which not all is known to be well: for nobody, or against the protocol?
    #[cold]
    #[inline(never)]
    fn land_closely(&mut self, rail: u8, data: u64, len: u64) {
        if self.landed_well(rail, data, len) {
            return;
        }
        let fields = D::decode_imm(immediate(data));
        let found = self.message_of(fields);
        match found.map(|(comm, request)| (comm, request.violation(fields.nseg))) {
            None => self.stray(Stray::Write(fields.comm, fields.seq)),
            Some((comm, violation)) => {
                self.fail(comm, Some(fields.seq), Why::Protocol(violation));
            }
        }
    }

    /// The message in progress that an immediate names, and its communicator.
    fn message_of(&mut self, fields: ImmFields) -> Option<(Key, &mut Request)> {
        let (key, comm) = self.comms.at_mut(fields.comm)?;
        let index = comm.window.active(fields.seq)?;
        let (_, request) = self.requests.at_mut(index)?;
        comm.is_open(CommKind::Recv).then_some((key, request))
    }

    /// An eager message came in on a data rail: `FI_RECV` with CQ data (protocol 2c.6).
    pub fn on_eager(&mut self, imm: u32, len: u32, rx: RxId) -> RxFate {
        let fields = D::decode_imm(imm);
        let open = self.comms.at_mut(fields.comm);
        let open = open.filter(|(_, comm)| comm.is_open(CommKind::Recv));
        let Some((comm, place)) = open.map(|(key, c)| (key, c.window.lookup(fields.seq))) else {
            self.stray(Stray::Eager(fields.comm, fields.seq));
            return RxFate::Repost;
        };
        if fields.nseg != 1 {
            self.fail(
                comm,
                Some(fields.seq),
                Why::Protocol(Violation::EagerSegments),
            );
            return RxFate::Repost;
        }
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.moved = true;
        }
        self.news();
        match place {
            Lookup::Within(Slot::Active(index)) => {
                if let Some((key, _)) = self.request_at(index) {
                    self.start_copy(comm, key, rx, len);
                    return RxFate::Held;
                }
                RxFate::Repost
            }
            Lookup::Within(Slot::Empty) => {
                self.hold_early(comm, fields.seq, Early::Eager { rx, len })
            }
            Lookup::Beyond => {
                self.fail(
                    comm,
                    Some(fields.seq),
                    Why::Protocol(Violation::BeyondWindow),
                );
                RxFate::Repost
            }
            Lookup::Within(Slot::Early(_) | Slot::Done) | Lookup::Past => {
                self.stray(Stray::Eager(fields.comm, fields.seq));
                RxFate::Repost
            }
        }
    }

    fn hold_early(&mut self, comm: Key, seq: u16, item: Early) -> RxFate {
        let Ok(held) = self.early.insert(item) else {
            return RxFate::Repost;
        };
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.window.hold(seq, held.index());
        }
        RxFate::Held
    }

    /// A control message came in on a lane: `FI_RECV` without CQ data (protocol 2c.2). The bytes
    /// are not needed after the call.
    pub fn on_control(&mut self, bytes: &[u8]) {
        let done = match MessageType::of(bytes) {
            Ok(MessageType::Ctrl | MessageType::CtrlNoCompletion) => self.on_ctrl(bytes),
            Ok(MessageType::Conn | MessageType::ConnResp) => self.on_conn(bytes),
            Ok(MessageType::Close) => self.on_close(bytes),
            Err(_) => None,
        };
        if done.is_none() {
            let kind = bytes.first().map_or(15, |b| b & 0xF);
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            self.stray(Stray::Malformed { kind, len });
        }
    }

    fn on_ctrl(&mut self, bytes: &[u8]) -> Option<()> {
        let (ctrl, width) = Ctrl::decode(bytes, self.config.data_rails).ok()?;
        let open = self.comms.at_mut(ctrl.comm_id);
        let open = open.filter(|(_, comm)| comm.is_open(CommKind::Send));
        let Some((comm, place)) = open.map(|(key, c)| (key, c.window.lookup(ctrl.seq))) else {
            self.late_ctrl(ctrl.comm_id, ctrl.seq);
            return Some(());
        };
        let (ours, theirs) = (self.config.key_width, width);
        if ours != theirs {
            let bytes = |w: crate::KeyWidth| if w == crate::KeyWidth::Short { 4 } else { 8 };
            let (ours, theirs) = (bytes(ours), bytes(theirs));
            let why = Why::Mismatch {
                what: Mismatch::KeyWidth,
                ours,
                theirs,
            };
            self.fail(comm, Some(ctrl.seq), why);
            return Some(());
        }
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.moved = true;
            comm.ctrls += 1;
        }
        self.news();
        let item = EarlyCtrl {
            addr: ctrl.buff_addr,
            keys: ctrl.keys,
            len: ctrl.buff_len,
            no_completion: ctrl.no_completion,
        };
        self.place_ctrl(comm, ctrl.comm_id, ctrl.seq, place, &item);
        Some(())
    }

    fn place_ctrl(&mut self, comm: Key, id: u32, seq: u16, place: Lookup, item: &EarlyCtrl) {
        match place {
            Lookup::Within(Slot::Empty) => {
                let _held = self.hold_early(comm, seq, Early::Ctrl(*item));
            }
            Lookup::Within(Slot::Active(index)) => match self.request_at(index) {
                Some((key, request)) if !request.ctrl_seen => {
                    if request.kind == Kind::EagerSend {
                        request.ctrl_seen = true;
                        request.bytes = request.bytes.min(item.len);
                        self.count_one(key);
                    } else {
                        self.writes_of(key, item);
                    }
                }
                _ => self.stray(Stray::Ctrl(id, seq)),
            },
            Lookup::Beyond => {
                self.fail(comm, Some(seq), Why::Protocol(Violation::BeyondWindow));
            }
            Lookup::Within(Slot::Early(_) | Slot::Done) | Lookup::Past => {
                self.stray(Stray::Ctrl(id, seq));
            }
        }
    }

    /// CONN finds a listener without connection, `CONN_RESP` a communicator that waits for one;
    /// a second one finds nobody (decision 17).
    #[cold]
    fn on_conn(&mut self, bytes: &[u8]) -> Option<()> {
        let conn = Conn::decode(bytes).ok()?;
        let (kind, state) = if conn.is_response {
            (CommKind::Send, CommState::Connecting)
        } else {
            (CommKind::Listener, CommState::Listening)
        };
        let (id, is_response) = (conn.remote_id, conn.is_response);
        let comm = self.comms.at_mut(id).map(|(_, comm)| comm).filter(|c| {
            let free = c.message.is_none() && c.child.is_none();
            c.is_open(kind) && c.state == state && free
        });
        match comm {
            Some(comm) => {
                comm.message = Some(Box::new(conn));
                self.news();
            }
            None if is_response => self.stray(Stray::ConnResp(id)),
            None => self.stray(Stray::Conn(id)),
        }
        Some(())
    }

    /// The receiver is gone, and says how many CTRLs there were. Understood always.
    #[cold]
    fn on_close(&mut self, bytes: &[u8]) -> Option<()> {
        let close = Close::decode(bytes).ok()?;
        let id = close.send_comm_id;
        let found = self.comms.at_mut(id);
        let found = found.filter(|(_, c)| c.kind == CommKind::Send);
        let Some((key, comm)) = found.filter(|(_, c)| !c.has_close()) else {
            self.stray(Stray::Close(id));
            return Some(());
        };
        comm.moved = true;
        comm.close_said(close.ctrl_count);
        self.end_if_heard_out(key);
        Some(())
    }
}
