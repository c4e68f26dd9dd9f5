//! Where words go: the seam to whatever prints lines. The plugins put the collectives library's
//! logger behind it; tests collect lines in a vector.
//!
//! Rules: a line is written where the error is decided, once; nothing is logged on the path of a
//! message that goes well; a line is one line, without a newline at its end.

use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::error::{Code, NetError};

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

/// One line, as a [`Log`] takes it. Only this module makes one: with [`warn()`] from an error of the
/// table, so that no warning is without a code, and with [`info()`] and [`trace()`] from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    level: Level,
    subsys: Subsys,
    code: Option<Code>,
    place: &'static Location<'static>,
    text: String,
}

impl Line {
    /// How much it matters.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// What it is about.
    #[must_use]
    pub const fn subsys(&self) -> Subsys {
        self.subsys
    }

    /// Its row of the table of codes: every warning has one, and no other line.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        self.code
    }

    /// The place in our sources that wrote it: file and line.
    #[must_use]
    pub const fn place(&self) -> (&'static str, u32) {
        (self.place.file(), self.place.line())
    }

    /// The line, without a newline; foreign text may be in it, `%` included.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Takes lines. Called from any thread; never from a signal handler; must not call back into the
/// transport.
pub trait Log: Send + Sync {
    /// Whether a line of `level` could be printed. A `true` may be wrong (the library filters again);
    /// a `false` saves the caller the formatting.
    fn enabled(&self, level: Level) -> bool;

    /// Takes one line.
    fn log(&self, line: &Line);
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

    fn log(&self, _line: &Line) {}
}

/// Keeps lines back until it is known whether they matter: of an attempt that may be followed by
/// another one, which says the same again.
pub(crate) struct Held<'a> {
    log: &'a dyn Log,
    lines: Mutex<Vec<Line>>,
}

impl<'a> Held<'a> {
    pub(crate) fn new(log: &'a dyn Log) -> Self {
        Self {
            log,
            lines: Mutex::default(),
        }
    }

    /// What somebody has to do something about, whatever came of the attempt.
    pub(crate) fn warnings(mut self) -> Self {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| line.level <= Level::Warn);
        self
    }

    /// Writes the lines of all of these in order, each text once.
    pub(crate) fn release<const N: usize>(held: [Self; N]) {
        let mut said = HashSet::new();
        for Self { log, lines } in held {
            let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
            for line in lines {
                if !said.contains(&line.text) {
                    log.log(&line);
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

    fn log(&self, line: &Line) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line.clone());
    }
}

/// Writes one line that somebody has to do something about, with the caller's place: what the error
/// says, with its code, likely causes and what to do. The error is made only when it is wanted.
#[track_caller]
pub fn warn(log: &dyn Log, subsys: Subsys, error: impl FnOnce() -> NetError) {
    if log.enabled(Level::Warn) {
        let error = error();
        log.log(&Line {
            level: Level::Warn,
            subsys,
            code: Some(error.code()),
            place: Location::caller(),
            text: error.to_string(),
        });
    }
}

/// Writes what was decided, with the caller's place. The text is made only when it is wanted.
#[track_caller]
pub fn info(log: &dyn Log, subsys: Subsys, text: impl FnOnce() -> String) {
    plain(log, Level::Info, subsys, text);
}

/// As [`info()`], for whoever debugs the transport itself.
#[track_caller]
pub fn trace(log: &dyn Log, subsys: Subsys, text: impl FnOnce() -> String) {
    plain(log, Level::Trace, subsys, text);
}

#[track_caller]
fn plain(log: &dyn Log, level: Level, subsys: Subsys, text: impl FnOnce() -> String) {
    if log.enabled(level) {
        log.log(&Line {
            level,
            subsys,
            code: None,
            place: Location::caller(),
            text: text(),
        });
    }
}

/// A counter for each code.
#[derive(Debug)]
pub struct PerCode([Repeats; Code::ALL.len()]);

impl Default for PerCode {
    fn default() -> Self {
        Self::new()
    }
}

impl PerCode {
    /// All at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Repeats::new() }; Code::ALL.len()])
    }

    /// As [`Repeats::permit`].
    pub fn permit(&self, code: Code) -> Option<u32> {
        self.0.get(code as usize).map_or(Some(1), Repeats::permit)
    }

    /// One line for each kind whose last ones were not written: how many there were in all. For the
    /// end of what they are about.
    pub fn close(&self, log: &dyn Log, context: &str) {
        for (code, repeats) in Code::ALL.iter().zip(&self.0) {
            if let Some(n) = repeats.unsaid() {
                warn(log, Subsys::Net, || {
                    let what =
                        format!("{n} of this kind in all, of which the first few were written");
                    NetError::new(*code, what).context(context)
                });
            }
        }
    }
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

    /// How many there were, if the last of them was not let through.
    #[must_use]
    pub fn unsaid(&self) -> Option<u32> {
        let n = self.count();
        (n > Self::PLAIN && !n.is_power_of_two()).then_some(n)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Line, Log, PerCode, Repeats, Subsys, warn};
    use crate::error::{Code, NetError};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<Line>>);

    impl Log for Lines {
        fn enabled(&self, level: Level) -> bool {
            level <= Level::Warn
        }

        fn log(&self, line: &Line) {
            let (file, number) = line.place();
            assert!(file.ends_with("log.rs") && number > 0, "{file}:{number}");
            self.0.lock().unwrap().push(line.clone());
        }
    }

    #[test]
    fn a_line_below_the_level_is_never_formatted() {
        let lines = Lines::default();
        super::info(&lines, Subsys::Net, || {
            panic!("formatted although nobody wants it")
        });
        warn(&lines, Subsys::Net, || NetError::new(Code::Unowned, "seen"));
        let lines = lines.0.into_inner().unwrap();
        assert_eq!((lines.len(), lines[0].level()), (1, Level::Warn));
        assert_eq!(
            (lines[0].code(), lines[0].subsys()),
            (Some(Code::Unowned), Subsys::Net)
        );
        assert!(lines[0].text().starts_with("OFI-W0608 "), "{lines:?}");
    }

    #[test]
    fn what_was_not_written_is_told_once_at_the_end() {
        let (lines, said) = (Lines::default(), PerCode::new());
        for _ in 0..100 {
            said.permit(Code::Unowned);
        }
        for _ in 0..16 {
            said.permit(Code::Operation);
        }
        said.close(&lines, "eth0");
        let lines = lines.0.into_inner().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let text = lines[0].text();
        assert!(
            text.starts_with("OFI-W0608") && text.contains("eth0: 100 of this kind"),
            "{text}"
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
