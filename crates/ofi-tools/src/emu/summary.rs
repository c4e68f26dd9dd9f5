//! What the processes of an emulation did, in a few lines.

use efa_emu::stats::{NicCounts, Snapshot};

use crate::size::rounded;

/// A summary.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: Vec<String>,
    /// Whether anything was left open by a process that was not killed by its plan.
    pub(super) is_leaky: bool,
}

/// One line a process, more with `numbers`, and what was left open.
pub(super) fn lines(seen: &[Snapshot], numbers: bool) -> Summary {
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
    Summary { text, is_leaky }
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
        kinds[i].2.push(nic.to_string());
    }
    let line = |(what, n, nics): (&str, u64, Vec<String>)| {
        let nics = nics.join(",");
        format!(
            "process {} left open: {n} {what} (NIC {nics})",
            process.process
        )
    };
    kinds.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;
    use efa_emu::stats::{NicCounts, Snapshot};

    fn process(nics: Vec<NicCounts>) -> Snapshot {
        Snapshot {
            process: "1".to_owned(),
            pid: 9,
            seed: 7,
            was_killed: false,
            nics,
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
        let summary = lines(&seen, false);
        assert_eq!(
            summary.text,
            [
                "process 1 (pid 9): 1 NICs, 3 operations, 1.50 KiB out, 0 B in, 2 EAGAIN",
                "nothing was left open",
            ]
        );
        assert!(!summary.is_leaky);
        let numbers = lines(&seen, true).text;
        assert_eq!(numbers[1], "  NIC 0: sends 3, bytes_out 1536, again 2");
    }

    #[test]
    fn leaks_are_named() {
        let leak = NicCounts {
            regions: 2,
            endpoints: 1,
            ..busy()
        };
        let summary = lines(&[process(vec![leak.clone(), busy(), leak])], false);
        assert!(summary.is_leaky);
        assert_eq!(
            summary.text[1..],
            [
                "process 1 left open: 2 endpoints (NIC 0,2)",
                "process 1 left open: 4 regions (NIC 0,2)",
            ]
        );
    }

    #[test]
    fn nobody_is_told_too() {
        assert!(lines(&[], true).text[0].contains("no process"));
    }
}
