//! A plan at work on one NIC of one process.

use core::hash::{Hash as _, Hasher as _};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::DefaultHasher;
use std::sync::Arc;

use super::code::Code;
use super::draw::Stream;
use super::rule::{Action, Delay, OpKind, Per, Rule, Side};
use super::verdict::{
    OpFault, PollVerdict, PostVerdict, RegVerdict, Registered, Registration, Schedule,
};

/// The plan's state for one NIC in one process.
///
/// What it says of the n-th operation depends on the plan, the seed, the process's name, the NIC's
/// number and n; not on time, and not on what happens on other NICs (but for which of a process is the
/// n-th, where a rule says `per=process`) or in other processes. Calls
/// cost a few nanoseconds for each rule that is about the NIC, and allocate nothing.
#[derive(Clone, Debug)]
pub struct NicPlan {
    /// Rules about posts, in the plan's order.
    posts: Vec<Armed>,
    polls: Vec<Armed>,
    readerrs: Vec<Armed>,
    registers: Vec<Armed>,
    slow_bps: Option<u64>,
    lost: Option<Loss>,
    is_mute: bool,
    /// So many polls say [`PollVerdict::Stalled`]; `u64::MAX`: all.
    stalled_polls: u64,
    /// Number of the rule about the speed.
    slow_rule: Option<usize>,
    struck: Vec<usize>,
    /// What the rules said of posts, summed up; `None`: nobody asks.
    digest: Option<u64>,
}

/// A rule, with what it has seen.
#[derive(Clone, Debug)]
struct Armed {
    rule: Rule,
    /// Its number among those that are written.
    number: Option<usize>,
    stream: Stream,
    /// Operations, calls or regions it was about so far, on all NICs that count together.
    seen: Counter,
    /// The ordinal of the next one here, once it was looked at: it is the same when it is tried again.
    next: Option<u64>,
    /// The ordinal of the last one that was counted here.
    last: u64,
    /// Attempts that it refused since.
    refused: u64,
}

/// Gives ordinals, from 1.
#[derive(Clone, Debug)]
enum Counter {
    OfNic(u64),
    OfProcess(Arc<AtomicU64>),
}

impl Counter {
    fn next(&mut self) -> u64 {
        match self {
            Self::OfNic(seen) => {
                *seen += 1;
                *seen
            }
            Self::OfProcess(seen) => seen.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl Armed {
    /// Whether it strikes the next one.
    fn strikes_next(&mut self) -> bool {
        let n = *self.next.get_or_insert_with(|| self.seen.next());
        self.rule.when.hits(n, |ppm| self.stream.chance(2 * n, ppm))
    }

    /// Counts one on, and says whether it is struck.
    fn advance(&mut self) -> bool {
        let strikes = self.strikes_next();
        self.last = self.next.take().unwrap_or(self.last);
        self.refused = 0;
        strikes
    }

    /// Whether the next one is refused once more.
    fn refuses(&mut self) -> bool {
        let limit = match self.rule.action {
            Action::Eagain { burst } => burst,
            Action::Readerr { busy } => busy,
            _ => 0,
        };
        let refuses = self.refused < limit && self.strikes_next();
        self.refused += u64::from(refuses);
        refuses
    }

    /// A number for what it said of the last one counted, which is the same however the kinds of
    /// operations took turns, and how often any was refused.
    fn digest(&self, strikes: bool) -> u64 {
        let mut verdict = Verdict::default();
        if strikes {
            verdict.strike(self);
        }
        // Without keys of its own: the same in every process.
        let mut hasher = DefaultHasher::new();
        (self.stream, self.last, strikes).hash(&mut hasher);
        (verdict.schedule, verdict.refuse).hash(&mut hasher);
        hasher.finish()
    }

    /// Where the rule's own draw for the last one counted stands.
    const fn place(&self) -> u64 {
        2 * self.last + 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    code: Code,
    refuse: i32,
}

impl NicPlan {
    /// The rules that are about this NIC of this process, each with what counts the operations of all NICs
    /// together; the first so many are not written.
    pub(super) fn new(
        (rules, unwritten): (&[(&Rule, Arc<AtomicU64>)], usize),
        seed: u64,
        process: &str,
        nic: usize,
    ) -> Self {
        let mut plan = Self {
            posts: Vec::new(),
            polls: Vec::new(),
            readerrs: Vec::new(),
            registers: Vec::new(),
            slow_bps: None,
            lost: None,
            is_mute: false,
            stalled_polls: 0,
            slow_rule: None,
            struck: Vec::with_capacity(rules.len()),
            digest: None,
        };
        for (index, (rule, together)) in rules.iter().enumerate() {
            if rule.scope.has(nic, process) {
                // What is drawn for the n-th is the same on whichever NIC it is.
                let (whose, seen) = match rule.when.per {
                    Per::Nic => (as_u64(nic), Counter::OfNic(0)),
                    Per::Process => (u64::MAX, Counter::OfProcess(Arc::clone(together))),
                };
                let stream = Stream::named([seed, name_hash(process), whose, as_u64(index)]);
                plan.arm(rule, index.checked_sub(unwritten), (stream, seen));
            }
        }
        plan
    }

    fn arm(&mut self, rule: &Rule, number: Option<usize>, (stream, seen): (Stream, Counter)) {
        let list = match rule.action {
            Action::Speed { bits_per_second } => {
                self.slow_bps = Some(bits_per_second);
                self.slow_rule = number;
                return;
            }
            Action::Reorder { .. } => {
                // The last one counts.
                let is_other = |armed: &Armed| !matches!(armed.rule.action, Action::Reorder { .. });
                self.posts.retain(is_other);
                if matches!(rule.action, Action::Reorder { window: 0, .. }) {
                    return;
                }
                &mut self.posts
            }
            Action::Empty => &mut self.polls,
            Action::Readerr { .. } => &mut self.readerrs,
            Action::MrLimit(_) | Action::MrError { .. } | Action::Revoke { .. } => {
                &mut self.registers
            }
            _ => &mut self.posts,
        };
        list.push(Armed {
            rule: rule.clone(),
            number,
            stream,
            seen,
            next: None,
            last: 0,
            refused: 0,
        });
    }

    /// What becomes of a post that is otherwise fine. A post that is refused with EAGAIN is the
    /// same operation when it is tried again. `len` is the length of its data in bytes.
    pub fn on_post(&mut self, kind: OpKind, len: u64) -> PostVerdict {
        self.struck.clear();
        if self.kills(kind, len) {
            return PostVerdict::Kill;
        }
        if let Some(loss) = self.lost {
            return PostVerdict::Fail { errno: loss.refuse };
        }
        let is_about = |armed: &&mut Armed| armed.rule.on.has(kind) && armed.rule.sizes.has(len);
        for armed in self.posts.iter_mut().filter(is_about) {
            if armed.refuses() {
                self.struck.extend(armed.number);
                return PostVerdict::Again;
            }
        }
        self.struck.extend(self.slow_rule);
        let mut verdict = Verdict::default();
        for armed in self.posts.iter_mut().filter(is_about) {
            let strikes = armed.advance();
            if let Some(digest) = &mut self.digest {
                *digest = digest.wrapping_add(armed.digest(strikes));
            }
            if strikes {
                verdict.strike(armed);
                // What it refused was counted then.
                let refused = matches!(armed.rule.action, Action::Eagain { .. });
                self.struck.extend(armed.number.filter(|_| !refused));
            }
        }
        self.lost = verdict.lost;
        self.is_mute |= verdict.mutes;
        self.stalled_polls = self.stalled_polls.max(verdict.stalled_polls);
        match verdict.refuse {
            Some(errno) => PostVerdict::Fail { errno },
            None => PostVerdict::Accept(verdict.schedule),
        }
    }

    /// Whether the process dies at a post: asked before any other rule, since none makes a difference to it.
    /// On a NIC that is lost nothing else counts posts any more.
    fn kills(&mut self, kind: OpKind, len: u64) -> bool {
        let is_lost = self.lost.is_some();
        let is_death = |armed: &&mut Armed| {
            let rule = &armed.rule;
            matches!(rule.action, Action::Die) && rule.on.has(kind) && rule.sizes.has(len)
        };
        let mut kills = false;
        for armed in self.posts.iter_mut().filter(is_death) {
            let strikes = if is_lost {
                armed.advance()
            } else {
                armed.strikes_next()
            };
            self.struck.extend(armed.number.filter(|_| strikes));
            kills |= strikes;
        }
        kills
    }

    /// From now on [`Self::digest`] is kept, which costs some 20 ns for each rule about a post.
    pub fn keep_digest(&mut self) {
        self.digest = Some(0);
    }

    /// One number for what each rule said of each of the operations that it counted, in any order: the
    /// same whenever each rule counted as many, under the same seed, name and number of the NIC. EAGAIN
    /// and the turns that kinds of operations take make no difference to it. 0 if it is not kept.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.unwrap_or(0)
    }

    /// What a read of a completion queue finds.
    pub fn on_poll(&mut self) -> PollVerdict {
        self.struck.clear();
        if self.stalled_polls > 0 {
            if self.stalled_polls != u64::MAX {
                self.stalled_polls -= 1;
            }
            return PollVerdict::Stalled;
        }
        // Every rule counts every poll.
        let mut is_empty = self.is_mute;
        for armed in &mut self.polls {
            if armed.advance() {
                self.struck.extend(armed.number);
                is_empty = true;
            }
        }
        if is_empty {
            PollVerdict::Empty
        } else {
            PollVerdict::Go
        }
    }

    /// Whether the read of an error entry says EAGAIN first; the entry stays.
    pub fn on_readerr(&mut self) -> bool {
        self.struck.clear();
        for armed in &mut self.readerrs {
            if armed.refuses() {
                self.struck.extend(armed.number);
                return true;
            }
        }
        for armed in &mut self.readerrs {
            armed.advance();
        }
        false
    }

    /// What becomes of a registration; `now` is what is registered on the NIC before it.
    pub fn on_register(&mut self, ask: Registration, now: Registered) -> RegVerdict {
        self.struck.clear();
        let mut fails = None;
        let mut revoke_after = None;
        let is_about = |armed: &&mut Armed| armed.rule.sizes.has(ask.len);
        for armed in self.registers.iter_mut().filter(is_about) {
            let mut strikes = armed.advance();
            match armed.rule.action {
                Action::MrError { errno } if strikes => fails = fails.or(Some(errno)),
                Action::Revoke { after } if strikes => {
                    revoke_after = revoke_after.or(Some(after));
                }
                Action::MrLimit(limits) => {
                    let over = |is: u64, more: u64, limit| is.saturating_add(more) > limit;
                    let is_over = over(now.count, 1, limits.count)
                        || over(now.bytes, ask.len, limits.bytes)
                        || over(now.pages, ask.pages, limits.pages);
                    fails = fails.or_else(|| is_over.then_some(limits.errno));
                    strikes = is_over;
                }
                _ => {}
            }
            self.struck.extend(armed.number.filter(|_| strikes));
        }
        match fails {
            Some(errno) => RegVerdict::Fail { errno },
            None => RegVerdict::Accept { revoke_after },
        }
    }

    /// Whether no rule can touch the NIC, now and later.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.posts.is_empty()
            && self.polls.is_empty()
            && self.readerrs.is_empty()
            && self.registers.is_empty()
            && self.slow_bps.is_none()
    }

    /// Which of the rules that are written, by their numbers from 0, struck at the last question.
    #[must_use]
    pub fn struck(&self) -> &[usize] {
        &self.struck
    }

    /// Whether the NIC has gone: what is pending ends with [`Self::loss`], peers that use it find
    /// it unresponsive, and posts are refused by [`Self::on_post`].
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// With what operations end that are pending when the NIC goes.
    #[must_use]
    pub fn loss(&self) -> Code {
        self.lost.map_or(Code::FLUSHED, |loss| loss.code)
    }

    /// Whether the NIC hangs: nothing leaves it any more, its queues stay empty, and peers find
    /// it unresponsive.
    #[must_use]
    pub const fn is_mute(&self) -> bool {
        self.is_mute
    }

    /// The speed of a NIC that is slower than its shape says, in bits per second.
    #[must_use]
    pub const fn slow_bps(&self) -> Option<u64> {
        self.slow_bps
    }
}

/// What the rules make of one operation together.
#[derive(Debug, Default)]
struct Verdict {
    schedule: Schedule,
    refuse: Option<i32>,
    lost: Option<Loss>,
    mutes: bool,
    stalled_polls: u64,
}

impl Verdict {
    fn strike(&mut self, armed: &Armed) {
        let plan = &mut self.schedule;
        match armed.rule.action {
            Action::Reorder { window, for_ns } => {
                let drawn = armed.stream.between(armed.place(), 0, u64::from(window));
                plan.hold = u32::try_from(drawn).unwrap_or(window);
                plan.hold_ns = if plan.hold > 0 { for_ns } else { 0 };
            }
            Action::Delay(delay) => {
                plan.delay_ns = plan.delay_ns.saturating_add(length(delay, armed));
            }
            Action::Late { side, by_ns } => {
                let late = match side {
                    Side::Local => &mut plan.late_ns,
                    Side::Remote => &mut plan.late_remote_ns,
                };
                *late = late.saturating_add(by_ns);
            }
            Action::Rnr { tries } => plan.rnr = plan.rnr.saturating_add(tries),
            Action::Refuse { errno } => self.refuse = self.refuse.or(Some(errno)),
            Action::Error { code, lands } => {
                let executed = lands;
                plan.add(OpFault::Error { code, executed });
            }
            Action::Lose => plan.add(OpFault::Lost),
            Action::Duplicate(Side::Local) => plan.add(OpFault::DuplicateLocal),
            Action::Duplicate(Side::Remote) => plan.add(OpFault::DuplicateRemote),
            Action::NicLost { code, refuse } => self.lost = Some(Loss { code, refuse }),
            Action::Mute => self.mutes = true,
            Action::StopPolling { polls } => self.stalled_polls = polls,
            // Not about posts, or dealt with before.
            Action::Die
            | Action::Eagain { .. }
            | Action::Speed { .. }
            | Action::Empty
            | Action::Readerr { .. }
            | Action::Revoke { .. }
            | Action::MrLimit(_)
            | Action::MrError { .. } => {}
        }
    }
}

impl Schedule {
    /// The first fault counts.
    fn add(&mut self, fault: OpFault) {
        if self.fault == OpFault::None {
            self.fault = fault;
        }
    }
}

fn length(delay: Delay, armed: &Armed) -> u64 {
    let (stream, place) = (armed.stream, armed.place());
    match delay {
        Delay::Fixed(ns) => ns,
        Delay::Uniform { low, high } => stream.between(place, low, high),
        Delay::Exponential { mean, max } => stream.exponential(place, mean).min(max),
    }
}

/// FNV-1a: the same on every machine and in every version of Rust.
fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

fn as_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
