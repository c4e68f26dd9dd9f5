//! Whether a process still runs.
//!
//! `kill(pid, 0)` says yes for a process that was killed and not waited for, so /proc is asked. Peers
//! must see each other's process numbers: one pid namespace.

use std::fs;

/// A process, and when it started: the number alone may be given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot: proc_pid_stat(5), field 22.
    pub started: u64,
}

impl Incarnation {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: state_of(pid).map_or(0, |(_, started)| started),
        }
    }

    /// Whether it still runs. Costs some 10 us.
    #[must_use]
    pub fn is_alive(self) -> bool {
        state_of(self.pid)
            .is_some_and(|(state, started)| started == self.started && !is_over(state))
    }
}

/// Whether any process with this number runs. Costs some 10 us.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    state_of(pid).is_some_and(|(state, _)| !is_over(state))
}

/// Whether any process with this number runs and is not stopped, as by SIGSTOP. Costs some 10 us.
#[must_use]
pub(crate) fn is_at_work(pid: u32) -> bool {
    state_of(pid).is_some_and(|(state, _)| !is_over(state) && !matches!(state, 'T' | 't'))
}

/// Zombies have no memory any more.
fn is_over(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

fn state_of(pid: u32) -> Option<(char, u64)> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State and start time. The name, in parentheses, may hold anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = rest.next()?.chars().next()?;
    Some((state, rest.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_its_zombies_do_not() {
        assert!(Incarnation::own().is_alive());
        let other = Incarnation {
            started: 1,
            ..Incarnation::own()
        };
        assert!(!other.is_alive());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        assert!(is_running(child.id()) && is_at_work(child.id()));
        let stopped = std::process::Command::new("kill")
            .args(["-STOP", &child.id().to_string()])
            .status();
        assert!(stopped.expect("kill").success());
        while is_at_work(child.id()) {
            std::thread::yield_now();
        }
        assert!(is_running(child.id()), "stopped is not over");
        child.kill().expect("kill");
        while is_running(child.id()) {
            std::thread::yield_now();
        }
        child.wait().expect("wait");
    }

    #[test]
    fn names_with_parentheses() {
        let line = "12 (a) (b c) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse(line), Some(('Z', 4711)));
        assert_eq!(parse("12 (a"), None);
    }
}
