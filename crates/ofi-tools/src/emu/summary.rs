//! What the processes of an emulation did, in a few lines.

use efa_emu::plan::Plan;
use efa_emu::stats::{NicCounts, Snapshot};

use crate::size::rounded;

/// A summary.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: Vec<String>,
    /// Whether anything was left open by a process that was not killed by its plan.
    pub(super) is_leaky: bool,
    /// Whether a rule never struck that leaves nothing to chance.
    pub(super) is_idle: bool,
}

/// One line a process, more with `numbers`, what was left open, and what each rule of the plan did.
pub(super) fn lines(seen: &[Snapshot], plan: &Plan, numbers: bool) -> Summary {
    let mut text = Vec::new();
    if seen.is_empty() {
        let nobody = "no process used the emulated NICs (FI_PROVIDER says another, or libfabric was not loaded)";
        text.push(nobody.to_owned());
    }
    let mut is_leaky = false;
    for process in seen {
        text.push(line(process));
        if numbers {
            text.extend(process.to_string().lines().skip(1).map(str::to_owned));
        }
        let leaks = leaks(process);
        is_leaky |= !leaks.is_empty();
        text.extend(leaks);
    }
    if !seen.is_empty() && !is_leaky {
        text.push("nothing was left open".to_owned());
    }
    if !seen.is_empty() {
        text.extend(strikes(seen, plan));
    }
    let is_certain = |rule: &str| !rule.split(' ').any(|word| word.starts_with("chance="));
    let is_idle = counts(seen, plan).any(|(rule, n)| n == 0 && is_certain(rule));
    Summary {
        text,
        is_leaky,
        is_idle,
    }
}

/// How often each rule struck, in all processes.
fn counts<'p>(seen: &[Snapshot], plan: &'p Plan) -> impl Iterator<Item = (&'p str, u64)> {
    plan.counted().map(|(i, rule)| {
        let of = |process: &Snapshot| process.rules.get(i).copied().unwrap_or(0);
        (rule, seen.iter().map(of).fold(0, u64::saturating_add))
    })
}

fn strikes(seen: &[Snapshot], plan: &Plan) -> impl Iterator<Item = String> {
    counts(seen, plan).map(|(rule, n)| match n {
        0 => format!("{rule}: never struck"),
        1 => format!("{rule}: struck once"),
        n => format!("{rule}: struck {n} times"),
    })
}

fn line(process: &Snapshot) -> String {
    let total = process.total();
    let is_used = |nic: &&NicCounts| **nic != NicCounts::default();
    let used = process.nics.iter().filter(is_used).count();
    let killed = if process.was_killed {
        ", killed by its plan"
    } else {
        ""
    };
    let mut line = format!(
        "process {} (pid {}): {used} NICs, {} operations, {} out, {} in",
        process.process,
        process.pid,
        total.operations(),
        rounded(total.bytes_out),
        rounded(total.bytes_in),
    );
    for (what, n) in [
        ("EAGAIN", total.again),
        ("RNR", total.rnr),
        ("reordered", total.reordered),
        ("faults", total.injected),
        ("errors", total.errors),
        ("overruns", total.overruns),
    ] {
        if n > 0 {
            line.push_str(&format!(", {n} {what}"));
        }
    }
    line + killed
}

/// What is open, the same kind of all NICs on one line.
fn leaks(process: &Snapshot) -> Vec<String> {
    let mut kinds: Vec<(&str, u64, Vec<String>)> = Vec::new();
    for (nic, what, n) in process.leaks() {
        let i = kinds.iter().position(|(kind, ..)| *kind == what);
        let i = i.unwrap_or_else(|| {
            kinds.push((what, 0, Vec::new()));
            kinds.len() - 1
        });
        kinds[i].1 += n;
        kinds[i].2.extend(nic.map(|nic| nic.to_string()));
    }
    let line = |(what, n, nics): (&str, u64, Vec<String>)| {
        let of_nics = match nics.join(",") {
            nics if nics.is_empty() => nics,
            nics => format!(" (NIC {nics})"),
        };
        format!("process {} left open: {n} {what}{of_nics}", process.process)
    };
    kinds.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;
    use efa_emu::plan::Plan;
    use efa_emu::stats::{NicCounts, Snapshot};

    fn process(nics: Vec<NicCounts>) -> Snapshot {
        Snapshot {
            process: "1".to_owned(),
            pid: 9,
            seed: 7,
            was_killed: false,
            nics,
            rules: vec![0, 1, 2],
            fabrics: 0,
            eqs: 0,
        }
    }

    fn busy() -> NicCounts {
        NicCounts {
            sends: 3,
            bytes_out: 1536,
            again: 2,
            ..NicCounts::default()
        }
    }

    #[test]
    fn a_process_is_a_line() {
        let seen = [process(vec![busy(), NicCounts::default()])];
        let summary = lines(&seen, &Plan::default(), false);
        assert_eq!(
            summary.text,
            [
                "process 1 (pid 9): 1 NICs, 3 operations, 1.50 KiB out, 0 B in, 2 EAGAIN",
                "nothing was left open",
            ]
        );
        assert!(!summary.is_leaky);
        let numbers = lines(&seen, &Plan::default(), true).text;
        assert_eq!(numbers[1], "  NIC 0: sends 3, bytes_out 1536, again 2");
    }

    #[test]
    fn leaks_are_named() {
        let leak = NicCounts {
            regions: 2,
            endpoints: 1,
            ..busy()
        };
        let mut seen = [process(vec![leak.clone(), busy(), leak])];
        seen[0].eqs = 1;
        let summary = lines(&seen, &Plan::default(), false);
        assert!(summary.is_leaky);
        assert_eq!(
            summary.text[1..],
            [
                "process 1 left open: 1 event queues",
                "process 1 left open: 2 endpoints (NIC 0,2)",
                "process 1 left open: 4 regions (NIC 0,2)",
            ]
        );
    }

    #[test]
    fn rules_that_never_struck_are_told() {
        let plan = Plan::parse("lose on=imm; die at=9; late by=1ms; reorder window=0").unwrap();
        let seen = [process(Vec::new()), process(Vec::new())];
        let summary = lines(&seen, &plan, false);
        assert!(summary.is_idle);
        let text = summary.text;
        assert_eq!(
            text[3..],
            [
                "lose on=imm: never struck",
                "die at=9: struck 2 times",
                "late by=1ms: struck 4 times"
            ]
        );
    }

    /// What is left to chance may not come about.
    #[test]
    fn only_what_is_certain_has_to_strike() {
        let idle = |plan: &str| {
            let seen = [process(Vec::new())];
            lines(&seen, &Plan::parse(plan).unwrap(), false).is_idle
        };
        assert!(idle("lose at=9") && idle("lose  chance=1%; die at=9; die  at=8; lose at=7"));
        assert!(!idle("lose chance=1%") && !idle("") && !idle("reorder window=0"));
        assert!(lines(&[], &Plan::parse("lose").unwrap(), true).is_idle);
    }

    #[test]
    fn nobody_is_told_too() {
        let nobody = lines(&[], &Plan::parse("lose").unwrap(), true).text;
        assert!(nobody[0].contains("no process") && nobody.len() == 1);
    }
}
