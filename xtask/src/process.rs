//! Running programs, with a limit of time after which they and all they started are ended.

use core::time::Duration;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// A program with its arguments, environment and limit.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    name: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    limit: Duration,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly(ExitStatus),
    /// It was ended when its time was up.
    OutOfTime(Duration),
}

impl Program {
    pub(crate) fn new(name: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            limit: Duration::from_secs(3600),
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The same program, started by another: `words` come first.
    pub(crate) fn under(mut self, words: &[&str]) -> Self {
        let own = core::iter::once(self.name).chain(self.args);
        let mut line = words.iter().map(OsString::from).chain(own);
        self.name = line.next().unwrap_or_default();
        self.args = line.collect();
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The command as one would type it.
    pub(crate) fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| {
            format!(
                "{}={} ",
                name.to_string_lossy(),
                quoted(&value.to_string_lossy())
            )
        });
        let words = core::iter::once(&self.name).chain(&self.args);
        let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        env.collect::<String>() + &words.join(" ")
    }

    /// Runs it with our own terminal; anything but success is an error.
    pub(crate) fn run(&self) -> Result<()> {
        let child = self.command().spawn();
        let ended = self.wait(child.with_context(|| format!("cannot run {}", self.line()))?)?;
        self.expect_well(ended, "")
    }

    /// Runs it with both its outputs going to a file.
    pub(crate) fn run_into(&self, log: &File) -> Result<Ended> {
        let child = self
            .command()
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot run {}", self.line()))?;
        self.wait(child)
    }

    /// Runs it and returns its standard output; anything but success is an error that quotes the
    /// standard error.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self
            .command()
            .output()
            .with_context(|| format!("cannot run {}", self.line()))?;
        let ended = if output.status.success() {
            Ended::Well
        } else {
            Ended::Badly(output.status)
        };
        self.expect_well(ended, &String::from_utf8_lossy(&output.stderr))?;
        String::from_utf8(output.stdout).with_context(|| format!("{} is not text", self.line()))
    }

    /// Whether it can be run and succeeds. Its output goes nowhere.
    pub(crate) fn succeeds(&self) -> bool {
        let quiet = self
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        quiet.is_ok_and(|status| status.success())
    }

    /// Whether it can be run, however it ends. Its output goes nowhere.
    pub(crate) fn starts(&self) -> bool {
        let mut command = self.command();
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.name);
        command.args(&self.args).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    fn expect_well(&self, ended: Ended, stderr: &str) -> Result<()> {
        match ended {
            Ended::Well => Ok(()),
            Ended::Badly(status) => {
                bail!("{} ended with {status}\n{}", self.line(), stderr.trim_end())
            }
            Ended::OutOfTime(limit) => {
                bail!("{} was ended after {} s", self.line(), limit.as_secs())
            }
        }
    }

    fn wait(&self, mut child: Child) -> Result<Ended> {
        let start = Instant::now();
        // Polled, since std has no wait with a limit; the steps take seconds.
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() {
                    Ended::Well
                } else {
                    Ended::Badly(status)
                });
            }
            if start.elapsed() >= self.limit {
                end_family(child.id());
                child.wait()?;
                return Ok(Ended::OutOfTime(self.limit));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Kills a process and its descendants. Not a process group of its own: then an interrupt from the
/// terminal would not reach the programs.
fn end_family(pid: u32) {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(children(parent));
        next += 1;
    }
    let pids: Vec<String> = family.iter().map(u32::to_string).collect();
    let script = format!("kill -KILL {} 2>/dev/null", pids.join(" "));
    // Some may have ended meanwhile: the result says nothing.
    Program::new("sh").args(["-c", &script]).succeeds();
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// The fourth field of `/proc/PID/stat`, after a name that may hold blanks and parentheses.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// A word as a shell would need it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Program, parent_of};
    use core::time::Duration;
    use std::fs;
    use std::time::Instant;

    fn sh(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    #[test]
    fn failure_quotes_the_command_and_its_complaint() {
        let error = sh("echo gone wrong >&2; exit 3")
            .output()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("gone wrong"),
            "{error}"
        );
        let error = Program::new("no-such-program-here").run().unwrap_err();
        assert!(
            format!("{error:#}").contains("cannot run no-such-program-here"),
            "{error:#}"
        );
        assert!(!sh("exit 1").succeeds());
        assert_eq!(
            sh("printf %s \"$A\"").env("A", "x y").output().unwrap(),
            "x y"
        );
    }

    #[test]
    fn lines_can_be_pasted() {
        let line = Program::new("a")
            .args(["b c", "", "it's"])
            .env("P", "tcp;ofi_rxm")
            .line();
        assert_eq!(line, "P='tcp;ofi_rxm' a 'b c' '' 'it'\\''s'");
        let program = Program::new("a").args(["b"]).under(&["nice", "-n", "5"]);
        assert_eq!(program.line(), "nice -n 5 a b");
    }

    #[test]
    fn a_program_out_of_time_takes_its_children_along() {
        let dir = tempfile::tempdir().unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("sleep 60 & echo $! > '{}'; wait", pid_file.display());
        let limit = Duration::from_secs(1);
        let start = Instant::now();
        let ended = sh(&script).limit(limit).run_into(&log).unwrap();
        assert_eq!(ended, Ended::OutOfTime(limit));
        assert!(start.elapsed() < Duration::from_secs(30));
        let pid = fs::read_to_string(pid_file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let gone = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            parent_of(pid).is_none() || state.contains(") Z ") || state.contains(") X ")
        };
        while !gone() {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "process {pid} was left behind"
            );
            std::thread::yield_now();
        }
    }
}
