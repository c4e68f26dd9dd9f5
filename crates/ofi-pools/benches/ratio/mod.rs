//! Runs contenders under criterion and prints how they compare, within one run.

use core::cell::RefCell;
use core::time::Duration;
use criterion::{Bencher, Criterion};
use std::collections::BTreeMap;
use std::time::Instant;

/// The time of an iteration of each contender.
#[derive(Default)]
pub(crate) struct Board {
    times: RefCell<BTreeMap<(String, String), Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    rounds: u64,
    nanoseconds: f64,
}

impl Board {
    /// Measures `work` under `group/name`; of the longest samples of this run, the
    /// fastest is remembered.
    pub(crate) fn run(
        &self,
        criterion: &mut Criterion,
        (group, name): (&str, &str),
        mut work: impl FnMut(),
    ) {
        let mut measure = |bencher: &mut Bencher<'_>| {
            bencher.iter_custom(|rounds| {
                let elapsed = time(rounds, &mut work);
                let nanoseconds = elapsed.as_secs_f64() * 1e9 / rounds as f64;
                let mut times = self.times.borrow_mut();
                let key = (group.to_owned(), name.to_owned());
                let entry = times.entry(key).or_insert(Sample {
                    rounds: 0,
                    nanoseconds,
                });
                // Short samples of work that varies can be lucky.
                if rounds > entry.rounds {
                    *entry = Sample {
                        rounds,
                        nanoseconds,
                    };
                } else if rounds == entry.rounds {
                    entry.nanoseconds = entry.nanoseconds.min(nanoseconds);
                }
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
        println!("\none iteration, and how many times ours, of this run");
        let times = self.times.borrow();
        for ((group, name), sample) in times.iter() {
            let own = times.get(&(group.clone(), ours.to_owned()));
            let ratio = own.map_or(f64::NAN, |own| sample.nanoseconds / own.nanoseconds);
            println!(
                "{group:<32} {name:<20} {:>14.1} ns {ratio:>10.2} x",
                sample.nanoseconds
            );
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
