//! A process of its own for foreign code: what it says on standard output, its log, and how it ended, all
//! within a deadline.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// What a child may say; more is no answer.
const ANSWER_MAX: u64 = 1 << 20;
const LOG_LINES_MAX: usize = 400;
const POLL: Duration = Duration::from_millis(20);
/// How long its last words may take once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Variables of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Env<'a> {
    /// They are all; else they come beside those of this process.
    pub(super) is_whole: bool,
    /// Of two with one name the first counts.
    pub(super) pairs: &'a [(String, String)],
}

impl Env<'_> {
    /// Sets them.
    pub(super) fn apply(&self, command: &mut Command) {
        if self.is_whole {
            command.env_clear();
        }
        let pairs = self.pairs.iter().rev();
        // What the kernel does not take as one is none (execve(2)).
        let is_one = |(name, value): &&(String, String)| {
            !name.is_empty() && !name.contains('\0') && !value.contains('\0')
        };
        command.envs(pairs.filter(is_one).map(|(name, value)| (name, value)));
    }
}

/// Variables by which a process leaves files behind. A look at a host leaves none, least of all among those of
/// a job, whose tools would take them for its processes.
const LEAVES_FILES: [&str; 3] = [
    "OFI_NCCL_STATS_DIR",
    "OFI_NCCL_DUMP_DIR",
    "OFI_NCCL_TRACE_FILE",
];

/// What came of a child.
#[derive(Debug)]
pub(super) enum Ended {
    /// It ended; the answer may be nothing.
    Said {
        answer: String,
        status: ExitStatus,
        log: Vec<String>,
    },
    /// It did not, and was ended.
    Silent { seconds: f64, log: Vec<String> },
}

/// Runs a child to its end, or to the deadline.
pub(super) fn watch(mut command: Command, deadline: Duration) -> std::io::Result<Ended> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in LEAVES_FILES {
        command.env_remove(name);
    }
    let mut child = command.spawn()?;
    let (said, logged) = (child.stdout.take(), child.stderr.take());
    let answer = said
        .map(|from| read_in_thread(from, read_all))
        .transpose()?;
    let log = logged
        .map(|from| read_in_thread(from, read_lines))
        .transpose()?;
    let status = wait(&mut child, deadline)?;
    // Whoever the child started may hold its pipes open for longer than it lives.
    let take = |from: Option<Receiver<Vec<String>>>| {
        from.and_then(|from| from.recv_timeout(LAST_WORDS).ok())
            .unwrap_or_default()
    };
    let Some(status) = status else {
        let seconds = deadline.as_secs_f64();
        return Ok(Ended::Silent {
            seconds,
            log: take(log),
        });
    };
    Ok(Ended::Said {
        answer: take(answer).join("\n"),
        status,
        log: take(log),
    })
}

fn wait(child: &mut Child, deadline: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= deadline {
            // Ours, and stuck in foreign code.
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Its end, for people.
pub(super) fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal} ({})", signal_name(signal)),
        None => format!(
            "it ended by itself with status {}",
            status.code().unwrap_or(-1)
        ),
    }
}

const fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGBUS => "SIGBUS: the file of a library is shorter than it says, or memory ran out",
        libc::SIGSEGV => "SIGSEGV: a crash in the plugin, or in what it uses",
        libc::SIGABRT => "SIGABRT: a library gave up; its last line says why",
        libc::SIGILL => "SIGILL: built for another processor",
        libc::SIGKILL => "SIGKILL: by the out-of-memory killer, or by somebody",
        _ => "see signal(7)",
    }
}

fn read_in_thread<R: Read + Send + 'static>(
    from: R,
    read: fn(R) -> Vec<String>,
) -> std::io::Result<Receiver<Vec<String>>> {
    let (to, result) = channel();
    let thread = std::thread::Builder::new().name("probe".to_owned());
    thread.spawn(move || drop(to.send(read(from))))?;
    Ok(result)
}

fn read_all<R: Read>(from: R) -> Vec<String> {
    let mut bytes = Vec::new();
    drop(from.take(ANSWER_MAX).read_to_end(&mut bytes));
    vec![String::from_utf8_lossy(&bytes).into_owned()]
}

fn read_lines<R: Read>(from: R) -> Vec<String> {
    let lines = BufReader::new(from.take(ANSWER_MAX)).split(b'\n');
    let lines = lines.map_while(Result::ok).take(LOG_LINES_MAX);
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}
