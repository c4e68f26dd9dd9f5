//! Completions of our own operations: count, finish, fail, drain.

use ofi_pools::Key;
use ofi_sched::Policy;

use super::Done;
use crate::comm::CommKind;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{OpKind, Why};
use crate::event::{Event, Stray};
use crate::key::{CommKey, Named};
use crate::port::{Cause, Lane, Rails, Token};
use crate::request;
use crate::state::{CommInput, ReqInput};

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// An accepted operation completed.
    #[inline]
    pub fn on_local(&mut self, token: Token) {
        self.finish_op(token, Ok(()));
    }

    /// An accepted operation failed (an error entry of the completion queue, flushed ones too).
    #[cold]
    pub fn on_failed(&mut self, token: Token, cause: Cause) {
        self.finish_op(token, Err(cause));
    }

    pub(super) fn finish_op(&mut self, token: Token, result: Result<(), Cause>) {
        let Some(named) = Named::of(token) else {
            return self.stray(Stray::Completion);
        };
        let control = matches!(named.op, OpKind::Ctrl) || named.op.is_own();
        let lane = if control {
            Lane::control(named.rail)
        } else {
            Lane::data(named.rail)
        };
        let finished = if named.op.is_own() {
            self.finish_own(named, lane, result).map(Some)
        } else {
            self.finish_of_request(named, lane, result)
        };
        match finished {
            Some(drained) => {
                self.news();
                if let Some(comm) = drained {
                    self.reap_if_quiet(comm);
                }
            }
            None => self.stray(Stray::Completion),
        }
    }

    /// CONN, `CONN_RESP`, CLOSE.
    #[cold]
    fn finish_own(&mut self, named: Named, lane: Lane, result: Result<(), Cause>) -> Option<Key> {
        let key = named.owner;
        let comm = self.comms.get_mut(key)?;
        // Only the one that is due: a repeated completion of another is a stray.
        comm.own_flying.take_if(|op| *op == named.op)?;
        comm.flying -= 1;
        comm.moved = true;
        if let Err(cause) = result {
            self.fail(
                key,
                None,
                Why::Operation {
                    op: named.op,
                    lane,
                    cause,
                },
            );
            return Some(key);
        }
        if named.op == OpKind::ConnResp && comm.step(CommInput::AnswerSent) {
            let (local_id, remote_id) = (comm.local_id, comm.remote_id);
            match comm.refusal {
                None => self.event(Event::Connected {
                    comm: CommKey(key),
                    local_id,
                    remote_id,
                }),
                Some((what, ours, theirs)) => {
                    self.fail(key, None, Why::Mismatch { what, ours, theirs });
                }
            }
        }
        Some(key)
    }

    /// `None`: for nothing. Else the communicator, if it is one that drains.
    #[inline]
    fn finish_of_request(
        &mut self,
        named: Named,
        lane: Lane,
        result: Result<(), Cause>,
    ) -> Option<Option<Key>> {
        let request = self.requests.get_mut(named.owner)?;
        let bit = lane.bit();
        if request.flying & bit == 0 {
            return None;
        }
        request.flying &= !bit;
        let (key, seq) = (request.comm, request.seq);
        if named.op == OpKind::EagerCopy {
            self.released.extend(request.rx.take());
        }
        let comm = self.comms.get_mut(key)?;
        comm.flying -= 1;
        comm.moved = true;
        let seq = request.kind.in_window().then_some(seq);
        match result {
            Ok(()) => {
                comm.ctrls += u64::from(named.op == OpKind::Ctrl);
                // What is closed or has failed drains: the rare case.
                let healthy = comm.takes_messages();
                if healthy {
                    request.count();
                    return Some(None);
                }
            }
            Err(cause) => self.fail(
                key,
                seq,
                Why::Operation {
                    op: named.op,
                    lane,
                    cause,
                },
            ),
        }
        self.drop_orphan(named.owner);
        Some(Some(key))
    }

    /// One of the completions a request needs.
    #[inline]
    pub(super) fn count_one(&mut self, key: Key) {
        if let Some(request) = self.requests.get_mut(key) {
            request.count();
        }
    }

    /// `test` takes a finished request: frees its place in the window, and the gate for eager sends.
    pub(super) fn retire(&mut self, key: Key) -> Done {
        let Some(request) = self.requests.get_mut(key) else {
            return Done::default();
        };
        let (kind, seq, bytes) = (request.kind, request.seq, u64::from(request.bytes));
        let rails = Rails::from_bits(request.used);
        request.step(ReqInput::Take);
        if let Some(comm) = self.comms.get_mut(request.comm) {
            match kind {
                request::Kind::Flush => comm.flushes_out -= 1,
                request::Kind::Send => comm.writes_out -= 1,
                request::Kind::Put | request::Kind::Get => comm.one_sided_out -= 1,
                request::Kind::EagerSend | request::Kind::Recv => {}
            }
            if kind.in_window() {
                comm.window.finish(seq);
                if comm.kind == CommKind::Send {
                    self.counters.bytes_sent += bytes;
                } else {
                    self.counters.bytes_received += bytes;
                }
            }
        }
        self.drop_request(key);
        Done { bytes, rails }
    }
}
