//! Runs simulations from the command line: `sim SPEC` replays one line, `sim FIRST COUNT MESSAGES`
//! runs random configurations of consecutive seeds.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::process::ExitCode;

use ofi_sim::{Sim, SimConfig, SpecError};

fn run(config: SimConfig) -> Result<bool, SpecError> {
    let spec = config.to_string();
    match Sim::new(config)?.run() {
        Ok(report) => println!("ok    {spec}: {report}"),
        Err(failure) => {
            println!("WRONG {failure:#}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn main() -> Result<ExitCode, SpecError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.parse().ok()).collect();
    let mut wrong = 0;
    match numbers.as_deref() {
        Some(&[first, count, messages]) => {
            for seed in first..first + count {
                wrong += u64::from(!run(SimConfig::random(seed, messages))?);
            }
            println!("{count} seeds, {wrong} wrong");
        }
        _ => wrong += u64::from(!run(args.join(" ").parse()?)?),
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
