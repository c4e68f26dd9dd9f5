//! Text to rules: strict, and every complaint names the line and the word.
//!
//! The grammar is in the documentation of [`super`]. A rule is a verb and `name=value` words in any
//! order; which names a verb takes stands in the function of that verb and nowhere else: a name
//! that nobody took is an error that lists those asked for.

use super::code::{self, Code};
use super::error::PlanError;
use super::rule::{Action, Delay, Limits, OpKind, Ops, Per, Rule, Scope, Side, Sizes, When};
use super::units;
use super::verb;

type Parsed<T> = Result<T, PlanError>;

/// All rules of a plan, in the order they are written in.
pub(super) fn rules(text: &str) -> Parsed<Vec<Rule>> {
    each_rule(text)
        .map(|(line, words)| Ok(rule(Words::read(line, &words)?)?.0))
        .collect()
}

/// A word that a rule takes.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) name: &'static str,
    /// What its value is.
    pub(super) help: String,
    pub(super) is_required: bool,
}

/// The words that a rule takes, by one that is right; none by one that is not.
pub(super) fn asked(example: &str) -> Vec<Asked> {
    let words: Vec<&str> = example.split_whitespace().collect();
    let read = Words::read(1, &words).and_then(rule);
    read.map_or_else(|_| Vec::new(), |(_, asked)| asked)
}

/// The same rules, one a line, with one blank between words and no comments.
pub(super) fn canonical(text: &str) -> String {
    let lines = each_rule(text).map(|(_, words)| words.join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether the first word of a text is one that starts a rule.
pub(super) fn starts_with_rule(text: &str) -> bool {
    let first = each_rule(text).next();
    first.is_some_and(|(_, words)| {
        (verb::VERBS.iter()).any(|verb| words.first() == Some(&verb.name))
    })
}

/// The words of each rule, with its line.
fn each_rule(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().zip(1..).flat_map(|(line, number)| {
        let code = line.split('#').next().unwrap_or_default();
        code.split(';').map(move |rule| (number, rule))
    });
    lines
        .map(|(line, rule)| (line, rule.split_whitespace().collect::<Vec<_>>()))
        .filter(|(_, words)| !words.is_empty())
}

/// The rule, and the words that it takes.
fn rule(mut words: Words<'_>) -> Parsed<(Rule, Vec<Asked>)> {
    let scope = words.scope()?;
    let (on, when, action) = match words.verb {
        "reorder" | "speed" | "mr-limit" => (Ops::OUTGOING, When::ALWAYS, words.of_the_nic()?),
        "delay" | "lose" | "duplicate" | "late" => {
            (words.outgoing()?, words.when()?, words.of_what_moves()?)
        }
        "rnr" => (Ops::SENDS, words.when()?, words.rnr()?),
        "eagain" | "refuse" | "error" => (words.on()?, words.when()?, words.of_operations()?),
        "nic-lost" | "die" | "mute" | "stop-polling" => {
            (words.on()?, words.once()?, words.event()?)
        }
        "empty" | "readerr" | "mr-error" | "revoke" => {
            (Ops::OUTGOING, words.when()?, words.of_calls()?)
        }
        unknown => {
            let help = format!("a rule starts with one of {}", verb::names());
            return Err(words.fault(unknown, "is no rule", &help));
        }
    };
    let sizes = words.sizes()?;
    let asked = words.finish()?;
    let rule = Rule {
        scope,
        on,
        sizes,
        when,
        action,
    };
    Ok((rule, asked))
}

/// How long an operation waits for those that may overtake it, unless a rule says.
const REORDER_NS: u64 = 20_000;

const COUNT: &str = "a number from 1 on, such as 100";
const COUNTS: &str = "numbers from 1 on, such as 5 or 5,9,100";
const COUNT_OR_NONE: &str = "a number from 0 on, such as 100";
const NAMES: &str = "names of processes, which are their ranks, such as 0,3";
const OUTGOING: &str = "some of send, write, imm, read, such as send,write";
const RANGES: &str = "numbers from 0 on and ranges of them, such as 0,4-7";
const ENDLESS: &str = "a number from 1 on, or forever";
const TIME: &str = "a time up to an hour in ns, us, ms or s, such as 50us";
const TIMES: &str = "two times, the smaller one first, such as 5us..200us";
const RATE: &str = "a speed in bps, Kbps, Mbps or Gbps, such as 10Gbps";
const SIZE: &str = "bytes, or K, M or G of them, such as 64M";
const SIZES: &str = "the smallest and the largest, such as 4K..1M, 4K.. or ..1M";
const PERCENT: &str = "0% to 100% with at most four decimals, such as 0.5%";
const OPS: &str = "any, or some of send, recv, write, imm, read, such as send,write";
const SIDE: &str = "local (of the one who posted) or remote (of the target)";
const PER: &str =
    "nic (each counts by itself, unless said) or process (all NICs of the rule together)";
const YES_NO: &str = "yes or no";

/// The words of one rule, and which of them were asked for.
struct Words<'t> {
    line: usize,
    verb: &'t str,
    /// Name, value, and whether it was taken.
    given: Vec<(&'t str, &'t str, bool)>,
    /// The names that the verb takes.
    asked: Vec<Asked>,
}

impl<'t> Words<'t> {
    fn read(line: usize, words: &[&'t str]) -> Parsed<Self> {
        let (verb, words) = words
            .split_first()
            .map_or(("", words), |(v, rest)| (*v, rest));
        let mut all = Self {
            line,
            verb,
            given: Vec::new(),
            asked: Vec::new(),
        };
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                return Err(all.fault(word, "is not of the form name=value", "at=100, say"));
            };
            if all.given.iter().any(|(given, ..)| *given == name) {
                return Err(all.fault(word, "is given twice", "one of them, or two rules"));
            }
            all.given.push((name, value, false));
        }
        Ok(all)
    }

    fn fault(&self, word: &str, what: &str, help: &str) -> PlanError {
        PlanError {
            line: self.line,
            word: word.to_owned(),
            what: what.to_owned(),
            help: help.to_owned(),
        }
    }

    /// The value of `name`, if it is there.
    fn optional<T>(
        &mut self,
        name: &'static str,
        help: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Parsed<Option<T>> {
        self.asked.push(Asked {
            name,
            help: help.to_owned(),
            is_required: false,
        });
        let Some(word) = self.given.iter_mut().find(|(given, ..)| *given == name) else {
            return Ok(None);
        };
        word.2 = true;
        let value = word.1;
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.fault(
                &format!("{name}={value}"),
                "has a value that cannot be read",
                help,
            )),
        }
    }

    fn required<T>(
        &mut self,
        name: &'static str,
        help: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Parsed<T> {
        let value = self.optional(name, help, read)?;
        if let Some(asked) = self.asked.last_mut() {
            asked.is_required = true;
        }
        value.ok_or_else(|| {
            self.fault(
                self.verb,
                &format!("needs {name}="),
                &format!("{name}= with {help}"),
            )
        })
    }

    /// Complains of a word that no one asked for.
    fn finish(self) -> Parsed<Vec<Asked>> {
        match self.given.iter().find(|(.., taken)| !taken) {
            None => Ok(self.asked),
            Some((name, value, _)) => {
                let asked: Vec<&str> = self.asked.iter().map(|asked| asked.name).collect();
                Err(self.fault(
                    &format!("{name}={value}"),
                    &format!("is not for {}", self.verb),
                    &format!("one of {}", asked.join(", ")),
                ))
            }
        }
    }

    fn scope(&mut self) -> Parsed<Scope> {
        let names = |text: &str| {
            let named = text.split(',').map(str::to_owned);
            let all: Vec<String> = named.collect();
            (!all.iter().any(String::is_empty)).then_some(all)
        };
        Ok(Scope {
            nics: self
                .optional("nic", RANGES, units::ranges)?
                .unwrap_or_default(),
            processes: self.optional("process", NAMES, names)?.unwrap_or_default(),
        })
    }

    fn on(&mut self) -> Parsed<Ops> {
        let ops = self.optional("on", OPS, Ops::parse)?;
        Ok(ops.unwrap_or(Ops::OUTGOING))
    }

    /// For verbs that make no sense for receives.
    fn outgoing(&mut self) -> Parsed<Ops> {
        let read = |text: &str| Ops::parse(text).filter(|ops| !ops.has(OpKind::Recv));
        let ops = self.optional("on", OUTGOING, read)?;
        Ok(ops.unwrap_or(Ops::OUTGOING))
    }

    /// For verbs about operations, which are those that may say which, and about registrations.
    fn sizes(&mut self) -> Parsed<Sizes> {
        let has_size = self.asked.iter().any(|asked| asked.name == "on")
            || matches!(self.verb, "mr-error" | "revoke");
        if !has_size {
            return Ok(Sizes::ALL);
        }
        let sizes = self.optional("size", SIZES, Sizes::parse)?;
        Ok(sizes.unwrap_or(Sizes::ALL))
    }

    fn when(&mut self) -> Parsed<When> {
        let always = When::ALWAYS;
        let list = |text: &str| text.split(',').map(units::positive).collect();
        let at = self.optional("at", COUNTS, list)?;
        let every = self.optional("every", COUNT, units::positive)?;
        let from = self.optional("from", COUNT, units::positive)?;
        let to = self.optional("to", COUNT, units::positive)?;
        let chance = self.optional("chance", PERCENT, units::chance_ppm)?;
        let when = When {
            at: at.unwrap_or(always.at),
            every: every.unwrap_or(always.every),
            from: from.unwrap_or(always.from),
            to: to.unwrap_or(always.to),
            chance_ppm: chance.unwrap_or(always.chance_ppm),
            per: self.per()?,
        };
        if when.is_never() {
            let what = "can never strike: no number is in all that is given";
            return Err(self.fault(self.verb, what, "from=10 to=20, say, or at=15 every=5"));
        }
        Ok(when)
    }

    /// For what happens once and stays.
    fn once(&mut self) -> Parsed<When> {
        let at = self.required("at", COUNT, units::positive)?;
        Ok(When {
            at: vec![at],
            per: self.per()?,
            ..When::ALWAYS
        })
    }

    fn per(&mut self) -> Parsed<Per> {
        let per = self.optional("per", PER, Per::parse)?;
        Ok(per.unwrap_or(When::ALWAYS.per))
    }

    fn of_the_nic(&mut self) -> Parsed<Action> {
        Ok(match self.verb {
            "reorder" => Action::Reorder {
                window: self.required("window", COUNT_OR_NONE, small)?,
                for_ns: self
                    .optional("for", TIME, units::time_ns)?
                    .unwrap_or(REORDER_NS),
            },
            "speed" => Action::Speed {
                bits_per_second: self.required("rate", RATE, units::bits_per_second)?,
            },
            _ => Action::MrLimit(self.limits()?),
        })
    }

    fn of_what_moves(&mut self) -> Parsed<Action> {
        Ok(match self.verb {
            "delay" => Action::Delay(self.delay()?),
            "lose" => Action::Lose,
            "duplicate" => Action::Duplicate(self.side()?),
            _ => Action::Late {
                by_ns: self.required("by", TIME, units::time_ns)?,
                side: self.side()?,
            },
        })
    }

    fn rnr(&mut self) -> Parsed<Action> {
        let tries = self.required("tries", ENDLESS, endless)?;
        Ok(Action::Rnr {
            tries: u32::try_from(tries).unwrap_or(u32::MAX),
        })
    }

    fn of_operations(&mut self) -> Parsed<Action> {
        Ok(match self.verb {
            "eagain" => Action::Eagain {
                burst: self.required("burst", ENDLESS, endless)?,
            },
            "refuse" => Action::Refuse {
                errno: self.required("errno", &code::errnos(), code::errno)?,
            },
            _ => Action::Error {
                code: self.required("code", &code::codes(), Code::parse)?,
                lands: self.optional("lands", YES_NO, yes_no)?.unwrap_or(false),
            },
        })
    }

    fn event(&mut self) -> Parsed<Action> {
        Ok(match self.verb {
            "nic-lost" => Action::NicLost {
                code: self
                    .optional("code", &code::codes(), Code::parse)?
                    .unwrap_or(Code::FLUSHED),
                refuse: self
                    .optional("refuse", &code::errnos(), code::errno)?
                    .unwrap_or(code::EINVAL),
            },
            "die" => Action::Die,
            "mute" => Action::Mute,
            _ => Action::StopPolling {
                polls: self
                    .optional("polls", ENDLESS, endless)?
                    .unwrap_or(u64::MAX),
            },
        })
    }

    fn of_calls(&mut self) -> Parsed<Action> {
        Ok(match self.verb {
            "empty" => Action::Empty,
            "readerr" => Action::Readerr {
                busy: self.required("busy", COUNT, units::positive)?,
            },
            "mr-error" => Action::MrError {
                errno: self.required("errno", &code::errnos(), code::errno)?,
            },
            _ => Action::Revoke {
                after: self.required("after", COUNT_OR_NONE, small)?,
            },
        })
    }

    fn delay(&mut self) -> Parsed<Delay> {
        let fixed = self.optional("fixed", TIME, units::time_ns)?;
        let uniform = self.optional("uniform", TIMES, units::time_range_ns)?;
        let mean = self.optional("exp", TIME, units::time_ns)?;
        let max = self.optional("max", TIME, units::time_ns)?;
        match (fixed, uniform, mean) {
            (Some(ns), None, None) if max.is_none() => Ok(Delay::Fixed(ns)),
            (None, Some((low, high)), None) if max.is_none() => Ok(Delay::Uniform { low, high }),
            (None, None, Some(mean)) => Ok(Delay::Exponential {
                mean,
                max: max.unwrap_or_else(|| mean.saturating_mul(20)),
            }),
            _ => Err(self.fault(
                self.verb,
                "needs one distribution",
                "fixed=10us, or uniform=5us..200us, or exp=50us with max=2ms if you like",
            )),
        }
    }

    fn limits(&mut self) -> Parsed<Limits> {
        let count = self.optional("count", COUNT_OR_NONE, units::count)?;
        let bytes = self.optional("bytes", SIZE, units::bytes)?;
        let pages = self.optional("pages", COUNT_OR_NONE, units::count)?;
        let errno = self.optional("errno", &code::errnos(), code::errno)?;
        if count.or(bytes).or(pages).is_none() {
            return Err(self.fault(
                self.verb,
                "limits nothing",
                "one or more of count=100, bytes=64M, pages=4096",
            ));
        }
        Ok(Limits {
            count: count.unwrap_or(u64::MAX),
            bytes: bytes.unwrap_or(u64::MAX),
            pages: pages.unwrap_or(u64::MAX),
            errno: errno.unwrap_or(code::ENOMEM),
        })
    }

    fn side(&mut self) -> Parsed<Side> {
        let read = |text: &str| match text {
            "local" => Some(Side::Local),
            "remote" => Some(Side::Remote),
            _ => None,
        };
        Ok(self.optional("side", SIDE, read)?.unwrap_or(Side::Local))
    }
}

fn small(text: &str) -> Option<u32> {
    u32::try_from(units::count(text)?).ok()
}

fn endless(text: &str) -> Option<u64> {
    if text == "forever" {
        return Some(u64::MAX);
    }
    units::positive(text)
}

fn yes_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
