//! The sweep: each call of libfabric in a whole life fails once, for each plausible reason.
//!
//! ```text
//! a life without faults --> how many calls of which name in which phase
//! for each of them, for each answer it can get --> a life in which it gets that: the right end, nothing left
//!                                                  open, nothing closed twice, and another life after it
//! ```
//! Complete by construction but for polls (`fi_cq_read`), of which there are as many as time allows: the
//! first [`Extent::polls`] of each phase are swept. `OFI_NET_SWEEP=full` (which `cargo xtask sweep` sets)
//! sweeps everything; without it the first and the last call of each name in each phase, with one
//! harmless and one other answer.

mod calls;
mod life;

use super::common::{self, config, in_one_process, say};
use super::meddling;
use super::state::{Strike, with};
use calls::{Effect, answers, is_poll};
use core::ffi::c_int;
use life::{Lived, live, not_well};
use ofi_net::Config;
use std::collections::BTreeSet;

/// How much is swept.
#[derive(Clone, Copy, Debug)]
struct Extent {
    is_full: bool,
    /// Of calls that are made again and again, so many a phase.
    polls: u64,
}

impl Extent {
    fn asked() -> Self {
        let is_full = std::env::var("OFI_NET_SWEEP").is_ok_and(|value| value == "full");
        Self {
            is_full,
            polls: if is_full { 40 } else { 1 },
        }
    }

    /// Which of `count` calls, from 1 on.
    fn calls(self, name: &str, count: u64) -> BTreeSet<u64> {
        match (is_poll(name), self.is_full) {
            (true, _) => (1..=count.min(self.polls)).collect(),
            (false, true) => (1..=count).collect(),
            (false, false) => [1, count].into(),
        }
    }

    /// Which answers.
    fn answers(self, name: &str, nth: u64) -> Vec<(c_int, Effect)> {
        let all = answers(name);
        if self.is_full {
            return all.to_vec();
        }
        let first = |is_harmless: bool| {
            let mut fitting = all
                .iter()
                .filter(|answer| (answer.1 == Effect::None) == is_harmless);
            fitting.next().copied()
        };
        let harmless = first(true).filter(|_| nth == 1);
        harmless.into_iter().chain(first(false)).collect()
    }
}

/// What a sweep did.
#[derive(Debug, Default)]
struct Sum {
    calls: u64,
    pairs: u64,
    /// By [`Effect`]: nothing happened, told, left open and said so.
    unharmed: u64,
    told: u64,
    left: u64,
    /// Polls that were not made this time.
    unreached: u64,
}

/// Lives with short deadlines: who waits for one that failed ends soon.
fn hasty(config: &Config) -> Config {
    Config {
        stall_fail_ms: Some(300),
        connect_timeout_ms: 800,
        // The low-latency class is only tried: a refusal of it would be no error.
        low_latency_tc: false,
        ..config.clone()
    }
}

/// And with long ones: nothing may fail.
fn patient(config: &Config) -> Config {
    Config {
        low_latency_tc: false,
        ..config.clone()
    }
}

fn sweep(config: &Config) {
    meddling::install();
    // The first life of a process asks for more than later ones.
    for _ in 0..2 {
        with(|state| state.strike(None));
        assert_eq!(not_well(&live(patient(config))), None, "without faults");
        super::assert_left(&[], "without faults");
    }
    let (extent, mut sum, mut wrong) = (Extent::asked(), Sum::default(), Vec::new());
    for (phase, name, count) in with(|state| state.seen()) {
        sum.calls += count;
        for nth in extent.calls(name, count) {
            for (errno, effect) in extent.answers(name, nth) {
                let strike = Strike {
                    phase: Some(phase),
                    name: Some(name),
                    nth,
                    errno,
                };
                let found = once(config, strike, effect, &mut sum);
                wrong.extend(found.into_iter().map(|text| format!("{strike:?}: {text}")));
            }
        }
    }
    let provider = std::env::var("FI_PROVIDER").unwrap_or_default();
    let Sum {
        calls,
        pairs,
        unharmed,
        told,
        left,
        unreached,
    } = sum;
    say(&format!(
        "swept: {provider}: {calls} calls in a life; {pairs} lives with one answered otherwise: {told} told, \
         {unharmed} unharmed, {left} with an object left, {unreached} polls not reached"
    ));
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(told > 10 && unharmed > 5 && left > 5, "too few");
}

/// One life in which one call fails, and one after it in which none does: what was wrong.
fn once(config: &Config, strike: Strike, effect: Effect, sum: &mut Sum) -> Vec<String> {
    with(|state| state.strike(Some(strike)));
    let leaks = efa_fabric::leak_count();
    let lived = match effect {
        Effect::None => live(patient(config)),
        _ => live(hasty(config)),
    };
    sum.pairs += 1;
    if with(|state| state.failed.is_none()) {
        sum.unreached += 1;
        let may_be = strike.name.is_some_and(is_poll);
        return if may_be {
            Vec::new()
        } else {
            vec!["it was not reached".to_owned()]
        };
    }
    let mut wrong = judge(&lived, strike, effect);
    let left = with(super::state::State::forget);
    if effect == Effect::Left {
        sum.left += 1;
        let is_known = !lived.told().is_empty() || efa_fabric::leak_count() > leaks;
        if !is_known || left.is_empty() {
            wrong.push(format!("left open {left:?}, and nobody was told"));
        }
    } else {
        let is_well = lived.errors.is_empty();
        *(if is_well {
            &mut sum.unharmed
        } else {
            &mut sum.told
        }) += 1;
        let is_counted = efa_fabric::leak_count() > leaks;
        if !(left.is_empty() || is_counted && may_leave(strike)) {
            wrong.push(format!("left open: {left:?}"));
        }
    }
    wrong.extend(with(|state| core::mem::take(&mut state.wrong)));
    with(|state| state.strike(None));
    let after = live(patient(config));
    wrong.extend(not_well(&after).map(|text| format!("the life after it: {text}")));
    let left = with(super::state::State::forget);
    if !left.is_empty() {
        wrong.push(format!("the life after it left open: {left:?}"));
    }
    wrong
}

/// What is wrong with how a life went in which one call failed.
fn judge(lived: &Lived, strike: Strike, effect: Effect) -> Vec<String> {
    let told = lived.told();
    let uncoded = lived.errors.iter().map(ToString::to_string);
    let mut wrong: Vec<String> = uncoded.filter(|text| !text.contains("OFI-E")).collect();
    // Of a call alone, with no cause and no cure but libfabric's own log.
    let bare = told.iter().filter(|text| text.contains("OFI-E0701"));
    wrong.extend(bare.map(|text| format!("it has no cause: {text}")));
    match effect {
        // The endpoint that is tried at init says what it was told, and tries no other name.
        Effect::None if strike.phase == Some("init") => {}
        Effect::None => wrong.extend(not_well(lived)),
        Effect::Any | Effect::Left => {}
        Effect::Said if told.is_empty() => wrong.push("nobody was told".to_owned()),
        Effect::Said => {}
        Effect::Told if is_after_the_end(strike) || is_to_close(strike) => {}
        Effect::Told => {
            let number = format!("({})", strike.errno);
            let call = strike.name.unwrap_or_default();
            let is_named = |text: &String| text.contains(&number) && text.contains(call);
            if !told.iter().any(is_named) {
                wrong.push(format!("nobody was told of {call} and {number}: {told:?}"));
            }
        }
    }
    wrong
}

/// Left on purpose, and counted: before 1.22 libfabric follows a null pointer when an endpoint closes that
/// has no address vector, and such an endpoint is kept; `ofi_rxm` does not close a domain in which the rest of
/// a long message was never received.
fn may_leave(strike: Strike) -> bool {
    let is_rxm = std::env::var("FI_PROVIDER").is_ok_and(|name| name.contains("ofi_rxm"));
    is_to_close(strike) || is_rxm && strike.name == Some("fi_trecv")
}

/// A vector that an endpoint gets only to be closed with.
fn is_to_close(strike: Strike) -> bool {
    let is_old = common::version_is_below(efa_fabric::Version::new(1, 22));
    let is_vector = matches!(strike.name, Some("fi_av_open" | "fi_ep_bind"));
    is_old && is_vector && strike.phase == Some("init")
}

/// At the end nobody waits for what a queue still had to say.
fn is_after_the_end(strike: Strike) -> bool {
    strike.phase == Some("fini") && strike.name.is_some_and(is_poll)
}

#[test]
fn every_call_of_a_life_can_fail_and_leaves_nothing() {
    in_one_process(
        "sweep::every_call_of_a_life_can_fail_and_leaves_nothing",
        || sweep(&config(2)),
    );
}

#[test]
fn with_sendrecv_every_call_of_a_life_can_fail_and_leaves_nothing() {
    in_one_process(
        "sweep::with_sendrecv_every_call_of_a_life_can_fail_and_leaves_nothing",
        || sweep(&common::sendrecv()),
    );
}
