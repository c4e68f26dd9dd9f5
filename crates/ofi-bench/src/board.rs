//! Contenders that do the same thing, measured in turn.

use core::time::Duration;
use std::time::Instant;

use criterion::Criterion;

use crate::cold::Thrash;
use crate::record::{Fact, Ran, Times, file};
use crate::sample::Spread;
use crate::settings::Settings;

/// The results of one benchmark.
#[derive(Debug)]
pub struct Board {
    name: &'static str,
    settings: Settings,
    ran: Vec<Ran>,
    facts: Vec<Fact>,
}

/// Runs an operation so many times, and says how long that took.
type Work<'w> = Box<dyn FnMut(u64) -> Duration + 'w>;

/// Contenders for one thing; the first is ours.
#[must_use = "a group is measured by `run` or `cold`"]
pub struct Group<'b, 'w> {
    board: &'b mut Board,
    name: String,
    contenders: Vec<(String, Work<'w>)>,
}

impl core::fmt::Debug for Group<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<&str> = self.contenders.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("contenders", &names)
            .finish_non_exhaustive()
    }
}

impl Board {
    /// A board; `name` is that of the benchmark, and of its file.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            settings: Settings::get(),
            ran: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// A group of contenders.
    pub fn group<'w>(&mut self, name: impl Into<String>) -> Group<'_, 'w> {
        Group {
            board: self,
            name: name.into(),
            contenders: Vec::new(),
        }
    }

    /// Keeps a number that is no time.
    #[expect(clippy::print_stdout, reason = "this is the report")]
    pub fn fact(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        println!("{name:<73} {value:>11.1} {unit}");
        self.facts.push(Fact { name, value, unit });
    }

    /// Whether everything is to run just once: a benchmark may then make less of it.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        self.settings.is_trial
    }

    /// Writes the file, where one is asked for.
    ///
    /// # Panics
    ///
    /// When it cannot be written: a result that is lost is none.
    #[expect(clippy::panic, reason = "see above")]
    pub fn finish(self) {
        let Some(out) = &self.settings.out else {
            return;
        };
        let path = out.join(format!("{}.json", self.name));
        let text = file(self.name, &self.ran, &self.facts).to_string() + "\n";
        let written = std::fs::create_dir_all(out).and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            panic!("{} (OFI_BENCH_OUT): {error}", path.display());
        }
    }
}

impl<'w> Group<'_, 'w> {
    /// A contender; `work` is one operation.
    pub fn with(self, name: &str, mut work: impl FnMut() + 'w) -> Self {
        self.timed(name, move |rounds| time(rounds, &mut work))
    }

    /// A contender that measures by itself: it gets how many operations to do, and returns how long those took.
    pub fn timed(mut self, name: &str, work: impl FnMut(u64) -> Duration + 'w) -> Self {
        self.contenders.push((name.to_owned(), Box::new(work)));
        self
    }

    /// Measures with warm caches.
    pub fn run(mut self) {
        if !self.board.settings.wants(&self.name) {
            return;
        }
        let settings = self.board.settings.clone();
        if settings.out.is_none() && !settings.is_trial {
            self.criterion();
        }
        let sizes: Vec<u64> = self
            .contenders
            .iter_mut()
            .map(|(_, work)| calibrate(work, settings.slice))
            .collect();
        let times = rounds(&mut self.contenders, settings.rounds, |at, work| {
            let size = sizes.get(at).copied().unwrap_or(1);
            work(size).as_secs_f64() * 1e9 / size as f64
        });
        self.keep(times, false);
    }

    /// Measures with caches that were overwritten: one operation at a time. Also [`Group::run`]s.
    pub fn run_and_cold(mut self) {
        if !self.board.settings.wants(&self.name) {
            return;
        }
        let count = self.board.settings.rounds;
        let mut thrash = Thrash::new();
        let clock = clock_cost();
        let times = rounds(&mut self.contenders, count, |_, work| {
            thrash.run();
            (work(1).as_secs_f64() * 1e9 - clock).max(0.0)
        });
        self.keep(times, true);
        self.run();
    }

    /// With criterion, which compares with the run before.
    fn criterion(&mut self) {
        let mut criterion = Criterion::default().configure_from_args();
        let mut group = criterion.benchmark_group(&self.name);
        for (name, work) in &mut self.contenders {
            group.bench_function(&**name, |bencher| bencher.iter_custom(&mut *work));
        }
        group.finish();
    }

    #[expect(clippy::print_stdout, reason = "this is the report")]
    fn keep(&mut self, times: Vec<Vec<f64>>, is_cold: bool) {
        let names = self.contenders.iter().map(|(name, _)| name.clone());
        let contenders = names.zip(times);
        let ran = Ran {
            group: self.name.clone(),
            is_cold,
            contenders: contenders
                .map(|(name, rounds)| Times { name, rounds })
                .collect(),
        };
        if self.board.ran.is_empty() {
            println!(
                "\n{:<44} {:<28} {:>11} {:>11} {:>11} {:>10}",
                "ns an operation", "", "min", "median", "max", "/ ours"
            );
        }
        for line in ran.lines() {
            println!("{line}");
        }
        self.board.ran.push(ran);
    }
}

/// Every contender once a round; every other round backwards, so that nobody always comes after the same one.
fn rounds(
    contenders: &mut [(String, Work<'_>)],
    count: usize,
    mut one: impl FnMut(usize, &mut Work<'_>) -> f64,
) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(count); contenders.len()];
    for round in 0..count {
        for step in 0..contenders.len() {
            let last = contenders.len() - 1;
            let at = if round % 2 == 0 { step } else { last - step };
            let taken = one(at, &mut contenders[at].1);
            times[at].push(taken);
        }
    }
    times
}

/// How many operations take about `slice`: at least one, and no more than 2^30.
fn calibrate(work: &mut Work<'_>, slice: Duration) -> u64 {
    let mut count = 1_u64;
    loop {
        let taken = work(count);
        if taken >= slice / 2 || count >= 1 << 30 {
            let scale = slice.as_secs_f64() / taken.as_secs_f64().max(1e-9);
            return scaled(count, scale);
        }
        count *= 2;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped just before"
)]
fn scaled(count: u64, scale: f64) -> u64 {
    (count as f64 * scale).clamp(1.0, 1e9) as u64
}

/// The time of `rounds` calls of `work`.
pub fn time(rounds: u64, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        work();
    }
    start.elapsed()
}

/// What an empty measurement takes, in nanoseconds.
fn clock_cost() -> f64 {
    let each: Vec<f64> = (0..100)
        .map(|_| time(1, || ()).as_secs_f64() * 1e9)
        .collect();
    Spread::of(&each).map_or(0.0, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::{Board, Work, calibrate, rounds};
    use core::time::Duration;

    #[test]
    fn every_contender_runs_once_a_round_and_the_order_turns() {
        let work = || -> Work<'static> { Box::new(|_| Duration::ZERO) };
        let mut contenders = vec![("a".to_owned(), work()), ("b".to_owned(), work())];
        let mut order = Vec::new();
        let times = rounds(&mut contenders, 3, |at, _| {
            order.push(at);
            at as f64
        });
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
        assert_eq!(times, [vec![0.0; 3], vec![1.0; 3]]);
    }

    #[test]
    fn a_slice_is_filled_by_as_many_operations_as_it_takes() {
        let mut work: Work<'_> = Box::new(Duration::from_micros);
        assert_eq!(calibrate(&mut work, Duration::from_millis(2)), 2000);
        let mut slow: Work<'_> = Box::new(Duration::from_secs);
        assert_eq!(calibrate(&mut slow, Duration::from_millis(2)), 1);
    }

    #[test]
    fn a_board_keeps_warm_and_cold_times() {
        let mut board = Board::new("test");
        let mut count = 0;
        board
            .group("counting")
            .with("ours", || count += 1)
            .run_and_cold();
        let kinds: Vec<bool> = board.ran.iter().map(|ran| ran.is_cold).collect();
        assert_eq!(kinds, [true, false]);
        assert!(count >= 2);
    }
}
