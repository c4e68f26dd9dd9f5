//! Completions of our own operations: count, finish, fail, drain.

use ofi_pools::Key;
use ofi_sched::Policy;

use super::Done;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{OpKind, Why};
use crate::event::{Event, Stray};
use crate::key::{CommKey, Named};
use crate::port::{Cause, Lane, Rails, Token};
use crate::request::Kind;
use crate::state::{CommInput, ReqInput, ReqState};

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// An accepted operation completed.
    #[inline]
    pub fn on_local(&mut self, token: Token) {
        if !self.finished_well(token) {
            self.finish_closely(token, Ok(()));
        }
    }

    /// An accepted operation failed (an error entry of the completion queue, flushed ones too).
    #[cold]
    pub fn on_failed(&mut self, token: Token, cause: Cause) {
        self.finish_closely(token, Err(cause));
    }

    /// As [`Engine::on_local`] or [`Engine::on_failed`].
    #[inline]
    pub(super) fn finish_op(&mut self, token: Token, result: Result<(), Cause>) {
        match result {
            Ok(()) => self.on_local(token),
            Err(cause) => self.on_failed(token, cause),
        }
    }

    /// The way of nearly all completions: an operation of a request whose communicator is well. False,
    /// and nothing was changed, for any other.
    #[inline]
    fn finished_well(&mut self, token: Token) -> bool {
        let Some(named) = Named::of(token) else {
            return false;
        };
        // The owner of these is no request.
        if named.op.is_own() {
            return false;
        }
        let Some(request) = self.requests.get_mut(named.owner) else {
            return false;
        };
        let Some(comm) = self.comms.get_mut(request.comm) else {
            return false;
        };
        let bit = named.lane().bit();
        if request.flying & bit == 0 || !comm.takes_messages() {
            return false;
        }
        request.flying &= !bit;
        comm.landed();
        match named.op {
            OpKind::Ctrl => comm.ctrls = comm.ctrls.wrapping_add(1),
            OpKind::EagerCopy => self.released.extend(request.rx.take()),
            _ => {}
        }
        request.count();
        self.news();
        true
    }

    #[cold]
    fn finish_closely(&mut self, token: Token, result: Result<(), Cause>) {
        let Some(named) = Named::of(token) else {
            return self.stray(Stray::Completion);
        };
        let lane = named.lane();
        let finished = if named.op.is_own() {
            self.finish_own(named, lane, result)
        } else {
            self.finish_of_request(named, lane, result)
        };
        match finished {
            Some(comm) => {
                self.news();
                self.reap_if_quiet(comm);
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
        comm.landed();
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
            let peer = comm.peer_address();
            match comm.refusal {
                None => self.event(Event::Connected {
                    comm: CommKey(key),
                    local_id,
                    remote_id,
                    peer,
                }),
                Some((what, ours, theirs)) => {
                    self.fail(key, None, Why::Mismatch { what, ours, theirs });
                }
            }
        }
        Some(key)
    }

    /// An operation that failed, or of a communicator that failed or was closed; which one, or `None` when
    /// there was no such operation.
    fn finish_of_request(
        &mut self,
        named: Named,
        lane: Lane,
        result: Result<(), Cause>,
    ) -> Option<Key> {
        let request = self.requests.get_mut(named.owner)?;
        let bit = lane.bit();
        if request.flying & bit == 0 {
            return None;
        }
        request.flying &= !bit;
        let key = request.comm;
        if named.op == OpKind::EagerCopy {
            self.released.extend(request.rx.take());
        }
        let comm = self.comms.get_mut(key)?;
        comm.landed();
        match result {
            Ok(()) => comm.ctrls += u64::from(named.op == OpKind::Ctrl),
            Err(cause) => {
                let op = named.op;
                self.fail_of(key, Some(named.owner), Why::Operation { op, lane, cause });
            }
        }
        self.drop_orphan(named.owner);
        Some(key)
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
        let Some(request) = self.requests.remove(key) else {
            return Done::default();
        };
        debug_assert_eq!(request.state().next(ReqInput::Take), Some(ReqState::Gone));
        self.unrefer(request.region);
        let (seq, bytes) = (request.seq, u64::from(request.bytes));
        let done = Done {
            bytes,
            rails: Rails::from_bits(request.used),
        };
        let Some(comm) = self.comms.get_mut(request.comm) else {
            return done;
        };
        // One less of what this one was one of.
        match request.kind {
            Kind::Send | Kind::EagerSend => {
                let writes = u16::from(request.kind == Kind::Send);
                comm.writes_out = comm.writes_out.wrapping_sub(writes);
                comm.window.finish(seq);
                comm.bytes.add(bytes);
            }
            Kind::Recv => {
                comm.window.finish(seq);
                comm.bytes.add(bytes);
            }
            Kind::Flush => comm.flushes_out -= 1,
            Kind::Put | Kind::Get => comm.one_sided_out -= 1,
        }
        done
    }
}
