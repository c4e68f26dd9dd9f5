//! `ofi perf` from the first process's side: who is who, the hub, the verdict.

use core::time::Duration;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use crate::abi::process;
use crate::bench::plan::Plan;
use crate::bench::rank;
use crate::cli::{PerfArgs, RankArgs};
use crate::coord::hub::{Hub, Outcome, Verdict};
use crate::coord::launch;
use crate::coord::stream::{Address, Stream};
use crate::report::files::Files;
use crate::report::{json, out, table};
use crate::size::rounded;

/// The command line makes no sense.
const USAGE: u8 = 2;
const FAILED: u8 = 1;
/// Nothing moved, or it took too long.
const STUCK: u8 = 3;

/// How this process takes part.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// Starts every rank itself.
    Local { ranks: usize },
    /// Is one of several processes that somebody started.
    One {
        rank: usize,
        world: usize,
        address: Address,
        /// How the address came about, or nothing.
        origin: &'static str,
        job: String,
    },
}

/// Runs `ofi perf`.
pub(crate) fn run(args: &PerfArgs) -> ExitCode {
    let usage = |text: &str| {
        out::error_line(&format!("ofi perf: {text}"));
        ExitCode::from(USAGE)
    };
    let role = match role(args, &|name| std::env::var(name).ok()) {
        Ok(role) => role,
        Err(text) => return usage(&text),
    };
    let ranks = match &role {
        Role::Local { ranks } => *ranks,
        Role::One { world, .. } => *world,
    };
    let plan = match args.plan(ranks) {
        Ok(plan) => plan,
        Err(text) => return usage(&text),
    };
    match role {
        Role::One {
            rank,
            world,
            address,
            origin,
            job,
        } if rank > 0 => join(
            (&address, origin),
            (rank, world, job),
            Duration::from_secs_f64(plan.timeout),
        ),
        role => lead(args, plan, &role),
    }
}

const NO_RANK: &str = "--rendezvous, and nothing says which rank this is\n  try: --rank R --ranks N with it on each \
    process, or a launcher (torchrun, srun, mpirun)";

/// What the command line and the launcher make of this process.
fn role(args: &PerfArgs, env: launch::Env<'_>) -> Result<Role, String> {
    if let (Some(rank), Some(world), Some(address)) = (args.rank, args.ranks, &args.rendezvous) {
        if rank >= world {
            return Err(format!(
                "--rank {rank} of --ranks {world}: ranks are numbered from 0"
            ));
        }
        let job = "by hand".to_owned();
        return Ok(Role::One {
            rank,
            world,
            address: address.clone(),
            origin: "",
            job,
        });
    }
    let alone = |ranks| match args.rendezvous {
        None => Ok(Role::Local { ranks }),
        // Each of the processes that were to meet there would start ranks of its own.
        Some(_) => Err(NO_RANK.to_owned()),
    };
    if let Some(ranks) = args.ranks {
        return alone(ranks);
    }
    let Some(l) = launch::detect(env)?.filter(|l| l.world > 1) else {
        return alone(2);
    };
    let origin = if args.rendezvous.is_some() {
        ""
    } else {
        l.origin
    };
    let address = args.rendezvous.clone().or(l.address).ok_or_else(|| {
        format!(
            "started by {} as rank {} of {}, but its variables name no place to meet\n  try: --rendezvous HOST:PORT with the host of rank 0 and a free port, or --ranks N to start local ranks",
            l.by, l.rank, l.world
        )
    })?;
    Ok(Role::One {
        rank: l.rank,
        world: l.world,
        address,
        origin,
        job: l.job,
    })
}

/// A rank that comes to somebody else's hub.
fn join(
    (address, origin): (&Address, &str),
    (rank, world, job): (usize, usize, String),
    limit: Duration,
) -> ExitCode {
    let waiting = || {
        out::error_line(&format!(
            "ofi perf: rank {rank} of {world} is waiting for rank 0 at {address}{origin}"
        ));
    };
    let stream = match Stream::connect(address, limit, waiting) {
        Ok(stream) => stream,
        Err(e) => {
            out::error_line(&format!(
                "ofi perf: rank {rank} finds nobody at {address}: {e}\n  likely: rank 0 has not started or has ended, or a firewall\n  try: the same --rendezvous on every rank, reachable from here"
            ));
            return ExitCode::from(STUCK);
        }
    };
    if rank::run(stream, rank, world, job) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}

/// The first process: hub, and parent of the ranks it starts.
fn lead(args: &PerfArgs, plan: Plan, role: &Role) -> ExitCode {
    let quiet = args.json.as_deref().is_some_and(|p| p.as_os_str() == "-");
    let job = if let Role::One { job, .. } = role {
        job.clone()
    } else {
        String::new()
    };
    let files = match Files::open(args) {
        Ok(files) => files,
        Err(text) => {
            out::error_line(&format!("ofi perf: {text}"));
            return ExitCode::from(USAGE);
        }
    };
    let mut hub = Hub::new(plan.clone(), job, out::is_live());
    if let Err(e) = start(&mut hub, role) {
        out::error_line(&format!("ofi perf: cannot start the run: {e}"));
        return ExitCode::from(FAILED);
    }
    let outcome = hub.run();
    if let Role::One {
        address: Address::Path(path),
        ..
    } = role
    {
        // Ours by the bind; a next run would find it in its way.
        drop(std::fs::remove_file(path));
    }
    if !quiet {
        table::print(&outcome);
    }
    let written = files.write(args, &plan, &outcome);
    let code = verdict(&plan, &outcome, quiet);
    match written {
        Ok(()) => ExitCode::from(code),
        Err(text) => {
            out::error_line(&format!("ofi perf: {text}"));
            ExitCode::from(code.max(FAILED))
        }
    }
}

fn start(hub: &mut Hub, role: &Role) -> Result<(), String> {
    match role {
        Role::Local { ranks } => {
            (0..*ranks).try_for_each(|r| hub.start_child(r).map_err(|e| format!("rank {r}: {e}")))
        }
        Role::One {
            address, origin, ..
        } => {
            let bound = hub.listen(address, origin);
            bound.map_err(|e| {
                format!(
                    "cannot listen at {address}: {e}\n  likely: another run is there, or the address is not of this host\n  try: another --rendezvous"
                )
            })?;
            hub.start_child(0).map_err(|e| format!("rank 0: {e}"))
        }
    }
}

/// The last lines, and the exit status.
fn verdict(plan: &Plan, outcome: &Outcome, quiet: bool) -> u8 {
    let (messages, bytes) = json::verified(outcome);
    match &outcome.verdict {
        Verdict::Good if plan.verifies() && !quiet => {
            let seed = plan.seed;
            out::line(&format!(
                "checked {messages} messages, {bytes} bytes ({}), seed {seed}",
                rounded(bytes)
            ));
            if messages > 0 {
                out::line(promise(outcome.rows.iter().map(|r| r.verified)));
            }
            0
        }
        Verdict::Good => 0,
        Verdict::Failed(why) => {
            out::error_line(&format!("ofi perf: failed: {why}"));
            FAILED
        }
        Verdict::Stuck(why) => {
            out::error_line(&format!("ofi perf: stuck: {why}"));
            STUCK
        }
    }
}

/// What a good run may say of its rows, of which some may only have been timed.
fn promise(mut verified: impl Iterator<Item = bool>) -> &'static str {
    if verified.all(|v| v) {
        "all bytes verified"
    } else {
        "all bytes of the rows marked * verified"
    }
}

/// Runs one rank that `ofi perf` has started: its socket is standard input.
pub(crate) fn run_rank(args: &RankArgs) -> ExitCode {
    process::die_with_parent();
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let stream = match socket {
        Ok(fd) if std::os::unix::process::parent_id() == args.parent => {
            Stream::Unix(UnixStream::from(fd))
        }
        other => {
            let why = other
                .err()
                .unwrap_or_else(|| io::Error::other("its parent is gone"));
            out::error_line(&format!("ofi perf: rank {} cannot start: {why}", args.rank));
            return ExitCode::from(FAILED);
        }
    };
    if rank::run(stream, args.rank, args.world, String::new()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}
