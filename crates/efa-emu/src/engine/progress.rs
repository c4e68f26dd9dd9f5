//! Which operations go now.
//!
//! They go in the order of `due`, which the plan makes differ from the order of posting: an operation
//! that may be overtaken waits until the others have been posted, or until nothing else goes.

use core::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};

use super::address::Address;
use super::endpoint::{Bound, Ep};
use super::exec::Went;
use super::op::{Kind, Line, Op};
use super::queue::{Completion, failure};
use crate::mem::events::Happened;
use crate::plan::{Code, OpFault};

/// Operations that one call lets go.
const BATCH: usize = 16;
/// Bytes that one call moves, about.
const BATCH_BYTES: u64 = 1 << 20;

/// Of messages that wait at their receivers, so many are looked at for each that is taken in hand ..
const LOOK_EVERY: u64 = 16;
/// .. and after so long it is the turn of others, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Whether a message that ended like this will never be at its target.
fn never_comes(op: &Op, went: Went) -> bool {
    let executed = matches!(op.course.fault, OpFault::Error { executed: true, .. });
    match went {
        Went::Lost | Went::Failed(Code::RECEIVER_NOT_READY) => true,
        Went::Failed(_) => matches!(op.course.fault, OpFault::Error { .. }) && !executed,
        Went::Done | Went::Waits => false,
    }
}

impl Ep {
    /// Lets operations go that can. Nothing if another thread is at it.
    pub(crate) fn progress(&self) {
        if self.is_broken() {
            self.end_broken();
        } else if self.pending.load(Ordering::Relaxed) > 0 {
            self.contained(Self::advance);
        }
    }

    fn advance(&self) {
        let mut line = match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(bound) = self.bound() else {
            return;
        };
        match self.domain.nic.silence() {
            // The process hangs: nothing leaves it.
            Some(None) => return,
            Some(Some(code)) => self.fail_all(bound, &mut line, code),
            None => self.run(bound, &mut line),
        }
        self.pending.store(line.pending(), Ordering::Release);
    }

    fn run(&self, bound: &Bound, line: &mut Line) {
        let now = self.domain.process.now_ns();
        self.run_parked(bound, line, now);
        let (mut gone, mut bytes, mut index) = (0, 0_u64, 0);
        // Peers to whom an earlier send waits.
        let mut behind: Vec<Address> = Vec::new();
        let posted = line.posted();
        while let Some(op) = line.get_mut(index) {
            let may_be_overtaken = op.course.due > posted && gone > 0;
            if may_be_overtaken || gone == BATCH || bytes >= BATCH_BYTES {
                break;
            }
            if !bound.tx.has_room() {
                let stats = self.domain.nic.stats(self.domain.process);
                stats.overruns.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let (target, len) = (op.target.address, op.len);
            let ordered = self.limits.ordered && op.kind == Kind::Send;
            let waits = op.more
                || op.course.not_before > now
                || (op.course.due > posted && op.course.held_until > now)
                || (ordered && behind.contains(&target));
            let went = if waits {
                Went::Waits
            } else {
                self.attempt(line, index, ordered, now)
            };
            if went == Went::Waits {
                if line.get_mut(index).is_some_and(|op| op.is_parked()) {
                    line.park(index);
                    continue;
                }
                if ordered {
                    behind.push(target);
                }
                index += 1;
                continue;
            }
            bytes = bytes.saturating_add(len);
            gone += 1;
            if let Some(op) = line.remove(index) {
                self.over(bound, line, op, went, now);
            }
        }
    }

    /// Lets messages go that waited at their receivers and have their receives now.
    fn run_parked(&self, bound: &Bound, line: &mut Line, now: u64) {
        let (mut gone, mut index) = (0, 0);
        let turn = now / LOOK_NS;
        while gone < BATCH && bound.tx.has_room() {
            let Some(op) = line.parked().get_mut(index) else {
                return;
            };
            // Most are looked at only: whether their peers live is asked in turn.
            let is_asked = (turn + index as u64) % LOOK_EVERY == 0;
            let stays =
                op.course.not_before > now || (op.still_waits(self.domain.process) && !is_asked);
            let went = if stays {
                Went::Waits
            } else {
                self.execute(op, now)
            };
            if went == Went::Waits {
                index += 1;
                continue;
            }
            gone += 1;
            let op = line.parked().remove(index);
            self.over(bound, line, op, went, now);
        }
    }

    /// An operation left the line.
    fn over(&self, bound: &Bound, line: &mut Line, mut op: Op, went: Went, now: u64) {
        if line.goes(&op) {
            let stats = self.domain.nic.stats(self.domain.process);
            stats.reordered.fetch_add(1, Ordering::Relaxed);
        }
        self.give_up(&mut op);
        self.ended(bound, &op, went, now);
    }

    /// Lets an operation go whose turn it is.
    fn attempt(&self, line: &mut Line, index: usize, ordered: bool, now: u64) -> Went {
        let Some(op) = line.get_mut(index) else {
            return Went::Waits;
        };
        if !ordered {
            return self.execute(op, now);
        }
        let target = op.target.address;
        if line.has_hole(&target) {
            // Acknowledged, and kept for good by a receiver that waits for another one first.
            return Went::Done;
        }
        let Some(op) = line.get_mut(index) else {
            return Went::Waits;
        };
        let went = self.execute(op, now);
        if never_comes(op, went) {
            line.leave_hole(target);
        }
        went
    }

    fn fail_all(&self, bound: &Bound, line: &mut Line, code: Code) {
        let ops: Vec<Op> = line.drain().collect();
        for mut op in ops {
            self.give_up(&mut op);
            self.complete_failed(bound, &op, code);
        }
    }

    fn ended(&self, bound: &Bound, op: &Op, went: Went, now: u64) {
        let stats = self.domain.nic.stats(self.domain.process);
        match went {
            Went::Waits => {}
            Went::Lost => {
                stats.pending.fetch_sub(1, Ordering::Relaxed);
            }
            Went::Failed(code) => self.complete_failed(bound, op, code),
            Went::Done => {
                stats.pending.fetch_sub(1, Ordering::Relaxed);
                let counter = match (op.kind, op.data) {
                    (Kind::Send, _) => &stats.sends,
                    (Kind::Read, _) => &stats.reads,
                    (Kind::Write, None) => &stats.writes,
                    (Kind::Write, Some(_)) => &stats.writes_data,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                let bytes = match op.kind {
                    Kind::Read => &stats.bytes_in,
                    Kind::Send | Kind::Write => &stats.bytes_out,
                };
                bytes.fetch_add(op.len, Ordering::Relaxed);
                self.complete_well(bound, op, now);
            }
        }
    }

    fn complete_well(&self, bound: &Bound, op: &Op, now: u64) {
        if !op.report {
            return;
        }
        let completion = Completion {
            happened: Happened {
                flags: op.flags,
                context: op.context,
                len: op.len,
                tag: op.tag.unwrap_or(0),
                ..Happened::default()
            },
            vector: None,
        };
        let late = op.course.late_ns;
        let show_at = (late > 0).then(|| now.saturating_add(late));
        if op.course.fault == OpFault::DuplicateLocal {
            let stats = self.domain.nic.stats(self.domain.process);
            stats.duplicates.fetch_add(1, Ordering::Relaxed);
            bound.tx.push(completion.clone(), show_at);
        }
        bound.tx.push(completion, show_at);
    }

    /// Errors are told whatever was asked for.
    pub(super) fn complete_failed(&self, bound: &Bound, op: &Op, code: Code) {
        let stats = self.domain.nic.stats(self.domain.process);
        stats.pending.fetch_sub(1, Ordering::Relaxed);
        let happened = Happened {
            flags: op.flags,
            context: op.context,
            tag: op.tag.unwrap_or(0),
            source: op.target.address.to_source(),
            error: failure(code),
            ..Happened::default()
        };
        let vector = Some(Arc::clone(&bound.vector));
        bound.tx.push(Completion { happened, vector }, None);
    }
}
