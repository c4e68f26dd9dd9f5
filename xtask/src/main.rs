//! The project's own commands: `cargo xtask <command>`.
//!
//! Everything that a person or CI does with the repository beyond plain cargo is one command here,
//! in Rust, so that a machine with only a Rust toolchain can do it.
//!
//! Modules, in reading order:
//!
//! * [`workspace`]: where things are; [`process`]: running programs with a limit of time
//! * [`libfabric`]: which libfabrics there are; [`setup`]: getting them
//! * [`artifacts`]: building the plugins and the `ofi` command
//! * [`settings`]: providers and sizes for runs over loopback; [`tables`]: which tables of which plugin;
//!   [`emulated`]: the same on emulated EFAs, and [`seeds`] any number of them,
//!   [`rails`]: which NICs carry what on each instance; [`demo`]: the first thing to try
//! * [`steps`]: the table of what `test` does; [`suite`]: running it
//! * [`tidy`], [`layers`], [`needed`] (over [`elf`]): the checks that are ours
//! * [`programs`]: programs in C on providers; [`soak`]: hours of them; [`kills`]: peers that
//!   are killed at each stage; [`hangs`]: one of sixteen ranks that hangs; [`sanitize`]: under sanitizers
//! * [`sim`]: simulations; [`fuzz`]: fuzzing; [`traps`]: that tests fail which should; [`coverage`],
//!   [`mutants`];
//!   [`hot`]: what the hot path costs; [`bench`](mod@bench): all that is measured, and its pages
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its terminal"
)]

mod artifacts;
mod bench;
mod counted;
mod coverage;
mod demo;
mod elf;
mod emulated;
mod fuzz;
mod hangs;
mod hot;
mod kills;
mod layers;
mod libfabric;
mod mutants;
mod needed;
mod process;
mod programs;
mod rails;
mod sanitize;
mod seeds;
mod settings;
mod setup;
mod sim;
mod soak;
mod steps;
mod suite;
mod tables;
mod tidy;
mod traps;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const USAGE: &str = "\
cargo xtask <command>

  demo              install what is missing, build, move verified collectives over loopback TCP
  test [options]    everything CI runs
      --quick         only what needs no release build and no libfabric
      --only TEXT     only the steps whose name contains TEXT
      --list          print the steps and stop
      --verbose       print the output of every step, not only of those that fail
      --no-setup      do not install or fetch anything
  setup [--matrix]  install libfabric where it may, or say the line to type;
                    --matrix also gets the other versions and the tools that the tests take
  build [--release] the plugins (libnccom-net.so, libnccl-net-ofi.so), the ofi command and the emulated EFA
  rails [--dev]     `ofi perf` over each device of each emulated instance, and whether its NICs carried the bytes and no other
  seeds [options]   verified runs on emulated EFAs, each with ranks, rails and delays drawn from its seed, until one fails
      --faults        with something that goes wrong, too: the run may end in an error, in time, and in nothing worse
      --from SEED     the first one (1)
      --count N       so many (no limit)
      --minutes M     so long (10)
  sim [options]     random simulations of the engine under all faults, on all processors, until one fails; it is
                    made smaller then, and printed as a line that replays it
      --tagged        of SENDRECV, not of RDMA; the first option
      --from SEED     the first one (from the clock)
      --seeds N       so many (no limit)
      --minutes M     so long (10)
  soak [options]    connections, messages of random sizes and killed peers on TCP, shared memory and emulated EFAs, 4 rails
                    each; then whether memory, allocated bytes or descriptors grew
      --minutes M     so long (60)
      --kill-every S  seconds between two kills of the peer (60)
      --all           on every libfabric that is found, not only on the newest
  kills [--on NAME] a peer is killed or stopped at each stage of its life, with 1, 64 and 128 requests in flight, on each
                    provider of each libfabric, or those whose name (tcp-2.5.1) contains NAME
  hangs [--dev] [KIND]  16 ranks, one of which hangs in 20 ways: `ofi dump` has to name it and what it has not done
  asan, tsan        the plugin and the emulated EFA under a sanitizer of the nightly toolchain, driven from C, over TCP and
                    EFA; first a mistake on purpose that has to be seen
  fuzz [TARGET...]  the fuzz targets, each for a minute, with the executions; takes a nightly and a C++ compiler
      --minutes M     so long each (--seconds S)
      --merge         keep in fuzz/corpus what was learned, as few files as do
  coverage [CRATE...]  lines that the tests of the pure crates run; takes the component llvm-tools
  mutants [--every N] [CRATE...]  small mistakes in the pure crates, all (hours) or every N-th, and how many their tests
                    notice; takes cargo-mutants
  tidy              sizes, names, unsafe, READMEs, comments, field reports; --unsafe lists files with unsafe code
  traps [NAME...]   build each trap of the protocol into a copy, and see its test fail (all: about 10 minutes);
                    --pure: those that need no libfabric
  counted [--dev]   what the plugins count against what was moved, over both protocols, with EAGAINs and errors
  hot [--update]    instructions of the engine's hot path against docs/hot-path.md, or into it; takes valgrind
  bench [--quick] [PART...]  all that is measured, into docs/benchmarks.md, docs/hot-path.md and their charts: less than
                    30 minutes on a quiet machine; parts: micro, raw, hot, pages
  layers            the arrows of ARCHITECTURE.md against cargo metadata
  needed FILE.so    libraries, symbols and glibc of a built plugin
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<ExitCode> {
    let here = Workspace::locate()?;
    match args {
        ["demo"] => demo::run(&here)?,
        ["test", options @ ..] => return suite::run(&here, options),
        ["setup"] => setup::run(&here, setup::Extent::System)?,
        ["setup", "--matrix"] => setup::run(&here, setup::Extent::Matrix)?,
        ["build"] => artifacts::build(&here, artifacts::Profile::Dev).map(|built| built.print())?,
        ["build", "--release"] => {
            artifacts::build(&here, artifacts::Profile::Release).map(|built| built.print())?;
        }
        ["rails"] => rails::run(&here, artifacts::Profile::Release)?,
        ["rails", "--dev"] => rails::run(&here, artifacts::Profile::Dev)?,
        ["seeds", options @ ..] => seeds::run(&here, options)?,
        ["sim", options @ ..] => sim::run(&here, options)?,
        ["kills", options @ ..] => kills::run(&here, options)?,
        ["hangs", options @ ..] => hangs::run(&here, options)?,
        ["asan"] => sanitize::run(&here, sanitize::ADDRESS)?,
        ["tsan"] => sanitize::run(&here, sanitize::THREAD)?,
        ["soak", options @ ..] => soak::run(&here, options)?,
        ["fuzz", options @ ..] => fuzz::run(&here, options)?,
        ["coverage", options @ ..] => coverage::run(&here, options)?,
        ["mutants", options @ ..] => mutants::run(&here, options)?,
        ["tidy"] => tidy::run(&here)?,
        ["tidy", "--unsafe"] => tidy::list_unsafe(&here)?,
        ["traps", names @ ..] => traps::run(&here, names)?,
        ["counted", options @ ..] => counted::run(&here, options)?,
        ["hot", options @ ..] => hot::run(&here, options)?,
        ["bench", options @ ..] => bench::run(&here, options)?,
        ["layers"] => layers::run(&here)?,
        ["needed", file] => needed::run(std::path::Path::new(file))?,
        [] | ["help" | "--help" | "-h"] => println!("{USAGE}"),
        other => bail!("no such command: {}\n\n{USAGE}", other.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}
