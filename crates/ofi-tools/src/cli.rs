//! The command line, and the plan that comes of it.

use core::str::FromStr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::abi::Flavor;
use crate::bench::plan::{CheckPlan, Element, Log, Mode, Override, Pairs, Plan, Yield};
use crate::coord::frame::MAX_WORLD;
use crate::coord::stream::Address;
use crate::size;

/// Tools around libfabric transports for collectives.
#[derive(Debug, Parser)]
#[command(name = "ofi", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drives a network plugin between ranks: measures it and checks every byte
    ///
    /// Without a launcher the ranks are started on this machine. Under torchrun, Slurm (srun) or
    /// mpirun each process is one rank; they meet by the launcher's variables, or at --rendezvous.
    /// Ends with status 0 if all is well, 1 if a rank failed or bytes were wrong, 2 for a bad
    /// command line, 3 if something did not move or took too long.
    Perf(Box<PerfArgs>),
    /// Measures libfabric's own operations, with no plugin, and a plugin beside them
    ///
    /// The operations of the protocol's messages (--wire), on the rails that the transport would open,
    /// between two processes on this machine; with --plugin the plugin moves the same messages, in
    /// turn, and the table shows its share. Messages are counted, not told apart: the raw figures are a
    /// bound. With fewer than two free cores what is measured is the scheduler. Ends with status 0, 1 if a run failed, 2 for a bad command
    /// line, 3 if something did not move or took too long.
    Raw(Box<crate::raw::RawArgs>),
    /// Shows what went over each rail, decoded: wire traces, and the last records of state dumps
    ///
    /// Processes that run with `OFI_NCCL_TRACE_FILE=PATH` set write traces (%p in it is the process id, %h
    /// the host). With `OFI_NCCL_TRACE_RING=RECORDS` and `OFI_NCCL_DUMP_DIR=DIR` their state dumps have the last
    /// records of each domain (d0, d1, .. as they stand in the dump); of several dumps of a process the newest is
    /// shown. Several files become one list in the order of time. Signs: > given to the provider, . completed, <
    /// arrived, ! failed, - something else. Ends with status 0, 1 if a file is damaged, 2 if one cannot be read or
    /// has no records.
    Trace(crate::trace::TraceArgs),
    /// Says whom a job that hangs waits for, by the state dumps of its processes
    ///
    /// Processes that run with `OFI_NCCL_DUMP_DIR=DIR` set write them when something stalls, when asked
    /// (--ask), and at their first error. Both ends of each communicator that waits are looked at, and
    /// chains of waiting are followed to their end: a process that is silent, one that waits for nobody,
    /// the network, or a circle (docs/hangs.md). Ends with status 0 if nobody is stuck, 1 if somebody is
    /// waited for or silent, 2 if a file cannot be read or is no dump.
    Dump(crate::dump::DumpArgs),
    /// Shows what NICs and accelerators are near to, the devices made of them, and what NCCL is told
    ///
    /// Of this host, or of a root with its sysfs, a dump of hwloc, a topology file of NCCL. Ends with status
    /// 0, 1 if a file is wrong or hosts differ, 2 if something cannot be read.
    Topo(crate::topo::TopoArgs),
    /// Runs a command on emulated EFAs: the NICs of an instance, and faults on demand
    ///
    /// For example: ofi emu --shape p5 -- ofi perf check --plugin libnccom-net.so. The command, and all it
    /// starts, finds the emulated NICs as libfabric's provider efa. --help-rules prints the rules of
    /// --plan, --help-shapes the instances. Ends with the command's status, 2 if it could not be
    /// run; with --strict 4 if it left something open, 5 if a rule of the plan never struck.
    Emu(crate::emu::EmuArgs),
    /// Says whether a job would use the network here, and if not, why
    ///
    /// Which plugin would be loaded and why, whether it starts, libfabric, EFAs, limits, topology, variables,
    /// versions. Each finding has a code (docs/doctor.md), what shows it, and what to do; what merely
    /// follows from another is left out. Ends with status 0 if nothing keeps a job from the network, 1 if
    /// something does (with --strict: for warnings too), 2 for a bad command line.
    Doctor(Box<crate::doctor::DoctorArgs>),
    /// Says which network a run used, by its log, and what went wrong first
    ///
    /// Knows the lines of NCCL, Neuron and their plugins, of any version. Ends with status 0 if libfabric
    /// was used and nothing known went wrong, 1 if something did or sockets were used, 2 if a file cannot
    /// be read or has nothing of such a run.
    Explain(crate::explain::ExplainArgs),
    /// Tries the network between two hosts: no MPI, no ssh, no plugin to install
    ///
    /// Start `ofi pair listen` on one host and `ofi pair connect HOST:PORT` on the other, with the same
    /// variables as the job (`FI_PROVIDER`, `OFI_NCCL_*`). Runs this project's transport over libfabric on
    /// every device and every NIC, in both directions, verifies the bytes, and prints latency and
    /// bandwidth. Ends with status 0 if all is well, 1 if not (with the causes, the likeliest first), 2 for
    /// a bad command line.
    Pair(crate::pair::PairArgs),
    /// Writes manual pages: of each command, of the variables (ofi-nccl.7) and of the codes (ofi-errors.7)
    ///
    /// For example: `ofi man /usr/local/share/man`. Ends with status 0, 2 if a file cannot be written.
    Man(crate::manual::ManArgs),
    /// Prints completions for a shell
    ///
    /// For example: `ofi completions bash > /etc/bash_completion.d/ofi`.
    Completions(crate::manual::CompletionsArgs),
    /// Shows what processes that use the plugins count: messages, bytes, EAGAINs, errors
    ///
    /// Processes that run with `OFI_NCCL_STATS_DIR=DIR` keep a file there each, as long as they live and after
    /// (docs/observability.md). By process, rail and communicator, with what the NICs count themselves. Ends with
    /// status 0, 1 if a file is damaged or not one, 2 if there is nothing to look at.
    Stats(crate::stats::StatsArgs),
    /// Shows what processes that use the plugins do now: bytes, messages and EAGAINs a second
    ///
    /// By process, rail and communicator, the busiest first; from the same files as `ofi stats`. Ends with
    /// status 2 if there is nothing to look at; else with --once, or when it is stopped.
    Top(crate::stats::TopArgs),
    /// The plugin in a process of its own (started by `ofi doctor` itself)
    #[command(hide = true)]
    DoctorProbe(crate::doctor::ProbeArgs),
    /// libfabric in a process of its own (started by `ofi doctor` itself)
    #[command(hide = true)]
    DoctorFabric(crate::doctor::FabricArgs),
    /// One rank of a run (started by `ofi perf` itself)
    #[command(hide = true)]
    PerfRank(RankArgs),
}

/// What `ofi perf` passes to the ranks that it starts.
#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    #[arg(long)]
    pub(crate) rank: usize,
    #[arg(long)]
    pub(crate) world: usize,
    #[arg(long)]
    pub(crate) parent: u32,
}

/// A list of sizes.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(Vec<usize>);

impl Sizes {
    pub(crate) fn list(&self) -> &[usize] {
        &self.0
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        size::parse_list(text).map(Self)
    }
}

/// `all` or a list of device numbers.
#[derive(Debug, Clone)]
pub(crate) struct Devices(Vec<usize>);

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(Vec::new()));
        }
        let number = |t: &str| {
            let bad =
                |_| format!("{t:?} is not a device number (a list such as 0,1 or the word all)");
            t.trim().parse().map_err(bad)
        };
        text.split(',')
            .map(number)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (left, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
        let (rank, name) = match left.split_once(':') {
            None => (None, left),
            Some((r, name)) => (
                Some(r.parse().map_err(|_| format!("{r:?} is not a rank"))?),
                name,
            ),
        };
        if name.is_empty() {
            return Err(format!("{text:?} names no variable"));
        }
        Ok(Self {
            rank,
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct PerfArgs {
    /// What to run, in this order
    #[arg(value_enum, default_value = "all")]
    modes: Vec<Mode>,
    /// The plugin; several are dealt out to the ranks in turn
    #[arg(long, required = true, value_delimiter = ',')]
    plugin: Vec<PathBuf>,
    /// Its table; one for each plugin, or one for all
    #[arg(long, default_value = "ncclNetPlugin_v6", value_delimiter = ',')]
    symbol: Vec<String>,
    /// Whose tables the symbols name [default: guessed from the file name]
    #[arg(long, value_enum, value_delimiter = ',')]
    flavor: Vec<Flavor>,
    /// Ranks to start here, or of all when --rank is given [default: 2]
    #[arg(long)]
    pub(crate) ranks: Option<usize>,
    /// This process is rank R of --ranks, started by hand; all meet at --rendezvous
    #[arg(long, value_name = "R", requires = "rendezvous", requires = "ranks")]
    pub(crate) rank: Option<usize>,
    /// Where ranks that were started apart meet: HOST:PORT or unix:PATH (rank 0 listens); with --rank, or
    /// under a launcher
    #[arg(long, value_name = "WHERE")]
    pub(crate) rendezvous: Option<Address>,
    /// Sizes in bytes: a list such as 0,8,64K,1M with ranges such as 1:64M:x2
    #[arg(long)]
    sizes: Option<Sizes>,
    /// Messages in flight on each communicator; several are run in turn
    #[arg(long, value_delimiter = ',')]
    window: Vec<usize>,
    /// Communicators per device between two ranks
    #[arg(long, default_value_t = 1)]
    comms: usize,
    /// Device numbers, or all
    #[arg(long, default_value = "0")]
    devices: Devices,
    /// Messages or operations of a point [default: as many as fit in --seconds]
    #[arg(long)]
    iters: Option<u64>,
    /// Time of a point
    #[arg(long, default_value_t = 0.25)]
    seconds: f64,
    /// Verify every byte, with guard bytes around each buffer
    #[arg(long)]
    check: bool,
    /// Draw every message's size at random up to the size given (bw, bidir, rate, lat)
    #[arg(long, requires = "check")]
    random_sizes: bool,
    /// check: messages of each flow
    #[arg(long, default_value_t = 2000)]
    messages: u64,
    /// check: the largest message
    #[arg(long, default_value = "16M", value_parser = size::parse_one)]
    max_size: usize,
    /// check: post some receives too short, so that messages are cut
    #[arg(long)]
    truncate: bool,
    /// Accept any reported size from the message's to the buffer's
    #[arg(long)]
    lax_sizes: bool,
    /// check: no random pauses
    #[arg(long)]
    no_pauses: bool,
    /// Flush after every receive
    #[arg(long)]
    flush: bool,
    /// allreduce: the numbers
    #[arg(long, value_enum, default_value = "f32")]
    element: Element,
    /// Collectives: bytes of a piece
    #[arg(long, default_value = "256K", value_parser = size::parse_one)]
    slice: usize,
    /// Buffer for each direction between two ranks; windows are clipped to it
    #[arg(long, default_value = "32M", value_parser = size::parse_one)]
    pool: usize,
    /// lat, bw, bidir, rate: which ranks take part
    #[arg(long, value_enum, default_value = "first")]
    pairs: Pairs,
    /// What a rank does between polls that found nothing
    #[arg(long = "yield", value_enum, default_value = "auto")]
    yielding: Yield,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A variable for the ranks started here, or for one of them
    #[arg(long, value_name = "[RANK:]NAME=VALUE")]
    env: Vec<Override>,
    /// The plugin's log, on standard error
    #[arg(long, value_enum, default_value = "warn")]
    log: Log,
    /// Seconds for the whole run
    #[arg(long, default_value_t = 120.0)]
    timeout: f64,
    /// Seconds that a rank may stand still
    #[arg(long, default_value_t = 30.0)]
    stall: f64,
    /// Write the results as JSON; - for standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw latency and bandwidth over size
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl PerfArgs {
    /// The plan for a run of `ranks`; the error is text for the user.
    pub(crate) fn plan(&self, ranks: usize) -> Result<Plan, String> {
        self.validate(ranks)?;
        let guess = |p: &PathBuf| Flavor::guess(p).map_err(|e| e.to_string());
        let flavors = if self.flavor.is_empty() {
            self.plugin.iter().map(guess).collect::<Result<_, _>>()?
        } else {
            self.flavor.clone()
        };
        Ok(Plan {
            ranks,
            plugins: self.plugin.clone(),
            symbols: self.symbol.clone(),
            flavors,
            devices: self.devices.0.clone(),
            comms: self.comms,
            modes: self.modes.clone(),
            sizes: self.sizes.as_ref().map(|s| s.0.clone()).unwrap_or_default(),
            windows: self.window.clone(),
            random_sizes: self.random_sizes,
            iters: self.iters,
            seconds: self.seconds,
            check: self.check,
            check_plan: CheckPlan {
                messages: self.messages,
                max_size: self.max_size,
                truncate: self.truncate,
                lax_sizes: self.lax_sizes,
                pauses: !self.no_pauses,
            },
            flush: self.flush,
            element: self.element,
            slice: self.slice,
            pool: self.pool,
            pairs: self.pairs,
            yielding: self.yielding,
            seed: self.seed,
            log: self.log,
            timeout: self.timeout,
            stall: self.stall,
            env: self.env.clone(),
            raw: None,
        })
    }

    fn validate(&self, ranks: usize) -> Result<(), String> {
        let largest = self
            .sizes
            .as_ref()
            .and_then(|s| s.0.iter().max().copied())
            .unwrap_or(0);
        let windows = self.window.iter();
        within("the number of ranks", ranks, 2, MAX_WORLD)?;
        within("--comms", self.comms, 1, 256)?;
        within("the largest of --sizes", largest, 0, MAX_MESSAGE)?;
        within("--max-size", self.max_size, 0, MAX_MESSAGE)?;
        within("--pool", self.pool, 4096, MAX_MESSAGE)?;
        within("--slice", self.slice, 64, MAX_MESSAGE)?;
        windows
            .copied()
            .try_for_each(|w| within("--window", w, 1, 1024))?;
        let seconds = |what: &str, is: f64, to: f64| {
            if is > 0.0 && is <= to {
                Ok(())
            } else {
                Err(format!("{what} is {is}; it can be more than 0, up to {to}"))
            }
        };
        seconds("--seconds", self.seconds, 3600.0)?;
        seconds("--timeout", self.timeout, 1e7)?;
        seconds("--stall", self.stall, 1e7)?;
        if self.iters == Some(0) || self.messages == 0 {
            return Err("--iters and --messages are at least 1".to_owned());
        }
        let each = |what: &str, n: usize| {
            if n <= 1 || n == self.plugin.len() {
                Ok(())
            } else {
                Err(format!(
                    "{n} of {what} for {} of --plugin",
                    self.plugin.len()
                ))
            }
        };
        each("--symbol", self.symbol.len())?;
        each("--flavor", self.flavor.len())
    }
}

/// The error is text for the user.
pub(crate) fn within(what: &str, is: usize, from: usize, to: usize) -> Result<(), String> {
    if (from..=to).contains(&is) {
        Ok(())
    } else {
        Err(format!("{what} is {is}; it can be {from} to {to}"))
    }
}

/// The largest message: two of them fit the `int` of every ABI.
const MAX_MESSAGE: usize = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn perf(args: &[&str]) -> Result<Plan, String> {
        let all = ["ofi", "perf", "--plugin", "libnccom-net.so"]
            .iter()
            .chain(args);
        let cli = Cli::try_parse_from(all).map_err(|e| e.to_string())?;
        let Command::Perf(args) = cli.command else {
            return Err("not perf".to_owned());
        };
        args.plan(args.ranks.unwrap_or(2))
    }

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_plan_follows_from_the_command_line() {
        let p = perf(&[
            "bw",
            "check",
            "--sizes",
            "0,8,1K:4K:x4",
            "--devices",
            "1,2",
            "--window",
            "4,8",
        ]);
        let p = p.unwrap();
        assert_eq!(p.modes, [Mode::Bw, Mode::Check]);
        assert_eq!(p.sizes, [0, 8, 1024, 4096]);
        assert_eq!((p.devices, p.windows), (vec![1, 2], vec![4, 8]));
        assert_eq!(p.flavors, [Flavor::Neuron]);
        assert!(perf(&[]).unwrap().verifies());
        assert!(!perf(&["bw"]).unwrap().verifies());
    }

    #[test]
    fn overrides_name_a_variable_and_maybe_a_rank() {
        let p = perf(&["--env", "A=b=c", "--env", "1:X="]).unwrap();
        let rank = |i: usize| {
            (
                p.env[i].rank,
                p.env[i].name.as_str(),
                p.env[i].value.as_str(),
            )
        };
        assert_eq!((rank(0), rank(1)), ((None, "A", "b=c"), (Some(1), "X", "")));
        assert!(perf(&["--env", "x:A=b"]).err().is_some());
        assert!(perf(&["--env", "=b"]).err().is_some());
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for (args, text) in [
            (["--ranks", "1"], "2 to 256"),
            (["--comms", "0"], "1 to 256"),
            (["--window", "0"], "1 to 1024"),
            (["--sizes", "1G"], "--sizes"),
            (["--seconds", "0"], "more than 0"),
            (["--timeout", "-1"], "more than 0"),
            (["--seconds", "NaN"], "more than 0"),
            (["--iters", "0"], "at least 1"),
            (["--symbol", "a_v1,b_v2"], "--symbol"),
        ] {
            let e = perf(&args.map(|a| if a == "-1" { "=-1" } else { a })).unwrap_err();
            assert!(e.contains(text) || args[1] == "-1", "{args:?}: {e}");
        }
    }
}
