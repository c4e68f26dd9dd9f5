//! Which operations go now.
//!
//! They go in the order of `due`, which the plan makes differ from the order of posting: an operation
//! that may be overtaken waits until the others have been posted, or until nothing else goes.

use core::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};

use super::address::Address;
use super::endpoint::{Bound, Ep};
use super::exec::Went;
use super::locked;
use super::op::{Kind, Line, Op};
use super::queue::{Completion, Place, failure};
use crate::mem::events::Happened;
use crate::mem::relay;
use crate::plan::{Code, OpFault};

/// Operations that one call lets go.
const BATCH: usize = 16;
/// Bytes that one call moves, about.
const BATCH_BYTES: u64 = 1 << 20;

/// Of messages that wait at their receivers, so many are looked at for each that is taken in hand ..
const LOOK_EVERY: usize = 16;
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
        } else if let Some(silence) = self.domain.nic.silence() {
            match silence {
                Some(code) => self.contained(|ep| ep.end_lost(code)),
                None => self.contained(Self::hang),
            }
        } else if self.pending.load(Ordering::Relaxed) > 0 {
            self.contained(Self::advance);
        }
    }

    /// On a NIC that hangs nothing goes, and nothing ends; what its operations have of shared memory is for
    /// those of others.
    fn hang(&self) {
        let Ok(mut line) = self.line.try_lock() else {
            return;
        };
        for op in line.all() {
            if let Some(peer) = &op.target.peer {
                let segment = peer.segment(self.domain.process);
                relay::abandon(segment, &mut op.state.under);
            }
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
        self.run(bound, &mut line);
        self.pending.store(line.pending(), Ordering::Release);
    }

    fn run(&self, bound: &Bound, line: &mut Line) {
        let now = self.domain.process.now_ns();
        self.run_parked(bound, line, now);
        let (mut gone, mut bytes, mut index) = (0, 0_u64, 0);
        // Peers to whom an earlier send waits, and since when they do not answer it.
        let mut behind: Vec<(Address, Option<u64>)> = Vec::new();
        let posted = line.posted();
        while let Some(op) = line.get_mut(index) {
            let may_be_overtaken = op.course.due > posted && gone > 0;
            if may_be_overtaken || gone == BATCH || bytes >= BATCH_BYTES {
                break;
            }
            let (target, len) = (op.target.address, op.len);
            let ordered = self.limits.ordered && op.kind == Kind::Send;
            let first = behind.iter().find(|(to, _)| ordered && *to == target);
            if let Some((_, Some(_))) = first {
                // They wait together: the last of many fails as soon as the first.
                op.state.dead_since.get_or_insert(now);
            }
            let ended = op.state.ended;
            let waits = op.more
                || op.course.not_before > now
                || (op.course.due > posted && op.course.held_until > now)
                || first.is_some();
            let went = match ended {
                Some(went) => went,
                None if waits => Went::Waits,
                None => self.attempt(line, index, ordered, now),
            };
            if went == Went::Waits {
                let dead_since = match line.get_mut(index) {
                    Some(op) if op.is_parked() => {
                        line.park(index);
                        continue;
                    }
                    op => op.and_then(|op| op.state.dead_since),
                };
                if ordered {
                    behind.push((target, dead_since));
                }
                index += 1;
                continue;
            }
            let Some(place) = line
                .get_mut(index)
                .and_then(|op| self.place(bound, op, went))
            else {
                break;
            };
            bytes = bytes.saturating_add(len);
            gone += 1;
            if let Some(op) = line.remove(index) {
                self.over((bound, place), line, op, went, now);
            }
        }
    }

    /// Lets messages go that waited at their receivers and have their receives now.
    fn run_parked(&self, bound: &Bound, line: &mut Line, now: u64) {
        let (mut gone, mut index) = (0, 0);
        let turn = line.turn(now, LOOK_NS);
        let each = line.parked().len().clamp(1, LOOK_EVERY);
        while gone < BATCH {
            let Some(op) = line.parked().get_mut(index) else {
                return;
            };
            // Most are looked at only: whether their peers live is asked in turn, by count, so that how
            // often this is called makes nobody wait for ever.
            let is_asked = turn.is_some_and(|turn| turn % each == index % each);
            let process = self.domain.process;
            let stays = op.course.not_before > now
                || (!is_asked && op.still_waits(process) && !op.is_unanswered(process));
            let went = match op.state.ended {
                Some(went) => went,
                None if stays => Went::Waits,
                None => self.execute(op, now),
            };
            if went == Went::Waits {
                index += 1;
                continue;
            }
            let Some(place) = self.place(bound, op, went) else {
                return;
            };
            gone += 1;
            let op = line.parked().remove(index);
            self.over((bound, place), line, op, went, now);
        }
    }

    /// Place for what an operation that is over tells. `None` while there is none: it is over all the same, and
    /// holds nothing at its target. Not taken before it goes: its target's queue may be the same one.
    fn place<'b>(&self, bound: &'b Bound, op: &mut Op, went: Went) -> Option<Option<Place<'b>>> {
        let tells = match went {
            Went::Failed(_) => true,
            Went::Done => op.report,
            Went::Lost | Went::Waits => false,
        };
        if !tells {
            return Some(None);
        }
        if let Some(place) = bound.tx.place() {
            return Some(Some(place));
        }
        op.state.ended = Some(went);
        self.give_up(op);
        let stats = self.domain.nic.stats(self.domain.process);
        stats.overruns.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// An operation left the line; what it tells has a place.
    fn over(
        &self,
        (bound, place): (&Bound, Option<Place<'_>>),
        line: &mut Line,
        mut op: Op,
        went: Went,
        now: u64,
    ) {
        if line.goes(&op) {
            let stats = self.domain.nic.stats(self.domain.process);
            stats.reordered.fetch_add(1, Ordering::Relaxed);
        }
        self.give_up(&mut op);
        self.ended((bound, place), &op, went, now);
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

    /// The NIC has gone: what is pending on it ends, receives too. Again whenever it is asked: a peer that was
    /// filling one may have given it back meanwhile.
    fn end_lost(&self, code: Code) {
        let Some(bound) = self.bound() else {
            return;
        };
        if self.pending.load(Ordering::Relaxed) > 0 {
            self.flush_operations(bound, code);
            self.pending.store(0, Ordering::Release);
        }
        if self.receives.load(Ordering::Relaxed) > 0 {
            // Who is posting one still was in time.
            let _one = locked(&self.receiving);
            let Some(_held) = self.shared().lock.acquire(self.domain.process.user()) else {
                return;
            };
            self.flush_posted(bound, code, |completion| bound.rx.push(completion, None));
        }
    }

    pub(super) fn ended(
        &self,
        (bound, place): (&Bound, Option<Place<'_>>),
        op: &Op,
        went: Went,
        now: u64,
    ) {
        let stats = self.domain.nic.stats(self.domain.process);
        match went {
            Went::Waits => {}
            Went::Lost => {
                stats.pending.fetch_sub(1, Ordering::Relaxed);
            }
            Went::Failed(code) => {
                stats.pending.fetch_sub(1, Ordering::Relaxed);
                self.show((bound, place), op, failed(bound, op, code), now);
            }
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
                self.complete_well((bound, place), op, now);
            }
        }
    }

    fn complete_well(&self, to: (&Bound, Option<Place<'_>>), op: &Op, now: u64) {
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
        self.show(to, op, completion, now);
    }

    /// Shows a completion, good or bad, as the plan wants it: late, or twice if the queue has another place.
    fn show(
        &self,
        (bound, place): (&Bound, Option<Place<'_>>),
        op: &Op,
        completion: Completion,
        now: u64,
    ) {
        let late = op.course.late_ns;
        let show_at = (late > 0).then(|| now.saturating_add(late));
        let twice = op.course.fault == OpFault::DuplicateLocal;
        let again = twice.then(|| Completion {
            happened: completion.happened.again(),
            vector: completion.vector.clone(),
        });
        match place {
            Some(place) => place.fill(completion, show_at),
            // It ends with its endpoint.
            None => bound.tx.push(completion, show_at),
        }
        if let Some((again, place)) = again.zip(bound.tx.place()) {
            let stats = self.domain.nic.stats(self.domain.process);
            stats.duplicates.fetch_add(1, Ordering::Relaxed);
            place.fill(again, show_at);
        }
    }

    /// Ends an operation with its endpoint or its NIC: at once, whatever the plan said of its completion.
    pub(super) fn complete_failed(&self, bound: &Bound, op: &Op, code: Code) {
        let stats = self.domain.nic.stats(self.domain.process);
        stats.pending.fetch_sub(1, Ordering::Relaxed);
        bound.tx.push(failed(bound, op, code), None);
    }
}

/// Errors are told whatever was asked for.
fn failed(bound: &Bound, op: &Op, code: Code) -> Completion {
    let happened = Happened {
        flags: op.flags,
        context: op.context,
        tag: op.tag.unwrap_or(0),
        source: op.target.address.to_source(),
        error: failure(code),
        ..Happened::default()
    };
    let vector = Some(Arc::clone(&bound.vector));
    Completion { happened, vector }
}
