//! The logger given to the plugin.
//!
//! C declares it as a variadic function. Stable Rust cannot define one, so a function with six
//! fixed arguments stands in: on Linux on x86-64 (System V: r9) and on aarch64 (AAPCS64: x5) the
//! first variadic argument travels exactly where a sixth fixed one would. It is looked at only
//! when the format is `"%s"`, where the caller has promised a string; any other format is printed
//! as it stands, since its arguments cannot be reached. On other targets it is never looked at.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::library::text_at;
use crate::report::out;

const WARN: i32 = 2;
const INFO: i32 = 3;

/// Messages above this level are dropped (`ncclDebugLogLevel`: 2 WARN, 3 INFO, 5 TRACE).
static LEVEL: AtomicI32 = AtomicI32::new(0);
/// The rank, for the prefix of each line.
static RANK: AtomicU32 = AtomicU32::new(0);
/// Whether there is no option for more.
static KEPT: AtomicBool = AtomicBool::new(false);
/// How many WARN lines the plugin has logged.
static WARNINGS: AtomicU64 = AtomicU64::new(0);

/// Chooses what is printed from now on.
pub(crate) fn configure(rank: u32, level: i32) {
    RANK.store(rank, Ordering::Relaxed);
    LEVEL.store(level, Ordering::Relaxed);
}

/// WARN lines so far, printed or not.
pub(crate) fn warnings() -> u64 {
    WARNINGS.load(Ordering::Relaxed)
}

/// What of the plugin's log the user has before him.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No line, because there was none or the level hides it.
    Nothing,
    /// WARN lines, and none of a higher level.
    Warnings,
    /// INFO lines too.
    Everything,
    /// What there is of it comes with the error: this command has no option for more.
    Kept,
}

/// WARN lines go to whoever started this process, which shows what it wants of them.
pub(crate) fn keep() {
    KEPT.store(true, Ordering::Relaxed);
    configure(0, WARN);
}

/// What has been printed until now.
pub(crate) fn shown() -> Shown {
    if KEPT.load(Ordering::Relaxed) {
        return Shown::Kept;
    }
    match LEVEL.load(Ordering::Relaxed) {
        INFO.. => Shown::Everything,
        WARN if warnings() > 0 => Shown::Warnings,
        _ => Shown::Nothing,
    }
}

/// The function whose address the plugin gets.
pub(crate) unsafe extern "C" fn log(
    level: c_int,
    _flags: c_ulong,
    file: *const c_char,
    line: c_int,
    fmt: *const c_char,
    first: *const c_void,
) {
    if level == WARN {
        WARNINGS.fetch_add(1, Ordering::Relaxed);
    }
    if level > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let format = text_at(fmt).unwrap_or_default();
    let text = if format == "%s" && FIRST_VARIADIC_IS_SIXTH {
        text_at(first.cast()).unwrap_or_default()
    } else {
        format
    };
    let file = text_at(file).unwrap_or_else(|| "?".to_owned());
    let rank = RANK.load(Ordering::Relaxed);
    out::error_line(&format!(
        "[rank {rank} {} {file}:{line}] {text}",
        level_name(level)
    ));
}

const FIRST_VARIADIC_IS_SIXTH: bool = cfg!(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
));

/// The text of a line that [`log`] wrote for a warning.
pub(crate) fn warning(line: &str) -> Option<&str> {
    let (head, text) = line.strip_prefix("[rank ")?.split_once("] ")?;
    let is_warning = head.split(' ').nth(1) == Some(level_name(WARN));
    is_warning.then_some(text)
}

const fn level_name(level: c_int) -> &'static str {
    match level {
        1 => "VERSION",
        2 => "WARN",
        3 => "INFO",
        4 => "ABORT",
        5 => "TRACE",
        _ => "LOG",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_whether_printed_or_not() {
        let before = warnings();
        // SAFETY: all pointers are NULL or NUL-terminated literals, as the contract of the logger
        // asks; the format is "%s" with a string behind it.
        unsafe {
            log(
                WARN,
                1,
                c"file.c".as_ptr(),
                3,
                c"%s".as_ptr(),
                c"text".as_ptr().cast(),
            );
        }
        assert_eq!(warnings(), before + 1);
    }
}
