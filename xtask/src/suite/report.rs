//! What a step came to, and the summary at the end.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Lines of a failed step that are shown.
const TAIL_LINES: usize = 60;

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed {
        /// How many tests cargo counted in it.
        tests: u64,
        /// What its tests said they skipped.
        skipped: Vec<String>,
    },
    Failed(String),
    Skipped(String),
}

impl Outcome {
    /// A step that ended well, with what its output says.
    pub(super) fn passed(output: &str) -> Self {
        let skipped = output
            .lines()
            .filter_map(|line| line.trim().strip_prefix("skipped: "));
        // Many tests may lack the same thing: it is named once, with their number.
        let mut counts = BTreeMap::new();
        for what in skipped {
            *counts.entry(what).or_insert(0_u32) += 1;
        }
        let named = counts.into_iter().map(|(what, count)| match count {
            1 => what.to_owned(),
            _ => format!("{what} ({count} times)"),
        });
        Self::Passed {
            tests: count_tests(output),
            skipped: named.collect(),
        }
    }
}

/// Sum over the lines "test result: ok. 17 passed; ..".
fn count_tests(output: &str) -> u64 {
    let results = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("test result: ok. "));
    results
        .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// The last lines of an output.
pub(super) fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}

/// One line of the summary.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

impl Line {
    /// In a few words.
    pub(super) fn verdict(&self) -> String {
        let seconds = self.took.as_secs_f64();
        match &self.outcome {
            Outcome::Passed { tests: 0, .. } => format!("ok       {seconds:7.1} s"),
            Outcome::Passed { tests, .. } => format!("ok       {seconds:7.1} s  {tests} tests"),
            Outcome::Failed(why) => format!("FAILED   {seconds:7.1} s  {why}"),
            Outcome::Skipped(why) => format!("skipped              {why}"),
        }
    }
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    lines: Vec<Line>,
}

impl Summary {
    pub(super) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Prints every step with its verdict, what was skipped and why, and the count as last line.
    pub(super) fn print(&self) -> ExitCode {
        println!("\nsummary");
        let width = self
            .lines
            .iter()
            .map(|line| line.name.chars().count())
            .max()
            .unwrap_or(0);
        for line in &self.lines {
            println!("  {:width$}  {}", line.name, line.verdict());
            if let Outcome::Passed { skipped, .. } = &line.outcome {
                skipped
                    .iter()
                    .for_each(|what| println!("  {:width$}    skipped: {what}", ""));
            }
        }
        println!();
        if let Some(line) = self.warning() {
            println!("{line}");
        }
        println!("{}", self.count());
        if self.failed() == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn failed(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| matches!(line.outcome, Outcome::Failed(_)))
            .count()
    }

    /// Steps that were not run.
    fn skipped(&self) -> usize {
        let is_skipped = |line: &&Line| matches!(line.outcome, Outcome::Skipped(_));
        self.lines.iter().filter(is_skipped).count()
    }

    /// Says so when steps were not run.
    fn warning(&self) -> Option<String> {
        let skipped = self.skipped();
        (skipped > 0).then(|| format!("{skipped} skipped: not all that CI runs"))
    }

    fn count(&self) -> String {
        let (failed, skipped) = (self.failed(), self.skipped());
        let passed = self.lines.len() - failed - skipped;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Outcome, Summary, tail};
    use core::time::Duration;

    #[test]
    fn tests_and_skips_are_read_from_the_output() {
        let output = "test result: ok. 17 passed; 0 failed; 1 ignored\n\
            skipped: veth: not root\nnothing skipped: here\n\
            skipped: shm\nskipped: shm\n\
            test result: ok. 3 passed; 0 failed\n";
        let want = Outcome::Passed {
            tests: 20,
            skipped: vec!["shm (2 times)".to_owned(), "veth: not root".to_owned()],
        };
        assert_eq!(Outcome::passed(output), want);
    }

    #[test]
    fn the_last_line_counts_the_steps() {
        let mut summary = Summary::default();
        for outcome in [
            Outcome::passed(""),
            Outcome::passed(""),
            Outcome::Failed("x".to_owned()),
            Outcome::Skipped("y".to_owned()),
        ] {
            summary.push(Line {
                name: "a".to_owned(),
                outcome,
                took: Duration::ZERO,
            });
        }
        assert_eq!(summary.count(), "2 passed, 1 failed, 1 skipped");
        assert_eq!(summary.failed(), 1);
        let warning = "1 skipped: not all that CI runs";
        assert_eq!(summary.warning().as_deref(), Some(warning));
        assert_eq!(Summary::default().warning(), None);
    }

    #[test]
    fn only_the_end_of_long_output_is_shown() {
        let long: String = (0..1000).map(|n| format!("{n}\n")).collect();
        assert!(tail(&long).starts_with("940\n") && tail(&long).ends_with("\n999"));
        assert_eq!(tail("a"), "a");
    }
}
