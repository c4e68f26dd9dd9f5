//! Runs contenders under criterion and prints how they compare, within one run.

use core::cell::RefCell;
use core::time::Duration;
use criterion::{Bencher, Criterion};
use std::collections::BTreeMap;
use std::time::Instant;

/// The best time of an iteration for each contender, in nanoseconds.
#[derive(Default)]
pub(crate) struct Board {
    best: RefCell<BTreeMap<(String, String), f64>>,
}

impl Board {
    /// Measures `work` under `group/name`; of all samples of this run the best is remembered.
    pub(crate) fn run(
        &self,
        criterion: &mut Criterion,
        (group, name): (&str, &str),
        mut work: impl FnMut(),
    ) {
        let mut measure = |bencher: &mut Bencher<'_>| {
            bencher.iter_custom(|rounds| {
                let elapsed = time(rounds, &mut work);
                let each = elapsed.as_secs_f64() * 1e9 / rounds as f64;
                let mut best = self.best.borrow_mut();
                let entry = best
                    .entry((group.to_owned(), name.to_owned()))
                    .or_insert(each);
                *entry = entry.min(each);
                elapsed
            });
        };
        criterion
            .benchmark_group(group)
            .bench_function(name, &mut measure);
    }

    /// One line a contender: its time, and how many times ours it is. `ours` is the name of ours.
    #[expect(clippy::print_stdout, reason = "this is the report")]
    pub(crate) fn print(&self, ours: &str) {
        println!("\nbest of this run; one iteration, and how many times ours");
        for ((group, name), each) in self.best.borrow().iter() {
            let own = self
                .best
                .borrow()
                .get(&(group.clone(), ours.to_owned()))
                .copied();
            let ratio = own.map_or(f64::NAN, |own| each / own);
            println!("{group:<32} {name:<20} {each:>14.1} ns {ratio:>10.2} x");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(rounds: u64, work: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        work();
    }
    start.elapsed()
}
