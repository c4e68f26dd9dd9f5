//! What goes wrong, and when: from one seed and a small script.
//!
//! Pure: no clock, no I/O, no environment. The provider asks a [`NicPlan`] before each thing it
//! does, and obeys. The same plan, seed, process name, NIC and ordinal give the same answer,
//! however threads and processes take turns.
//!
//! # The language
//!
#![doc = "```text"]
#![doc = include_str!("rules.txt")]
#![doc = "```"]

mod code;
mod draw;
mod error;
mod manual;
mod nic;
mod parse;
mod rule;
mod units;
mod verb;
mod verdict;

#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

pub use code::Code;
pub use error::PlanError;
pub use manual::manual;
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

    /// The plan's state for the NIC of number `nic`, in the process of this name, if it uses no other one.
    #[must_use]
    pub fn nic(&self, seed: u64, process: &str, nic: usize) -> NicPlan {
        self.of_nics(seed, process)(nic)
    }

    /// The same for each of so many NICs, which count together what is said to be counted `per=process`.
    ///
    /// ```
    /// use efa_emu_fi::plan::{OpKind, Plan, PostVerdict};
    ///
    /// let plan = Plan::parse("refuse at=2 errno=EIO per=process").unwrap();
    /// let mut nics = plan.nics(7, "rank 0", 2);
    /// assert!(matches!(nics[1].on_post(OpKind::Write, 8), PostVerdict::Accept(_)));
    /// assert_eq!(nics[0].on_post(OpKind::Write, 8), PostVerdict::Fail { errno: 5 });
    /// ```
    #[must_use]
    pub fn nics(&self, seed: u64, process: &str, count: usize) -> Vec<NicPlan> {
        (0..count).map(self.of_nics(seed, process)).collect()
    }

    fn of_nics(&self, seed: u64, process: &str) -> impl Fn(usize) -> NicPlan {
        let unwritten = self.rules.len() - self.written().count();
        let together = |rule| (rule, Arc::<AtomicU64>::default());
        let rules: Vec<_> = self.rules.iter().map(together).collect();
        move |nic| NicPlan::new((&rules, unwritten), seed, process, nic)
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
