//! Where words go: the seam to whatever prints lines. The plugins put the collectives library's
//! logger behind it; tests collect lines in a vector.
//!
//! Rules: a line is written where the error is decided, once; nothing is logged on the path of a
//! message that goes well; a line is one line, without a newline at its end.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How much a line matters. The numbers are those of the loggers that collectives libraries pass in
/// (protocol 2a.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Printed always; not used by us.
    Version = 1,
    /// Something is wrong and somebody has to do something about it.
    Warn = 2,
    /// What was decided, and connections coming up.
    Info = 3,
    /// The process is about to end.
    Abort = 4,
    /// For whoever debugs the transport itself.
    Trace = 5,
}

/// What a line is about; the bit is what the library filters by (protocol 2a.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subsys {
    /// Start and end of the plugin, discovery.
    Init,
    /// Communicators and data.
    Net,
    /// Parameters.
    Env,
    /// Memory registration.
    Alloc,
}

impl Subsys {
    /// The bit of the library's subsystem mask.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self {
            Self::Init => 0x1,
            Self::Net => 0x10,
            Self::Env => 0x80,
            Self::Alloc => 0x100,
        }
    }
}

/// Takes lines. Called from any thread; never from a signal handler; must not call back into the
/// transport.
pub trait Log: Send + Sync {
    /// Whether a line of `level` could be printed. A `true` may be wrong (the library filters again);
    /// a `false` saves the caller the formatting.
    fn enabled(&self, level: Level) -> bool;

    /// Takes one line. `file` and `line` are the place in our sources that wrote it.
    fn log(&self, level: Level, subsys: Subsys, file: &'static str, line: u32, text: &str);
}

impl core::fmt::Debug for dyn Log {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Log")
    }
}

/// A log that drops everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn enabled(&self, _level: Level) -> bool {
        false
    }

    fn log(&self, _: Level, _: Subsys, _: &'static str, _: u32, _: &str) {}
}

/// Keeps lines back until it is known whether they matter: of an attempt that may be followed by
/// another one, which says the same again.
pub(crate) struct Held<'a> {
    log: &'a dyn Log,
    lines: Mutex<Vec<Line>>,
}

struct Line {
    level: Level,
    subsys: Subsys,
    file: &'static str,
    line: u32,
    text: String,
}

impl<'a> Held<'a> {
    pub(crate) fn new(log: &'a dyn Log) -> Self {
        Self {
            log,
            lines: Mutex::default(),
        }
    }

    /// Writes the lines of all of these in order, each text once.
    pub(crate) fn release<const N: usize>(held: [Self; N]) {
        let mut said = HashSet::new();
        for Self { log, lines } in held {
            let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
            for line in lines {
                if !said.contains(&line.text) {
                    log.log(line.level, line.subsys, line.file, line.line, &line.text);
                    said.insert(line.text);
                }
            }
        }
    }
}

impl Log for Held<'_> {
    fn enabled(&self, level: Level) -> bool {
        self.log.enabled(level)
    }

    fn log(&self, level: Level, subsys: Subsys, file: &'static str, line: u32, text: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(Line {
            level,
            subsys,
            file,
            line,
            text: text.to_owned(),
        });
    }
}

/// Writes one line at `level`, with the caller's place. The text is made only when it is wanted.
#[track_caller]
pub fn line(log: &dyn Log, level: Level, subsys: Subsys, text: impl FnOnce() -> String) {
    if log.enabled(level) {
        let place = core::panic::Location::caller();
        log.log(level, subsys, place.file(), place.line(), &text());
    }
}

/// [`line()`] at [`Level::Warn`].
#[track_caller]
pub fn warn(log: &dyn Log, subsys: Subsys, text: impl FnOnce() -> String) {
    line(log, Level::Warn, subsys, text);
}

/// [`line()`] at [`Level::Info`].
#[track_caller]
pub fn info(log: &dyn Log, subsys: Subsys, text: impl FnOnce() -> String) {
    line(log, Level::Info, subsys, text);
}

/// [`line()`] at [`Level::Trace`].
#[track_caller]
pub fn trace(log: &dyn Log, subsys: Subsys, text: impl FnOnce() -> String) {
    line(log, Level::Trace, subsys, text);
}

/// Thins out one message that could repeat for ever: the first few are let through, then those whose
/// number is a power of two, so that a million repetitions are some twenty lines. Needs no clock.
#[derive(Debug, Default)]
pub struct Repeats(AtomicU32);

impl Repeats {
    /// So many are let through before thinning starts.
    pub const PLAIN: u32 = 4;

    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Counts one more; `Some(n)` when the `n`-th (from 1) is to be written.
    pub fn permit(&self) -> Option<u32> {
        let bump = |n: u32| Some(n.saturating_add(1));
        let before = match self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, bump)
        {
            Ok(n) | Err(n) => n,
        };
        let n = before.saturating_add(1);
        (n <= Self::PLAIN || n.is_power_of_two()).then_some(n)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Log, Repeats, Subsys, warn};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<(Level, Subsys, String)>>);

    impl Log for Lines {
        fn enabled(&self, level: Level) -> bool {
            level <= Level::Warn
        }

        fn log(&self, level: Level, subsys: Subsys, file: &'static str, line: u32, text: &str) {
            assert!(file.ends_with("log.rs") && line > 0, "{file}:{line}");
            self.0
                .lock()
                .unwrap()
                .push((level, subsys, text.to_owned()));
        }
    }

    #[test]
    fn a_line_below_the_level_is_never_formatted() {
        let lines = Lines::default();
        super::info(&lines, Subsys::Net, || {
            panic!("formatted although nobody wants it")
        });
        warn(&lines, Subsys::Net, || "seen".to_owned());
        assert_eq!(
            *lines.0.lock().unwrap(),
            [(Level::Warn, Subsys::Net, "seen".to_owned())]
        );
    }

    #[test]
    fn a_million_repetitions_are_few_lines() {
        let repeats = Repeats::new();
        let written: Vec<u32> = (0..1_000_000).filter_map(|_| repeats.permit()).collect();
        assert_eq!(written[..6], [1, 2, 3, 4, 8, 16]);
        assert!(written.len() < 24, "{}", written.len());
        assert_eq!(repeats.count(), 1_000_000);
    }

    #[test]
    fn a_full_counter_stays_full() {
        let repeats = Repeats(super::AtomicU32::new(u32::MAX - 1));
        assert_eq!(repeats.permit(), None);
        assert_eq!(repeats.permit(), None);
        assert_eq!(repeats.count(), u32::MAX);
    }
}
