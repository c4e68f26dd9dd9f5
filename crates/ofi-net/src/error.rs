//! What goes wrong, for people and for the API: a stable code, one line of text that says what failed
//! with which values, why that is likely, and what to do; and the errno that decides which result
//! the plugin's caller gets (protocol 2a.1).
//!
//! Codes stand in one table ([`Code::info`]). Everything below this crate fails with typed values;
//! here they become codes, once.

use core::fmt;
use efa_fabric::CompletionError;
use ofi_rdma::Cause;

pub use codes::{Code, CodeInfo, Severity};
pub use efa::{EFA_STATUS, EfaStatus, efa_status};

mod codes;
mod efa;
mod from;
mod hints;

/// One error. 24 bytes; made only when something failed (it allocates).
#[derive(Clone, PartialEq, Eq)]
pub struct NetError {
    code: Code,
    reported: bool,
    errno: i32,
    what: Box<str>,
}

impl NetError {
    /// An error of `code`: `what` says what failed, with the values, and starts in lower case.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        let what = what.into().into_boxed_str();
        Self {
            code,
            reported: false,
            errno: -code.info().errno,
            what,
        }
    }

    /// The same with another errno than the code's own; either sign is taken, 0 changes nothing.
    #[must_use]
    pub const fn with_errno(mut self, errno: i32) -> Self {
        if errno != 0 {
            // i32::MIN has no absolute value; no errno is near it.
            self.errno = if errno > 0 { -errno } else { errno };
        }
        self
    }

    /// The same with `context` put before the text: `connect to 10.0.0.2: ...`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what).into_boxed_str();
        self
    }

    /// The same with whose handle it is, if it is about a handle.
    #[must_use]
    pub(crate) fn of_handle(self, whose: impl FnOnce() -> String) -> Self {
        match self.code {
            Code::CorruptHandle => self.context(format_args!("the listener of {}", whose())),
            _ => self,
        }
    }

    /// The same, as the `n`-th of its kind (from 1): for a line that stands for those not written.
    #[must_use]
    pub fn counted(mut self, n: u32) -> Self {
        if n > 1 {
            self.what = format!("{} (number {n} of this kind)", self.what).into_boxed_str();
        }
        self
    }

    /// Marks it as written to the log already, so that the C edge does not write it again
    /// (style 24: log once, where the error is decided).
    #[must_use]
    pub const fn mark_reported(mut self) -> Self {
        self.reported = true;
        self
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Negative errno, as the translation of protocol 2a.1 takes it.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.errno
    }

    /// What failed, with the values.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Without likely causes and what to do: for a part of a line that has its own.
    pub(crate) fn titled(&self) -> String {
        format!("{} {}: {}", self.code, self.code.info().title, self.what)
    }

    /// Whether the log has it already.
    #[must_use]
    pub const fn is_reported(&self) -> bool {
        self.reported
    }
}

/// `OFI-E0123` or `OFI-W0123` alone.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info();
        let letter = match info.severity {
            Severity::Error => 'E',
            Severity::Warning => 'W',
        };
        write!(f, "OFI-{letter}{:04}", info.number)
    }
}

impl Code {
    /// The code in a text: the first `OFI-E0123` or `OFI-W0123` whose number is in the table. The letter
    /// is not looked at: the number alone says which it is.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        text.match_indices("OFI-").find_map(|(at, _)| {
            let rest = text.get(at + 4..)?.strip_prefix(['E', 'W'])?;
            let (digits, beyond) = rest.split_at_checked(4)?;
            let is_number = digits.bytes().all(|c| c.is_ascii_digit())
                && !beyond.starts_with(|c: char| c.is_ascii_digit());
            let number: u16 = digits.parse().ok().filter(|_| is_number)?;
            Self::ALL
                .iter()
                .copied()
                .find(|code| code.info().number == number)
        })
    }
}

/// Bytes of a line: collectives libraries keep 1024 of theirs, with what they put before ours.
const LINE_BYTES: usize = 900;

/// Bytes of what failed that a line has at least, however much its code has to say.
const WHAT_BYTES: usize = 250;

/// One line: `OFI-E0123 title: what failed; likely: a, or b; do: this`. What failed is cut where the line
/// would grow so long that what to do gets lost: names and values in it are as long as others like.
impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.code.info();
        write!(f, "{} {}: ", self.code, info.title)?;
        let likely: usize = info.likely.iter().map(|cause| cause.len() + 10).sum();
        let rest = "OFI-E0123 : ; do: ".len() + info.title.len() + likely + info.fix.len();
        let room = LINE_BYTES.saturating_sub(rest).max(WHAT_BYTES);
        f.write_str(&shortened(one_line(&self.what), room))?;
        for (n, cause) in info.likely.iter().enumerate() {
            f.write_str(if n == 0 { "; likely: " } else { ", or " })?;
            f.write_str(cause)?;
        }
        write!(f, "; do: {}", info.fix)
    }
}

/// A failed completion with its numbers decoded, where they are known.
pub(crate) fn decoded(error: &CompletionError) -> String {
    let cause = Cause {
        errno: error.errno().code(),
        provider_errno: error.prov_errno(),
    };
    match hints::of_cause(cause) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// Texts of libraries may hold newlines, and names and values anything; a line of the log holds what people
/// can read.
fn one_line(text: &str) -> String {
    let parts = text.lines().map(str::trim).filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    let printable = |c: char| if c.is_control() { '?' } else { c };
    parts.join(" / ").chars().map(printable).collect()
}

/// The beginning and the end, where it has more bytes than `room`.
fn shortened(text: String, room: usize) -> String {
    if text.len() <= room {
        return text;
    }
    let room = room - " .. ".len();
    let (head, tail) = (room * 2 / 3, text.len() - room / 3);
    let head = (0..=head).rev().find_map(|at| text.get(..at));
    let tail = (tail..=text.len()).find_map(|at| text.get(at..));
    format!(
        "{} .. {}",
        head.unwrap_or_default(),
        tail.unwrap_or_default()
    )
}

impl fmt::Debug for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} (errno {})", self.errno)
    }
}

impl core::error::Error for NetError {}

#[cfg(test)]
mod tests {
    use super::{Code, NetError};
    use std::collections::HashSet;

    #[test]
    fn every_code_has_its_own_number_and_says_what_to_do() {
        let mut numbers = HashSet::new();
        for code in Code::ALL {
            let info = code.info();
            assert!(numbers.insert(info.number), "{code} is used twice");
            assert!((100..1000).contains(&info.number), "{code}");
            assert!(
                !info.likely.is_empty() && !info.fix.is_empty() && info.errno > 0,
                "{code}"
            );
            let texts = info.likely.iter().chain([&info.title, &info.fix]);
            assert!(
                texts
                    .into_iter()
                    .all(|text| text.is_ascii() && !text.contains('\n')),
                "{code}"
            );
        }
    }

    #[test]
    fn a_code_is_found_in_a_line_whatever_its_letter() {
        for code in Code::ALL {
            assert_eq!(
                Code::find(&format!("x:1 [0] WARN NET/OFI {code} what")),
                Some(*code)
            );
        }
        assert_eq!(Code::find("OFI-W0103"), Some(Code::NoProvider));
        assert_eq!(Code::find("OFI-E9999, OFI-E0103"), Some(Code::NoProvider));
        for no in [
            "OFI-E",
            "OFI-E12",
            "OFI-D0103",
            "OFI-E01034",
            "OFI-E+103",
            "OFI-E\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(Code::find(no), None, "{no}");
        }
    }

    #[test]
    fn the_letter_is_the_severity() {
        assert_eq!(Code::NoProvider.to_string(), "OFI-E0103");
        assert_eq!(Code::UnknownParameter.to_string(), "OFI-W0204");
    }

    #[test]
    fn what_repeats_is_counted() {
        let error = NetError::new(Code::Unowned, "x").counted(8);
        assert_eq!(error.what(), "x (number 8 of this kind)");
        assert_eq!(NetError::new(Code::Unowned, "x").counted(1).what(), "x");
    }

    #[test]
    fn an_error_is_one_line_with_code_values_cause_and_fix() {
        let error = NetError::new(
            Code::Register,
            "4096 bytes at 0x1000 on eth0:\n  no memory\n",
        );
        let line = error.to_string();
        assert!(
            line.starts_with("OFI-E0501 memory could not be registered: 4096 bytes"),
            "{line}"
        );
        assert!(
            line.contains("on eth0: / no memory; likely: the limit"),
            "{line}"
        );
        assert!(line.contains("; do: check `ulimit -l`"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    /// Whatever is in a variable, a file or a provider's text.
    #[test]
    fn a_line_has_what_to_do_within_what_libraries_keep_and_nothing_that_steers_a_terminal() {
        let long = "\u{e9}\u{1b}[31m\u{9b}2J\0".repeat(1000);
        for code in Code::ALL {
            let error = NetError::new(*code, format!("init: begins {long} ends\u{7}"));
            let line = error.to_string();
            assert!(line.len() <= super::LINE_BYTES, "{}: {line}", line.len());
            assert!(line.contains(": init: begins \u{e9}?[31m"), "{line}");
            assert!(line.contains(" ends?; likely: "), "{line}");
            assert!(line.ends_with(code.info().fix), "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
            let short = NetError::new(*code, "x".repeat(super::WHAT_BYTES));
            assert!(short.to_string().contains(short.what()), "{short}");
        }
    }

    #[test]
    fn an_errno_is_negative_whichever_sign_it_came_with() {
        let error = NetError::new(Code::Operation, "x");
        assert_eq!(error.errno(), -libc::EIO);
        assert_eq!(error.clone().with_errno(107).errno(), -107);
        assert_eq!(error.clone().with_errno(-107).errno(), -107);
        assert_eq!(error.with_errno(0).errno(), -libc::EIO);
    }

    #[test]
    fn context_comes_first() {
        let error = NetError::new(Code::Internal, "boom")
            .context("rail 2")
            .mark_reported();
        assert_eq!(error.what(), "rail 2: boom");
        assert!(error.is_reported());
    }

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<NetError>() <= 24, "{}", size_of::<NetError>());
    }
}
