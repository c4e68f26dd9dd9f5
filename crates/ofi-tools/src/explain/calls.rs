//! Lines of which no table knows the words, and that say that a call failed, with its number: `Couldn't open endpoint.
//! RC: -22`. What was being done is told by the words (`data/calls.csv`), why by the number.

use efa_fabric::sys::errno::errno_name;

use super::pattern::{Kind, has};
use super::seen::Meaning;
use crate::doctor::rows::rows;

const TABLE: &str = include_str!("data/calls.csv");

/// How lines say that something failed.
const FAILED: [&str; 8] = [
    "couldn't",
    "could not",
    "cannot",
    "can't",
    "unable to",
    "fail",
    "error",
    "not able to",
];

/// Who writes such lines. Others count where they have a negative number, as libfabric returns them.
const WRITERS: [&str; 4] = ["net/ofi", "nccl", "ccom", "libfabric"];

/// The largest number of `fi_errno(3)`, and more.
const ERRNO_MAX: i32 = 511;

/// What a line in small letters says; and what sets it apart: which row, and which number.
pub(super) fn of_line(small: &str) -> Option<((usize, String), Meaning)> {
    let (before, number) = number(small)?;
    let is_ours = WRITERS.iter().any(|word| small.contains(word));
    if !(number < 0 || is_ours) || !FAILED.iter().any(|word| before.contains(word)) {
        return None;
    }
    let errno = number
        .checked_abs()
        .filter(|errno| (1..=ERRNO_MAX).contains(errno))?;
    let said = |(_, [words, _]): &(usize, [&str; 2])| has(before, words);
    let (row, [_, doing]) = rows::<2>(TABLE).enumerate().find(said)?;
    let (words, fix) = meaning(errno);
    // What a loader or a provider tries in vain says so as INFO.
    let kind = match errno {
        libc::ECANCELED => Kind::Follow,
        _ if small.contains("nccl info") || small.contains("ccom info") => Kind::Fallback,
        _ => Kind::Cause,
    };
    let meaning = Meaning {
        kind,
        what: format!("{doing} failed: {words}"),
        fix: fix.to_owned(),
        source: "fi_errno(3)".to_owned(),
    };
    Some(((row, errno.to_string()), meaning))
}

/// What is before `RC: -22`, and the number.
fn number(small: &str) -> Option<(&str, i32)> {
    let mut from = 0;
    while let Some(at) = small.get(from..)?.find("rc").map(|at| from + at) {
        from = at + 2;
        let is_word = !small[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let behind = small[from..].trim_start_matches([' ', ':', '=', '(']);
        let is_apart = behind.len() < small[from..].len();
        let sign = behind.strip_prefix('-');
        let digits = sign.unwrap_or(behind);
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        if let (true, Ok(number)) = (is_word && is_apart, digits[..end].parse::<i32>()) {
            return Some((&small[..at], if sign.is_some() { -number } else { number }));
        }
    }
    None
}

/// An errno in words, and what is likely to help.
fn meaning(errno: i32) -> (String, &'static str) {
    let name = errno_name(errno).map_or_else(|| format!("errno {errno}"), str::to_owned);
    let words = std::io::Error::from_raw_os_error(errno).to_string();
    let words = words.split(" (os error").next().unwrap_or_default();
    let shown = match words.starts_with("Unknown error") {
        true => format!("{name} ({errno})"),
        false => format!("{name} ({errno}), {words}"),
    };
    let fix = match errno {
        libc::ENOMEM | libc::ENOBUFS => {
            "locked memory, or a resource of the NIC, ran out: ulimit -l unlimited (docker: --ulimit memlock=-1), fewer processes a host"
        }
        libc::EPERM | libc::EACCES => {
            "this user may not: look at the permissions of /dev/infiniband, and at what the container is allowed; ofi doctor tells which"
        }
        libc::ENOENT | libc::ENODEV | libc::ENXIO => {
            "the device is not there, or not in this container: ofi doctor tells which"
        }
        libc::ENODATA => "libfabric has no provider for what was asked: ofi doctor tells why",
        libc::ENOSYS | libc::EOPNOTSUPP => {
            "this libfabric, provider or NIC does not do what was asked: compare the versions of plugin and libfabric; ofi doctor knows those that do not fit"
        }
        libc::EINVAL => {
            "the provider does not take what was asked, or ran out of a resource (dmesg): run ofi doctor on that host; the provider's own words: FI_LOG_LEVEL=warn"
        }
        libc::ENOSPC => {
            "/dev/shm or another file system is full, or a table of the NIC: docker: --shm-size=1g or more"
        }
        libc::EAGAIN | libc::EBUSY => {
            "a queue of the provider is full: that passes, unless the peer makes no progress; look at the peer's log"
        }
        libc::ECONNREFUSED
        | libc::ECONNRESET
        | libc::ECONNABORTED
        | libc::ETIMEDOUT
        | libc::EHOSTUNREACH
        | libc::EHOSTDOWN
        | libc::ENETUNREACH
        | libc::ENOTCONN => {
            "the peer does not answer: look at its log first; ofi pair between the two hosts tells what is wrong"
        }
        libc::ECANCELED => "the first error before it is the cause",
        libc::EMFILE | libc::ENFILE => "too many files are open: raise ulimit -n",
        _ => "run ofi doctor on that host; the provider's own words: FI_LOG_LEVEL=warn",
    };
    (shown, fix)
}

#[cfg(test)]
mod tests {
    use super::{Kind, TABLE, of_line};
    use crate::doctor::rows::{lines, rows};

    fn what(line: &str) -> Option<String> {
        let (_, meaning) = of_line(&line.to_ascii_lowercase())?;
        Some(meaning.what)
    }

    #[test]
    fn every_line_is_a_row_and_the_last_takes_all() {
        assert_eq!(lines(TABLE).count(), rows::<2>(TABLE).count());
        let all: Vec<[&str; 2]> = rows(TABLE).collect();
        assert_eq!(
            all.iter().position(|[words, _]| words.is_empty()),
            Some(all.len() - 1)
        );
        assert!(all.iter().all(|[_, doing]| !doing.is_empty()));
    }

    #[test]
    fn the_words_say_what_was_done_and_the_number_why() {
        for (line, says) in [
            (
                "Couldn't open endpoint. RC: -22",
                "opening an endpoint failed: FI_EINVAL (22), Invalid argument",
            ),
            (
                "NET/OFI Couldn't bind EP-CQ. RC: -12, ERROR: x",
                "putting an endpoint together failed: FI_ENOMEM (12), ",
            ),
            (
                "Couldn't enable endpoint. RC: -19",
                "switching an endpoint on failed: FI_ENODEV (19), ",
            ),
            (
                "Unable to insert remote address into address vector for device 0. RC: -22",
                "opening an address vector failed: ",
            ),
            (
                "NCCL WARN NET/OFI Could not send a connect message; rc=113",
                "connecting to a peer failed: FI_EHOSTUNREACH (113)",
            ),
            (
                "Call to fi_writedata failed; rc: -259",
                "a call of libfabric or of the system failed: FI_EAVAIL (259)",
            ),
            (
                "NET/OFI Something new failed (rc -110)",
                "a call of libfabric or of the system failed: FI_ETIMEDOUT",
            ),
        ] {
            let found = what(line).unwrap_or_else(|| panic!("{line}"));
            let is_it = found.starts_with(says) || line.contains("insert");
            assert!(is_it, "{line}: {found}");
        }
    }

    /// Numbers of other programs, words that do not say that anything failed, numbers that are none.
    #[test]
    fn what_is_no_failed_call_is_left_alone() {
        for line in [
            "NET/OFI all is well, rc: 0",
            "NET/OFI Couldn't open endpoint. RC: 0",
            "NET/OFI opened. RC: -22",
            "my program failed: rc: 1",
            "src: -5 failed",
            "unable to find arc -5",
            "couldn't open, rc",
            "couldn't open, rc: ",
            "couldn't open, rc: -",
            "couldn't open, rc: -99999999999",
            "couldn't open, rc: -2147483648",
            "couldn't open, rc: -4096",
            "nccl failed, rc5",
        ] {
            assert_eq!(what(line), None, "{line}");
        }
    }

    #[test]
    fn every_number_has_words_and_something_to_do() {
        for errno in 1..=511 {
            let ((_, apart), meaning) = of_line(&format!("couldn't do it. rc: -{errno}")).unwrap();
            assert_eq!(apart, errno.to_string());
            assert!(
                meaning.what.contains(&format!("({errno})"))
                    || meaning.what.contains(&format!("errno {errno}")),
                "{}",
                meaning.what
            );
            assert!(!meaning.fix.is_empty());
            let kind = if errno == libc::ECANCELED {
                Kind::Follow
            } else {
                Kind::Cause
            };
            assert_eq!(meaning.kind, kind, "{errno}");
        }
        let (_, info) = of_line("x nccl info net/ofi couldn't do it. rc: -2").unwrap();
        assert_eq!(info.kind, Kind::Fallback);
    }
}
