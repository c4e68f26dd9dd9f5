//! What a plan can ask for, as types. [`super::parse`] makes them of text.

use super::code::Code;
use super::units;

/// A kind of operation, as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A send, with or without data in the completion.
    Send,
    /// A receive that is posted.
    Recv,
    /// A read.
    Read,
    /// A write that the target does not see.
    Write,
    /// A write with immediate data.
    WriteData,
}

/// Some kinds of operation, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ops(u8);

impl Ops {
    /// The words of `on=`.
    pub(super) const NAMED: [(&'static str, Self); 6] = [
        ("send", Self(1)),
        ("recv", Self(2)),
        ("write", Self(4 | 8)),
        ("imm", Self(8)),
        ("read", Self(16)),
        ("any", Self(31)),
    ];
    /// What a rule is about that does not say: all but receives.
    pub(super) const OUTGOING: Self = Self(1 | 4 | 8 | 16);
    pub(super) const SENDS: Self = Self(1);

    /// Reads words separated by commas.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let one = |word: &str| Self::NAMED.iter().find(|(name, _)| *name == word);
        let bits = text
            .split(',')
            .try_fold(0, |bits, word| Some(bits | one(word)?.1.0))?;
        Some(Self(bits))
    }

    pub(super) const fn has(self, op: OpKind) -> bool {
        let bit = match op {
            OpKind::Send => 1,
            OpKind::Recv => 2,
            OpKind::Write => 4,
            OpKind::WriteData => 8,
            OpKind::Read => 16,
        };
        self.0 & bit != 0
    }
}

/// The smallest and the largest operation that a rule is about, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) u64, pub(super) u64);

impl Sizes {
    pub(super) const ALL: Self = Self(0, u64::MAX);

    /// Reads `4K..1M`, where either end may be left out.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once("..")?;
        let end = |text, all| match text {
            "" => Some(all),
            text => units::bytes(text),
        };
        let (low, high) = (end(low, 0)?, end(high, u64::MAX)?);
        (low <= high).then_some(Self(low, high))
    }

    pub(super) const fn has(self, len: u64) -> bool {
        self.0 <= len && len <= self.1
    }
}

/// Whose operations have ordinals together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    /// Those of each NIC.
    Nic,
    /// Those of all NICs of the rule, in a process.
    Process,
}

impl Per {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "nic" => Some(Self::Nic),
            "process" => Some(Self::Process),
            _ => None,
        }
    }
}

/// Which of the operations of a rule it strikes, by their ordinals from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct When {
    /// These; empty for no such limit.
    pub(super) at: Vec<u64>,
    /// Each that is a multiple.
    pub(super) every: u64,
    /// From this one on.
    pub(super) from: u64,
    /// Up to this one.
    pub(super) to: u64,
    /// And of those, so many in a million.
    pub(super) chance_ppm: u32,
    pub(super) per: Per,
}

impl When {
    pub(super) const ALWAYS: Self = Self {
        at: Vec::new(),
        every: 1,
        from: 1,
        to: u64::MAX,
        chance_ppm: 1_000_000,
        per: Per::Nic,
    };

    /// Whether it strikes none, whatever is drawn.
    pub(super) fn is_never(&self) -> bool {
        if !self.at.is_empty() {
            return !self.at.iter().any(|n| self.hits(*n, |_| true));
        }
        let first = self.from.checked_next_multiple_of(self.every);
        first.is_none_or(|first| first > self.to)
    }

    /// Whether a draw decides; `chance` is asked only if it does.
    pub(super) fn hits(&self, n: u64, chance: impl FnOnce(u32) -> bool) -> bool {
        let listed = self.at.is_empty() || self.at.contains(&n);
        let in_range = (self.from..=self.to).contains(&n);
        let hit = listed && in_range && n % self.every == 0;
        hit && (self.chance_ppm == 1_000_000 || chance(self.chance_ppm))
    }
}

/// Which NICs and processes a rule is about; empty lists are all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// First and last, both included.
    pub(super) nics: Vec<(u32, u32)>,
    /// Names; a process is named after its rank.
    pub(super) processes: Vec<String>,
}

impl Scope {
    /// A NIC that it names and that is none of so many; the first of a range.
    pub(super) fn stranger(&self, nics: usize) -> Option<u32> {
        let mut named = self.nics.iter().map(|(first, _)| *first);
        named.find(|first| usize::try_from(*first).is_ok_and(|first| first >= nics))
    }

    pub(super) fn has(&self, nic: usize, process: &str) -> bool {
        let covers =
            |(low, high): &(u32, u32)| u32::try_from(nic).is_ok_and(|n| *low <= n && n <= *high);
        let nics = self.nics.is_empty() || self.nics.iter().any(covers);
        nics && (self.processes.is_empty() || self.processes.iter().any(|name| name == process))
    }
}

/// How long operations take beyond what they take anyway, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    Fixed(u64),
    Uniform { low: u64, high: u64 },
    Exponential { mean: u64, max: u64 },
}

/// Which of the two completions of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Local,
    Remote,
}

/// What registration is limited to; `u64::MAX` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) pages: u64,
    pub(super) errno: i32,
}

/// What a rule does to the operations, calls or regions it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// 0: in order. Each waits so long for those that may overtake it.
    Reorder {
        window: u32,
        for_ns: u64,
    },
    Delay(Delay),
    Speed {
        bits_per_second: u64,
    },
    /// `burst` attempts are answered EAGAIN before one is taken.
    Eagain {
        burst: u64,
    },
    /// The call that posts it fails.
    Refuse {
        errno: i32,
    },
    Error {
        code: Code,
        lands: bool,
    },
    Lose,
    Duplicate(Side),
    Late {
        side: Side,
        by_ns: u64,
    },
    /// `u32::MAX` tries: never ready.
    Rnr {
        tries: u32,
    },
    NicLost {
        code: Code,
        refuse: i32,
    },
    Die,
    Mute,
    StopPolling {
        polls: u64,
    },
    Empty,
    /// So many calls of readerr say EAGAIN first.
    Readerr {
        busy: u64,
    },
    /// The key is bad after so many uses by peers.
    Revoke {
        after: u32,
    },
    MrLimit(Limits),
    MrError {
        errno: i32,
    },
}

/// One rule of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) scope: Scope,
    pub(super) on: Ops,
    pub(super) sizes: Sizes,
    pub(super) when: When,
    pub(super) action: Action,
}

#[cfg(test)]
mod tests {
    use super::{OpKind, Ops, Per, Scope, Sizes, When};

    #[test]
    fn sizes_may_be_open_at_either_end() {
        let sizes = Sizes::parse("4K..1M").unwrap();
        assert!(sizes.has(4096) && sizes.has(1 << 20));
        assert!(!sizes.has(4095) && !sizes.has((1 << 20) + 1));
        assert_eq!(Sizes::parse("..7"), Some(Sizes(0, 7)));
        assert_eq!(Sizes::parse("7.."), Some(Sizes(7, u64::MAX)));
        for bad in ["", "7", "8..7", "x..", "1..2..3"] {
            assert_eq!(Sizes::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_write_with_data_is_a_write() {
        let write = Ops::parse("write").unwrap();
        assert!(
            write.has(OpKind::Write) && write.has(OpKind::WriteData) && !write.has(OpKind::Send)
        );
        let imm = Ops::parse("imm").unwrap();
        assert!(imm.has(OpKind::WriteData) && !imm.has(OpKind::Write));
        assert_eq!(Ops::parse("send,recv,read,write"), Ops::parse("any"));
        for bad in ["", "send,", "sent", "send, recv"] {
            assert_eq!(Ops::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn all_conditions_have_to_hold() {
        let hits = |when: &When| {
            (1..=20)
                .filter(|n| when.hits(*n, |_| true))
                .collect::<Vec<_>>()
        };
        let mut when = When::ALWAYS;
        when.every = 5;
        assert_eq!(hits(&when), [5, 10, 15, 20]);
        when.from = 6;
        when.to = 15;
        assert_eq!(hits(&when), [10, 15]);
        when.at = vec![1, 5, 15];
        assert_eq!(hits(&when), [15]);
        when.chance_ppm = 1;
        assert!(!when.hits(15, |_| false));
        assert!(!when.hits(14, |_| panic!("decided without a draw")));
    }

    #[test]
    fn what_can_never_be_is_known() {
        let never = |at: &[u64], every, from, to| {
            let (at, chance_ppm) = (at.to_vec(), 1);
            When {
                at,
                every,
                from,
                to,
                chance_ppm,
                per: Per::Nic,
            }
            .is_never()
        };
        assert!(!When::ALWAYS.is_never());
        assert!(never(&[], 1, 10, 9) && !never(&[], 1, 10, 10));
        assert!(never(&[], 100, 1, 99) && !never(&[], 100, 1, 100));
        assert!(never(&[5, 7], 1, 6, 6) && !never(&[5, 7], 7, 6, 9));
        assert!(never(&[], u64::MAX - 1, u64::MAX, u64::MAX));
        let scope = Scope {
            nics: vec![(0, 9), (4, 7)],
            processes: Vec::new(),
        };
        assert_eq!((scope.stranger(4), scope.stranger(5)), (Some(4), None));
    }

    #[test]
    fn a_scope_without_words_is_everything() {
        assert!(Scope::default().has(7, "9"));
        let scope = Scope {
            nics: vec![(0, 1), (4, 4)],
            processes: vec!["2".to_owned()],
        };
        assert!(scope.has(1, "2") && scope.has(4, "2"));
        assert!(!scope.has(2, "2") && !scope.has(1, "1"));
    }
}
