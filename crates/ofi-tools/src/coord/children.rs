//! Local ranks: this program again, with a socket for standard input.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::stream::Stream;
use crate::bench::plan::Override;
use crate::emu;

/// A rank on this machine.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) process: Child,
    /// What was set for it beside this process's own environment; of one name the last counts.
    set: Vec<(String, String)>,
}

/// Starts rank `rank`; the stream is the hub's end of its socket.
pub(crate) fn start(rank: usize, world: usize, env: &[Override]) -> io::Result<(Local, Stream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("perf-rank")
        .arg("--rank")
        .arg(rank.to_string())
        .arg("--world")
        .arg(world.to_string())
        .arg("--parent")
        .arg(std::process::id().to_string())
        // What an emulated provider names the process after.
        .env("OFI_PERF_RANK", rank.to_string())
        // As a launcher would say it to a plugin, whose dumps have it.
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", world.to_string())
        .stdin(Stdio::from(OwnedFd::from(theirs)));
    let set = set_for(rank, env);
    command.envs(set.iter().map(|(name, value)| (name, value)));
    let process = command.spawn()?;
    Ok((Local { process, set }, Stream::Unix(ours)))
}

fn set_for(rank: usize, env: &[Override]) -> Vec<(String, String)> {
    let own = env.iter().filter(|o| o.rank.is_none_or(|r| r == rank));
    own.map(|o| (o.name.clone(), o.value.clone())).collect()
}

impl Local {
    /// How it ended, in words.
    pub(crate) fn ended(&self, status: ExitStatus) -> String {
        let pid = self.process.id();
        match (status.code(), status.signal()) {
            (Some(code), _) => format!("its process {pid} ended with status {code}"),
            (None, Some(signal)) => format!(
                "its process {pid} was killed by signal {signal} ({}){}",
                signal_name(signal),
                self.planned(signal)
                    .unwrap_or_else(|| signal_hint(signal).to_owned())
            ),
            (None, None) => format!("its process {pid} ended ({status})"),
        }
    }

    /// What a plan for emulated NICs has to do with it: the one that it has, not the one here.
    fn planned(&self, signal: i32) -> Option<String> {
        let has = |name: &str| {
            let own = self.set.iter().rfind(|(other, _)| other == name);
            own.map_or_else(
                || std::env::var(name).ok(),
                |(_, value)| Some(value.clone()),
            )
        };
        (signal == libc::SIGKILL).then(|| emu::by_plan(self.process.id(), &has))?
    }
}

const fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGABRT => "SIGABRT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        _ => "see signal(7)",
    }
}

const fn signal_hint(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV | libc::SIGBUS | libc::SIGABRT | libc::SIGILL | libc::SIGFPE => {
            "\n  likely: a fault of the plugin or a library below it\n  try: the same run with --log info, or one rank of it by hand under a debugger (--rank, --ranks, --rendezvous)"
        }
        libc::SIGKILL => {
            "\n  likely: out of memory (see dmesg), or killed by hand\n  try: fewer ranks, a smaller --pool or --max-size"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a rank that SIGKILL ended, of a run with these overrides.
    fn told_of(rank: usize, env: &[(Option<usize>, &str, &str)]) -> String {
        let env: Vec<Override> = (env.iter().copied())
            .map(|(rank, name, value)| Override {
                rank,
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect();
        let process = Command::new("true").spawn().unwrap();
        let set = set_for(rank, &env);
        let mut local = Local { process, set };
        local.process.wait().unwrap();
        local.ended(ExitStatus::from_raw(libc::SIGKILL))
    }

    #[test]
    fn a_plan_is_that_of_the_rank_which_it_is_set_for() {
        let plan = "EFA_EMU_PLAN";
        let env = [(None, plan, "die at=1"), (Some(1), plan, "die at=9")];
        let (all, own) = (told_of(0, &env), told_of(1, &env));
        assert!(
            all.contains("\"die at=1\"") && !all.contains("at=9"),
            "{all}"
        );
        assert!(
            own.contains("\"die at=9\"") && !own.contains("at=1"),
            "{own}"
        );
        // Without one it is a signal as any other; so it is with one that was taken away.
        for without in [&env[1..], &[env[0], (Some(0), plan, "")]] {
            let told = told_of(0, without);
            assert!(
                told.contains("out of memory") && !told.contains("die"),
                "{told}"
            );
        }
    }
}
