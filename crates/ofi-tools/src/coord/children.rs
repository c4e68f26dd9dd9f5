//! Local ranks: this program again, with a socket for standard input.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::stream::Stream;
use crate::bench::plan::Override;
use crate::emu;

/// Starts rank `rank`; the stream is the hub's end of its socket.
pub(crate) fn start(rank: usize, world: usize, env: &[Override]) -> io::Result<(Child, Stream)> {
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
    for o in env.iter().filter(|o| o.rank.is_none_or(|r| r == rank)) {
        command.env(&o.name, &o.value);
    }
    Ok((command.spawn()?, Stream::Unix(ours)))
}

/// How a process ended, in words.
pub(crate) fn ended(pid: u32, status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process {pid} ended with status {code}"),
        (None, Some(signal)) => format!(
            "its process {pid} was killed by signal {signal} ({}){}",
            signal_name(signal),
            planned(pid, signal).unwrap_or_else(|| signal_hint(signal).to_owned())
        ),
        (None, None) => format!("its process {pid} ended ({status})"),
    }
}

/// What a plan for emulated NICs has to do with it.
fn planned(pid: u32, signal: i32) -> Option<String> {
    (signal == libc::SIGKILL).then(|| emu::by_plan(pid))?
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
