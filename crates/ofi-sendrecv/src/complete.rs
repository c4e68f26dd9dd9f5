//! What the completion queue said: count, finish, fail, drain.

use ofi_pools::Key;
use ofi_rdma::{Cause, CommKind, Event, Lane, Stray, Token, Violation, Why};

use crate::comm::{Kind, Place};
use crate::engine::{Engine, comm_key};
use crate::state::{CommInput, CommState, ReqInput};
use crate::token::{Named, Op};
use crate::wire::{Connect, Malformed};

/// What a provider makes of a message that is longer than its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// What fits is in the buffer, the rest is gone, and the next message is the next message.
    Dropped,
    /// Nobody knows: the buffer may hold anything, and so may the next receive.
    Unknown,
}

/// How an operation ended.
#[derive(Clone, Copy)]
enum End {
    /// Well; a receive with so many bytes.
    Good(u64),
    /// A receive whose message was longer.
    Truncated(Rest),
    Failed(Cause),
}

impl Engine {
    /// An accepted operation completed; `len` is what the provider says a receive got.
    #[inline]
    pub fn on_local(&mut self, token: Token, len: u64) {
        self.finish(token, End::Good(len));
    }

    /// An accepted operation failed (an error entry of the completion queue, flushed ones too).
    #[cold]
    pub fn on_failed(&mut self, token: Token, cause: Cause) {
        self.finish(token, End::Failed(cause));
    }

    /// A receive met a longer message (`FI_ETRUNC`). If the rest was dropped cleanly, the receive is
    /// done, with its room as size. Else it ends in an error of its own, and its communicator fails:
    /// what it received next could be anything.
    #[cold]
    pub fn on_truncated(&mut self, token: Token, rest: Rest) {
        self.finish(token, End::Truncated(rest));
    }

    /// A message arrived where a connect message is awaited ([`crate::Wire::Await`]); `bytes` are all
    /// of it, as far as the buffer had room.
    #[cold]
    pub fn on_connect(&mut self, token: Token, bytes: &[u8]) {
        let Some(key) = self.own_back(token, Op::Await) else {
            return self.stray(Stray::Completion);
        };
        self.news();
        self.take_connect(key, bytes);
        self.reap_if_quiet(key);
    }

    fn take_connect(&mut self, key: Key, bytes: &[u8]) {
        let Some(comm) = self.comms.get_mut(key).filter(|c| c.is_healthy()) else {
            return;
        };
        let tag = comm.tag;
        let why = match Connect::decode(bytes) {
            Ok(message) if comm.kind == CommKind::Listener => {
                comm.arrived = Some(message);
                return;
            }
            Ok(_) => return self.fail(key, Why::Protocol(Violation::SecondSender)),
            Err(Malformed::Length(len)) => Stray::Malformed {
                kind: 0,
                len: u32::try_from(len).unwrap_or(u32::MAX),
            },
            Err(Malformed::NameLength(_)) => Stray::Conn(tag),
        };
        self.stray(why);
        self.queue_own(key, Op::Await);
    }

    fn finish(&mut self, token: Token, end: End) {
        let comm = match Named::of(token) {
            Some(named) if named.op.is_own() => self.finish_own(token, named.op, end),
            Some(named) => self.finish_of_request(named, end),
            None => None,
        };
        match comm {
            Some(comm) => {
                self.news();
                if self.comms.get(comm).is_some_and(|c| c.state.is_closed()) {
                    self.reap_if_quiet(comm);
                }
            }
            None => self.stray(Stray::Completion),
        }
    }

    /// Takes an own operation back from the provider, if it is the one that is there.
    fn own_back(&mut self, token: Token, op: Op) -> Option<Key> {
        let key = Named::of(token).filter(|named| named.op == op)?.owner;
        let comm = self.comms.get_mut(key)?;
        comm.own_flying.take_if(|flying| *flying == op)?;
        comm.flying -= 1;
        comm.moved = true;
        Some(key)
    }

    #[cold]
    fn finish_own(&mut self, token: Token, op: Op, end: End) -> Option<Key> {
        let key = self.own_back(token, op)?;
        match (op, end) {
            (Op::Connect, End::Good(_)) => {
                let comm = self.comms.get_mut(key)?;
                if comm.step(CommInput::ConnectSent) {
                    self.connected(key);
                }
            }
            // Longer than our buffer: no connect message of any generation.
            (Op::Await, End::Good(_) | End::Truncated(_)) => self.take_connect(key, &[]),
            (_, End::Failed(cause)) => self.fail_operation((key, None), op, cause),
            (_, End::Truncated(_)) => {}
            (_, End::Good(_)) => {}
        }
        Some(key)
    }

    fn fail_operation(&mut self, (comm, request): (Key, Option<Key>), op: Op, cause: Cause) {
        let (op, lane) = (op.kind(), Lane::data(0));
        self.fail_of(comm, request, Why::Operation { op, lane, cause });
    }

    /// `None`: for nothing. Else its communicator.
    #[inline]
    fn finish_of_request(&mut self, named: Named, end: End) -> Option<Key> {
        let request = self.requests.get_mut(named.owner)?;
        if request.place != Place::Flying || request.kind.op() != named.op {
            return None;
        }
        request.place = Place::Home;
        let (key, room) = (request.comm, request.buffer.len);
        let comm = self.comms.get_mut(key)?;
        comm.flying -= 1;
        comm.moved = true;
        let healthy = comm.is_healthy();
        let input = match end {
            End::Good(len) => {
                request.bytes = match request.kind {
                    Kind::Recv => len.min(room),
                    Kind::Send | Kind::Flush => room,
                };
                ReqInput::Complete
            }
            End::Truncated(Rest::Dropped) => {
                request.bytes = room;
                ReqInput::Complete
            }
            End::Truncated(Rest::Unknown) => ReqInput::Truncate,
            End::Failed(cause) => {
                self.fail_operation((key, Some(named.owner)), named.op, cause);
                self.drop_orphan(named.owner);
                return Some(key);
            }
        };
        if healthy {
            request.step(input);
        } else {
            self.drop_orphan(named.owner);
        }
        if input == ReqInput::Truncate {
            self.fail_of(key, Some(named.owner), Why::Protocol(Violation::Overrun));
        }
        Some(key)
    }

    /// A send communicator is up.
    pub(crate) fn connected(&mut self, key: Key) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        debug_assert!(comm.state == CommState::Up);
        let (local_id, remote_id) = (comm.tag, comm.tag);
        let peer = comm.peer_address();
        let comm = comm_key(key);
        self.event(Event::Connected {
            comm,
            local_id,
            remote_id,
            peer,
        });
        self.news();
    }
}
