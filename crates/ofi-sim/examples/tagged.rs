//! Simulations of the SENDRECV engine:
//!
//! * `tagged FIRST COUNT MESSAGES SECONDS THREADS` runs that many seeds, or as many as there is time for;
//! * `tagged seed=7 messages=300 without=5` runs one, and makes it smaller if it fails.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that reports, and stops in time"
)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use ofi_sim::SpecError;
use ofi_sim::tagged::{Fault, Report, Setup, run, shrink};

/// Seeds between two lines that say how far it is: a run that is stopped has not run in vain.
const TOLD_EVERY: u64 = 5_000;

/// One simulation, made small and told if it fails.
fn one(setup: &Setup) -> Option<Report> {
    match run(setup) {
        Ok(report) => Some(report),
        Err(failure) => {
            println!("WRONG {failure}; making it smaller");
            println!("WRONG {}", shrink(setup).unwrap_or(failure));
            None
        }
    }
}

struct Hunt {
    next: AtomicU64,
    end: u64,
    messages: u64,
    until: Instant,
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Hunt {
    fn hunt(&self) -> Report {
        let mut sum = Report::default();
        while !self.is_over.load(Ordering::Relaxed) && Instant::now() < self.until {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                break;
            }
            let setup = Setup {
                seed,
                messages: self.messages,
                ..Setup::default()
            };
            match one(&setup) {
                Some(report) => sum.absorb(&report),
                None => self.is_over.store(true, Ordering::Relaxed),
            }
            let done = 1 + self.done.fetch_add(1, Ordering::Relaxed);
            if done % TOLD_EVERY == 0 {
                println!("so far {done} seeds");
            }
        }
        sum
    }
}

fn hunt(numbers: [u64; 5]) -> bool {
    let [first, count, messages, seconds, threads] = numbers;
    let started = Instant::now();
    let hunt = Hunt {
        next: AtomicU64::new(first),
        end: first.saturating_add(count),
        messages,
        until: started + Duration::from_secs(seconds),
        is_over: AtomicBool::new(false),
        done: AtomicU64::new(0),
    };
    let mut sum = Report::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| hunt.hunt())).collect();
        for thread in threads {
            let report = thread.join();
            sum.absorb(&report.unwrap_or_else(|cause| std::panic::resume_unwind(cause)));
        }
    });
    let (seeds, seconds) = (
        hunt.done.load(Ordering::Relaxed),
        started.elapsed().as_secs(),
    );
    let Report {
        messages,
        bytes,
        lives,
        touched,
        faults,
        steps,
    } = sum;
    println!(
        "{seeds} seeds in {seconds} s: {messages} messages and {bytes} bytes compared, {steps} steps"
    );
    println!("{lives} lives of links, something happened to {touched}");
    for (fault, hits) in Fault::ALL.into_iter().zip(faults) {
        println!("{hits:>14} {fault:?}");
    }
    !hunt.is_over.load(Ordering::Relaxed)
}

fn main() -> Result<ExitCode, SpecError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.parse().ok()).collect();
    let is_well = match numbers.as_deref().map(<[u64; 5]>::try_from) {
        Some(Ok(numbers)) => hunt(numbers),
        _ => {
            let report = one(&args.join(" ").parse()?);
            report
                .inspect(|report| println!("ok    {report:?}"))
                .is_some()
        }
    };
    Ok(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
