//! The `ofi` command.
#![doc = include_str!("../README.md")]
//! # Map, in reading order
//!
//! ```text
//! cli      the command line, and the plan made of it
//! perf     the first process: who is who, hub, verdict
//!   coord    how ranks meet, agree and end together (hub, link, board, launch)
//!   bench    what a rank does (mesh, flows, check, collectives)
//!     abi      the plugin's C ABI; all unsafe code is there, in raw/posts, pair/lane and emu/signals
//!   report   table, JSON, SVG, live line; all printing is there
//! raw      the same operations without a plugin, straight on libfabric, and a plugin beside them
//! trace    reads wire traces
//! stats    counters that processes keep in files: shown, watched, given to Prometheus
//! dump     joins the state dumps of a job's processes: who is waited for
//! topo     a host's NICs and accelerators: tree, devices, NCCL's file, picture
//! emu      runs a command on emulated EFAs
//! doctor   what keeps a job from the network on a host: facts, checks, findings
//! explain  what a log says: which network, what went wrong first
//! manual   manual pages and completions, from the command line's definition
//! pair     two hosts, our transport between them, no plugin
//! size     byte counts as people write them
//! ```
//!
//! Non-goals: it is no job scheduler, no MPI, and all that `ofi perf` sees of a network is a plugin's
//! table: only `ofi raw` and `ofi pair` load a libfabric. `ofi emu` only sets variables for others; `ofi doctor` loads
//! plugins in processes of their own alone.

mod abi;
mod bench;
mod cli;
mod coord;
mod doctor;
mod dump;
mod emu;
mod explain;
mod manual;
mod pair;
mod perf;
mod raw;
mod report;
mod size;
mod stats;
mod topo;
mod trace;

use std::process::ExitCode;

use clap::Parser as _;

use crate::report::out;

/// Runs the command that the arguments of this process name; prints results, errors and help.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let status = u8::try_from(e.exit_code()).unwrap_or(2);
            // Help and errors go where clap sends them; a closed pipe is no error of ours.
            drop(e.print());
            return ExitCode::from(status);
        }
    };
    let code = match cli.command {
        cli::Command::Perf(args) => perf::run(&args),
        cli::Command::Raw(args) => raw::run(&args),
        cli::Command::Trace(args) => trace::run(&args),
        cli::Command::Dump(args) => dump::run(&args),
        cli::Command::Topo(args) => topo::run(&args),
        cli::Command::Emu(args) => emu::run(&args),
        cli::Command::Doctor(args) => doctor::run(&args),
        cli::Command::Explain(args) => explain::run(&args),
        cli::Command::Pair(args) => pair::run(&args),
        cli::Command::Man(args) => manual::run_man(&args),
        cli::Command::Completions(args) => manual::run_completions(&args),
        cli::Command::Stats(args) => stats::run(&args),
        cli::Command::Top(args) => stats::run_top(&args),
        cli::Command::DoctorProbe(args) => doctor::run_child(&args),
        cli::Command::DoctorFabric(args) => doctor::run_fabric(&args),
        cli::Command::PerfRank(args) => perf::run_rank(&args),
    };
    if out::is_cut() {
        out::error_line("ofi: standard output could not be written: something of it is lost");
        return ExitCode::FAILURE;
    }
    code
}
