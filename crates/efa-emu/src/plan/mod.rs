//! What goes wrong, and when: from one seed and a small script.
//!
//! Pure: no clock, no I/O, no environment. The provider asks a [`NicPlan`] before each thing it
//! does, and obeys. The same plan, seed, process name, NIC and ordinal give the same answer,
//! however threads and processes take turns.
//!
//! # The language
//!
//! One rule a line, or several with `;` between; `#` starts a comment. A rule is a verb and words
//! `name=value` in any order:
//!
//! ```text
//! reorder window=16 for=20us                       # up to 16 later posts overtake one, which waits so long for them
//! delay on=write,send uniform=5us..200us nic=0     # also fixed=10us, exp=50us max=2ms; delays add up
//! speed nic=3 rate=10Gbps                          # a slow NIC; the last rule counts
//! eagain on=write chance=1% burst=8                # the post is refused 8 times, then taken; burst=forever
//! refuse on=send at=7 errno=EINVAL                 # the call fails
//! error on=imm at=100 code=bad-rkey lands=yes      # completes with err 22, prov_errno 7, though the bytes arrive
//! lose on=send at=3                                # neither arrives nor completes
//! duplicate on=imm chance=0.1% side=remote         # completes twice, at the target; side=local: for who posted
//! late on=write chance=1% by=10ms side=local       # the completion shows late
//! rnr chance=5% tries=4                            # sends find the receiver not ready; tries=forever
//! nic-lost nic=2 at=1000 code=flushed refuse=EIO   # from its 1000th post on the NIC is gone
//! die process=1 at=1000                            # the process kills itself at its 1000th post
//! mute process=1 at=1000                           # the process hangs: nothing leaves it, nobody gets an answer
//! stop-polling process=1 at=1000 polls=100000      # reads of its queues find nothing and make no progress
//! empty chance=30%                                 # reads of the queues find nothing, entries stay
//! readerr busy=3                                   # the read of an error entry says EAGAIN three times
//! revoke at=3 after=20                             # the key of the third region is bad after 20 uses by peers
//! mr-limit count=100 bytes=64M pages=4096 errno=ENOMEM
//! mr-error at=5 errno=EINVAL                       # the fifth registration fails
//! ```
//!
//! * Every rule takes `nic=0,4-7` and `process=0,3` (names of processes, which are their ranks).
//! * Where a rule strikes some of the operations: `at=5,9` (ordinals from 1), `every=100`,
//!   `from=10`, `to=20`, `chance=1%`; all that are given have to hold, none means each. What can never
//!   hold is an error, and so is a NIC that there is not. `nic-lost`,
//!   `die`, `mute` and `stop-polling` need one `at=`.
//! * `on=` names kinds of operation: `send`, `recv` (the posting of a receive), `read`, `write`,
//!   `imm` (writes with data, which `write` covers too), `any`. Without it a rule is about all but
//!   receives; `size=4K..1M` (or `4K..`, `..1M`) leaves out smaller and larger ones, of `revoke` and
//!   `mr-error` those registrations. What is about the way of the bytes (`delay`, `lose`, `duplicate`, `late`) is not for
//!   receives.
//! * A rule counts by itself, for each NIC of each process: the operations it is about, of
//!   `readerr` the error entries, of `empty` the reads, of `revoke` and `mr-error` the
//!   registrations. A post refused with EAGAIN counts once, when it is taken.
//! * Of several faults that strike one operation the first in the plan counts, but `die` always.
//! * Without a `reorder` rule operations overtake within a window of 8, and none waits for it; with
//!   `window=0` all go in order.
//! * Codes: [`Code::NAMED`], or numbers such as `code=22/7`.

mod code;
mod draw;
mod error;
mod nic;
mod parse;
mod rule;
mod units;
mod verdict;

#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;

pub use code::Code;
pub use error::PlanError;
pub use nic::NicPlan;
pub use rule::OpKind;
use rule::{Action, Rule};
pub use verdict::{
    OpFault, PollVerdict, PostVerdict, RegVerdict, Registered, Registration, Schedule,
};

/// A plan of faults. The default one only lets operations overtake each other, as EFA does.
///
/// ```
/// use efa_emu_fi::plan::{OpKind, Plan, PostVerdict};
///
/// let plan = Plan::parse("eagain on=write at=2 burst=1").unwrap();
/// let mut nic = plan.nic(7, "rank 0", 0);
/// assert!(matches!(nic.on_post(OpKind::Write, 8), PostVerdict::Accept(_)));
/// assert_eq!(nic.on_post(OpKind::Write, 8), PostVerdict::Again);
/// assert!(matches!(nic.on_post(OpKind::Write, 8), PostVerdict::Accept(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    rules: Vec<Rule>,
    /// The script, a rule a line.
    text: String,
}

/// How many later posts may overtake one where the plan does not say.
pub const DEFAULT_WINDOW: u32 = 8;

impl Plan {
    /// Reads a plan; the language is described in the documentation of this module.
    ///
    /// # Errors
    /// [`PlanError`] for the first word that makes no sense; nothing of the plan is used then.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        // As editors of other systems begin a file.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rules = parse::rules(text)?;
        let default = parse::rules(&format!("reorder window={DEFAULT_WINDOW} for=0ns"))?;
        let reorders = |rule: &Rule| matches!(rule.action, Action::Reorder { .. });
        // In front, so that a rule about some NICs leaves it to the others.
        let is_everywhere = |rule: &Rule| rule.scope == rule::Scope::default();
        if !rules
            .iter()
            .any(|rule| reorders(rule) && is_everywhere(rule))
        {
            rules.splice(0..0, default);
        }
        Ok(Self {
            rules,
            text: parse::canonical(text),
        })
    }

    /// The rules as they are written, in their order.
    pub fn written(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.lines()
    }

    /// Those of them that are counted when they strike, with their numbers: all but `reorder window=0`,
    /// which only keeps others from it.
    pub fn counted(&self) -> impl Iterator<Item = (usize, &str)> {
        let unwritten = self.rules.len() - self.written().count();
        let rules = self.rules.iter().skip(unwritten);
        let numbered = rules.zip(self.written()).enumerate();
        let keeps = |rule: &Rule| matches!(rule.action, Action::Reorder { window: 0, .. });
        numbered.filter_map(move |(i, (rule, text))| (!keeps(rule)).then_some((i, text)))
    }

    /// Whether each NIC that a rule names is one of so many.
    ///
    /// # Errors
    /// The rule and the NIC, in a text: such a rule would never strike.
    pub fn check_nics(&self, nics: usize) -> Result<(), String> {
        // What is not written stands in front.
        for (rule, text) in self.rules.iter().rev().zip(self.written().rev()) {
            if let Some(nic) = rule.scope.stranger(nics) {
                return Err(format!(
                    "plan: \"{text}\": there is no NIC {nic}, they are 0 to {}",
                    nics.saturating_sub(1)
                ));
            }
        }
        Ok(())
    }

    /// Whether a text starts as plans do, be it right or wrong further on: else it may be the name of
    /// a file.
    ///
    /// ```
    /// use efa_emu_fi::plan::Plan;
    ///
    /// assert!(Plan::starts_with_rule("lose; die when=now"));
    /// assert!(!Plan::starts_with_rule("lose.plan"));
    /// ```
    #[must_use]
    pub fn starts_with_rule(text: &str) -> bool {
        parse::starts_with_rule(text)
    }

    /// The plan's state for the NIC of number `nic`, in the process of this name.
    #[must_use]
    pub fn nic(&self, seed: u64, process: &str, nic: usize) -> NicPlan {
        let unwritten = self.rules.len() - self.written().count();
        NicPlan::new((&self.rules, unwritten), seed, process, nic)
    }
}

impl Default for Plan {
    fn default() -> Self {
        // The text is one that can be read: there is a test.
        Self::parse("").unwrap_or(Self {
            rules: Vec::new(),
            text: String::new(),
        })
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        Self::parse(text)
    }
}

/// The rules as they were written, one a line, without comments.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
