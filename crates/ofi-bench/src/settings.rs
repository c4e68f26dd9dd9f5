//! How long is measured, and where results go: from the environment and what cargo passes.

use core::time::Duration;
use std::path::PathBuf;

/// The settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Rounds of each group.
    pub(crate) rounds: usize,
    /// What a contender runs for in a round.
    pub(crate) slice: Duration,
    /// The directory that results go to, if they do.
    pub(crate) out: Option<PathBuf>,
    /// Only groups whose name has this in it.
    pub(crate) filter: Option<String>,
    /// Each contender once, to see that it runs: what `cargo test --benches` wants.
    pub(crate) is_trial: bool,
}

impl Settings {
    /// From `OFI_BENCH_OUT`, `OFI_BENCH_QUICK` and the command line.
    pub(crate) fn get() -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let out = std::env::var_os("OFI_BENCH_OUT").map(PathBuf::from);
        let is_quick = std::env::var_os("OFI_BENCH_QUICK").is_some_and(|value| value != "0");
        Self::of(&args, out, is_quick)
    }

    fn of(args: &[String], out: Option<PathBuf>, is_quick: bool) -> Self {
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let is_trial = !has("--bench") || has("--test");
        let (rounds, micros) = match (is_trial, is_quick) {
            (true, _) => (1, 0),
            (false, true) => (20, 300),
            (false, false) => (30, 2000),
        };
        Self {
            rounds,
            slice: Duration::from_micros(micros),
            out,
            filter: args.iter().find(|arg| !arg.starts_with('-')).cloned(),
            is_trial,
        }
    }

    /// Whether a group is asked for.
    pub(crate) fn wants(&self, group: &str) -> bool {
        let filter = self.filter.as_deref();
        filter.is_none_or(|filter| group.contains(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;

    fn of(args: &[&str], is_quick: bool) -> Settings {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        Settings::of(&args, None, is_quick)
    }

    #[test]
    fn what_is_measured_has_at_least_twenty_rounds() {
        for quick in [false, true] {
            let settings = of(&["--bench"], quick);
            assert!(settings.rounds >= 20 && !settings.is_trial);
        }
    }

    #[test]
    fn a_test_runs_everything_once() {
        for args in [&[][..], &["--bench", "--test"]] {
            let settings = of(args, false);
            assert!(settings.is_trial && settings.rounds == 1);
        }
    }

    #[test]
    fn a_word_chooses_groups() {
        let settings = of(&["--bench", "half"], false);
        assert!(settings.wants("idpool, half") && !settings.wants("idpool, empty"));
        assert!(of(&["--bench"], true).wants("anything"));
    }
}
