//! The caller's logger as a [`Log`]. It is variadic like printf(3), so it is always called with the
//! constant format "%s" and one finished string: nothing in a text is ever taken for a format.

use core::ffi::{CStr, c_int, c_ulong};
use std::ffi::CString;

use ofi_net::log::{Level, Line, Log};

use crate::abi::LogFn;

/// The caller's logger; none means silence.
#[derive(Clone, Copy, Debug)]
pub struct CLogger(Option<LogFn>);

impl CLogger {
    /// Wraps what init was given.
    ///
    /// # Safety
    /// `function` must be callable from any thread, with a printf-style format, until the plugin is
    /// finalised.
    #[must_use]
    pub const unsafe fn new(function: Option<LogFn>) -> Self {
        Self(function)
    }
}

/// The library cuts lines at 1024 bytes or so; a longer one of ours is cut here, visibly.
const TEXT_BYTES_MAX: usize = 4000;
const PREFIX: &str = "NET/OFI ";

impl Log for CLogger {
    fn enabled(&self, level: Level) -> bool {
        // The library does not say what it prints; it filters itself. Trace lines would be made for
        // nothing almost always.
        self.0.is_some() && level != Level::Trace
    }

    fn log(&self, line: &Line) {
        let Some(function) = self.0 else { return };
        let (level, (file, number)) = (line.level(), line.place());
        let file = c_string(file);
        let text = c_string(&format!("{PREFIX}{}", line.text()));
        let flags = if level == Level::Warn {
            c_ulong::MAX
        } else {
            line.subsys().bits()
        };
        let number = c_int::try_from(number).unwrap_or(0);
        let format: &CStr = c"%s";
        // SAFETY: by the contract of `new` the function takes a printf-style format; "%s" takes
        // exactly the one NUL-terminated string that follows; both outlive the call.
        unsafe {
            function(
                level as c_int,
                flags,
                file.as_ptr(),
                number,
                format.as_ptr(),
                text.as_ptr(),
            );
        }
    }
}

/// NUL-terminated, without a NUL, a newline or another control character inside, bounded. Names of devices
/// and values of variables may be in it.
fn c_string(text: &str) -> CString {
    let cut = text
        .char_indices()
        .nth(TEXT_BYTES_MAX / 4)
        .map_or(text.len(), |(at, _)| at);
    let (kept, rest) = text.split_at(cut);
    let printable = |c: char| match c {
        '\0' | '\n' => ' ',
        c if c.is_control() => '?',
        c => c,
    };
    let mut shown: String = kept.chars().map(printable).collect();
    if !rest.is_empty() {
        shown.push_str("..");
    }
    // No NUL is left; an empty string is what remains if there were.
    CString::new(shown).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{CLogger, c_string};
    use ofi_net::log::{Level, Log as _, Subsys, info};

    #[test]
    fn a_missing_logger_is_silence() {
        // SAFETY: no function.
        let logger = unsafe { CLogger::new(None) };
        assert!(!logger.enabled(Level::Warn));
        info(&logger, Subsys::Net, || panic!("nobody hears this"));
    }

    #[test]
    fn strings_for_c_have_nothing_but_text_and_an_end() {
        assert_eq!(c_string("a\0b\nc").to_bytes(), b"a b c");
        assert_eq!(c_string("%s %n").to_bytes(), b"%s %n");
        assert_eq!(c_string("\u{1b}[31m\u{9b}\t").to_bytes(), b"?[31m??");
        let long = c_string(&"\u{e9}".repeat(100_000));
        assert!(long.as_bytes().len() < 4010 && long.as_bytes().ends_with(b".."));
        assert_eq!(
            long.to_string_lossy()
                .matches(char::REPLACEMENT_CHARACTER)
                .count(),
            0
        );
    }
}
