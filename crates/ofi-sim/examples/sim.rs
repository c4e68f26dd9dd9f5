//! Runs simulations from the command line: `sim SPEC` replays one line, `sim FIRST COUNT MESSAGES`
//! runs random configurations of consecutive seeds. `tiny` before either takes three-bit sequence
//! numbers.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::process::ExitCode;

use ofi_rdma::{Base, Dialect, Tiny};
use ofi_sim::{Sim, SimConfig, SpecError};

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

fn main() -> Result<ExitCode, SpecError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let good = match args.split_first() {
        Some((word, rest)) if word == "tiny" => work::<Tiny>(rest)?,
        _ => work::<Base>(&args)?,
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
