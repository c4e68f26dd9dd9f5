//! The only place that prints.

use std::io::{self, IsTerminal as _, Write as _};

/// A line on standard output. A closed pipe (`| head`) is no error of ours.
pub(crate) fn line(text: &str) {
    drop(writeln!(io::stdout().lock(), "{text}"));
}

/// A line on standard error.
pub(crate) fn error_line(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Text on standard error without a line end, over what stands in the line.
pub(crate) fn live(text: &str) {
    let mut to = io::stderr().lock();
    drop(write!(to, "\r\x1b[K{text}").and_then(|()| to.flush()));
}

/// Whether standard error is a terminal.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal()
}
