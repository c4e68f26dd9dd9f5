//! Explores the scenes of [`ofi_sim::explore::SCENES`], or those whose name contains a text, and says what
//! each took.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command line tool, with a terminal and a clock"
)]

use std::process::ExitCode;
use std::time::Instant;

use ofi_sim::explore::SCENES;

/// Far more than any scene has.
const STATES_MAX: u64 = 20_000_000;

fn main() -> Result<ExitCode, ofi_rdma::ConfigError> {
    let text = std::env::args().nth(1).unwrap_or_default();
    let mut good = true;
    let (mut states, mut moves) = (0, 0);
    for named in SCENES.iter().filter(|named| named.name.contains(&text)) {
        let begun = Instant::now();
        match named.explore(STATES_MAX)? {
            Ok(seen) => {
                println!("{}: {seen}, {} ms", named.name, begun.elapsed().as_millis());
                good &= !seen.cut_short;
                states += seen.states;
                moves += seen.moves;
            }
            Err(way) => {
                println!("WRONG {}: {way}", named.name);
                good = false;
            }
        }
    }
    println!("{states} states, {moves} moves in all");
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
