//! Runs simulations from the command line.
//!
//! * `sim SPEC` replays one line, `sim shrink SPEC` makes a line that fails smaller;
//! * `sim FIRST COUNT MESSAGES` runs random configurations of consecutive seeds;
//! * `sim hunt FIRST COUNT MESSAGES SECONDS THREADS` does so until one is reached, every fourth seed with
//!   three-bit sequence numbers, shrinks what fails, and sums up.
//!
//! `tiny` before the first three takes three-bit sequence numbers.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command line tool, with a terminal and a clock"
)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use ofi_rdma::{Base, Dialect, Tiny};
use ofi_sim::{Failure, Report, Sim, SimConfig, SpecError, shrink};

/// Simulations that shrinking a failure may take.
const SHRINK_RUNS: usize = 500;

fn run<D: Dialect>(config: SimConfig) -> Result<bool, SpecError> {
    let spec = config.to_string();
    match Sim::<D>::with_dialect(config)?.run() {
        Ok(report) => println!("ok    {spec}: {report}"),
        Err(failure) => {
            println!("WRONG {failure:#}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn work<D: Dialect>(args: &[String]) -> Result<bool, SpecError> {
    if let Some((_, spec)) = args.split_first().filter(|(word, _)| *word == "shrink") {
        let failure = shrink::<D>(spec.join(" ").parse()?, SHRINK_RUNS);
        match &failure {
            Some(failure) => println!("WRONG {failure:#}"),
            None => println!("ok    nothing to shrink"),
        }
        return Ok(failure.is_none());
    }
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.parse().ok()).collect();
    let Some(&[first, count, messages]) = numbers.as_deref() else {
        return run::<D>(args.join(" ").parse()?);
    };
    let mut wrong = 0;
    for seed in first..first + count {
        wrong += u64::from(!run::<D>(SimConfig::random(seed, messages))?);
    }
    println!("{count} seeds, {wrong} wrong");
    Ok(wrong == 0)
}

/// Seeds that are tried by several threads until enough of them were, or time is over.
struct Hunt {
    next: AtomicU64,
    end: u64,
    messages: u64,
    until: Instant,
    is_over: AtomicBool,
    /// What all threads did so far.
    seeds_done: AtomicU64,
    messages_done: AtomicU64,
}

/// Seeds between two lines that say how far it is: a run that is stopped has not run in vain.
const TOLD_EVERY: u64 = 2_000;

impl Hunt {
    fn new(first: u64, count: u64, messages: u64, seconds: u64) -> Self {
        Self {
            next: AtomicU64::new(first),
            end: first.saturating_add(count),
            messages,
            until: Instant::now() + Duration::from_secs(seconds),
            is_over: AtomicBool::new(false),
            seeds_done: AtomicU64::new(0),
            messages_done: AtomicU64::new(0),
        }
    }

    fn tell(&self, messages: u64) {
        let messages = messages + self.messages_done.fetch_add(messages, Ordering::Relaxed);
        let seeds = 1 + self.seeds_done.fetch_add(1, Ordering::Relaxed);
        if seeds % TOLD_EVERY == 0 {
            println!("so far {seeds} seeds, {messages} messages: all well");
        }
    }

    fn hunt(&self) -> Result<(u64, Report), SpecError> {
        let (mut seeds, mut sum) = (0, Report::default());
        while !self.is_over.load(Ordering::Relaxed) && Instant::now() < self.until {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                break;
            }
            let failure = if seed % 4 == 3 {
                self.one::<Tiny>(seed, &mut sum)?
            } else {
                self.one::<Base>(seed, &mut sum)?
            };
            seeds += 1;
            if let Some(failure) = failure {
                let tiny = if seed % 4 == 3 { "tiny " } else { "" };
                println!("WRONG seed {seed}: replay with: {tiny}{failure:#}");
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        Ok((seeds, sum))
    }

    fn one<D: Dialect>(&self, seed: u64, sum: &mut Report) -> Result<Option<Failure>, SpecError> {
        let config = SimConfig::random(seed, self.messages);
        match Sim::<D>::with_dialect(config.clone())?.run() {
            Ok(report) => {
                self.tell(report.messages);
                sum.absorb(&report);
            }
            Err(failure) => {
                println!("WRONG {failure}; making it smaller");
                return Ok(shrink::<D>(config, SHRINK_RUNS).or(Some(failure)));
            }
        }
        Ok(None)
    }
}

fn describe(seeds: u64, sum: &Report, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = sum.messages as f64 / seconds * 60.0 / 1e6;
    println!("{seeds} seeds in {seconds:.0} s, {rate:.1} million messages a minute");
    println!("{sum}");
    println!(
        "{} one-sided, {} optional, {} flushes, {} stalls reported, not now {:?}",
        sum.one_sided, sum.optional, sum.flushes, sum.stalls, sum.not_now
    );
    for (kind, hits) in sum.faults.all() {
        println!("{hits:>14} {kind}");
    }
    let (steps, states) = (sum.coverage.steps(), sum.coverage.states());
    println!("{states} states of links, {steps} pairs of events");
}

fn hunt(args: &[String]) -> Result<bool, SpecError> {
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.parse().ok()).collect();
    let Some(&[first, count, messages, seconds, threads]) = numbers.as_deref() else {
        return Err(SpecError::Syntax(args.join(" ")));
    };
    let started = Instant::now();
    let hunt = Hunt::new(first, count, messages, seconds);
    let (mut seeds, mut sum) = (0, Report::default());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| hunt.hunt())).collect();
        threads.into_iter().try_for_each(|thread| {
            let outcome = thread
                .join()
                .unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            outcome.map(|(some, report)| {
                seeds += some;
                sum.absorb(&report);
            })
        })
    })?;
    describe(seeds, &sum, started);
    Ok(!hunt.is_over.load(Ordering::Relaxed))
}

fn main() -> Result<ExitCode, SpecError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let good = match args.split_first() {
        Some((word, rest)) if word == "tiny" => work::<Tiny>(rest)?,
        Some((word, rest)) if word == "hunt" => hunt(rest)?,
        _ => work::<Base>(&args)?,
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
