//! The only place that prints.

use core::sync::atomic::{AtomicBool, Ordering};
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Something of standard output was lost.
static IS_CUT: AtomicBool = AtomicBool::new(false);

/// A line on standard output. A closed pipe (`| head`) is no error of ours; a full disk is.
pub(crate) fn line(text: &str) {
    let written = writeln!(io::stdout().lock(), "{}", printable(text));
    if written.is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        IS_CUT.store(true, Ordering::Relaxed);
    }
}

/// Whether something of standard output was lost.
pub(crate) fn is_cut() -> bool {
    IS_CUT.load(Ordering::Relaxed)
}

/// Takes away what stands on the terminal of standard output.
pub(crate) fn clear() {
    drop(write!(io::stdout().lock(), "\x1b[H\x1b[2J"));
}

/// A line on standard error.
pub(crate) fn error_line(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", printable(text)));
}

/// Much of what is printed is from files and environments of others: nothing of it steers a terminal.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.contains(steers) {
        true => Cow::Owned(text.replace(steers, "?")),
        false => Cow::Borrowed(text),
    }
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

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(
            printable("a\u{1b}[31m\r\u{7}\u{9b}b\tc\nd"),
            "a?[31m???b\tc\nd"
        );
        assert_eq!(printable("plain"), "plain");
    }
}
