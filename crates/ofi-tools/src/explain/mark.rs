//! What stands before the message of a line: when it was written, and by which process. By the forms of NCCL
//! (`host:pid:tid [device] NCCL WARN ..`, with `NCCL_DEBUG_TIMESTAMP_FORMAT` a time before it), of Neuron
//! (`2026-Nov-01 10:00:00.0002 pid:tid  INFO  CCOM ..`), and of those who put a time before each line.

/// Words that are looked at for a mark.
const WORDS: usize = 16;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Which process wrote a line: what is before its thread, `host:pid` or `pid`.
pub(super) fn process(line: &str) -> Option<&str> {
    let words = line.split_ascii_whitespace().take(WORDS);
    // A time stands before it, and may look like it.
    let mut last = None;
    for word in words {
        if matches!(word, "NCCL" | "CCOM" | "INFO" | "WARN" | "ERROR") {
            break;
        }
        let of_thread = word
            .rsplit_once(':')
            .filter(|(_, thread)| is_number(thread));
        let process = of_thread.map(|(process, _)| process);
        let is_one = |process: &&str| is_number(process.rsplit(':').next().unwrap_or_default());
        last = process.filter(is_one).or(last);
    }
    last
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// When a line was written, in microseconds of a clock of its own: only their order counts.
pub(super) fn time(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(WORDS).collect();
    let trimmed = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        word.to_owned()
    };
    let one = words.iter().find_map(|word| {
        let word = trimmed(word);
        let (date, clock) = word.split_once(['T', 't'])?;
        Some(day(date)? + clock_of(clock)?)
    });
    let two = || {
        words
            .windows(2)
            .find_map(|pair| Some(day(&trimmed(pair[0]))? + clock_of(&trimmed(pair[1]))?))
    };
    one.or_else(two)
}

/// `2026-11-01`, `2026/11/01` or `2026-Nov-01`, as microseconds.
fn day(text: &str) -> Option<u64> {
    let mut parts = text.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let small = month.to_ascii_lowercase();
    let named = MONTHS.iter().position(|name| *name == small);
    let month = match named {
        Some(index) => u64::try_from(index).ok()? + 1,
        None => number(month, 12)?,
    };
    let (year, day) = (number(year, 9999)?, number(day, 31)?);
    // Days that are no dates leave gaps, and the order as it is.
    (parts.next().is_none() && year >= 1000)
        .then(|| ((year * 12 + month) * 32 + day) * 86_400_000_000)
}

/// `10:20:11`, with a fraction after `.` or `,`, with a zone after it that does not count.
fn clock_of(text: &str) -> Option<u64> {
    let text = text.split(['Z', 'z', '+']).next()?;
    let mut parts = text.splitn(3, ':');
    let (hour, minute, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (second, fraction) = rest.split_once(['.', ',']).unwrap_or((rest, ""));
    let digits = fraction.bytes().take(6).take_while(u8::is_ascii_digit);
    let micros = digits.fold((0, 100_000), |(sum, unit), digit| {
        (sum + u64::from(digit - b'0') * unit, unit / 10)
    });
    let seconds = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    Some(seconds * 1_000_000 + micros.0)
}

fn number(text: &str, most: u64) -> Option<u64> {
    let is_one = is_number(text) && text.len() <= 4;
    text.parse().ok().filter(|number| is_one && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::{process, time};

    #[test]
    fn the_process_is_what_stands_before_the_thread() {
        for (line, is) in [
            ("ip-1:4711:4811 [0] NCCL INFO x", Some("ip-1:4711")),
            (
                "[1,12]<stdout>:ip-1:1:2 [12] NCCL INFO y 9:9:9",
                Some("[1,12]<stdout>:ip-1:1"),
            ),
            (
                "2026-11-01 10:00:00 ip-1:7:8 [0] NCCL WARN x",
                Some("ip-1:7"),
            ),
            (
                "[2026-11-01 10:00:00] ip-1:7:8 [0] misc/a.cc:12 NCCL WARN x",
                Some("ip-1:7"),
            ),
            (
                "2026-Nov-01 10:00:00.0002  4711:4811  INFO  CCOM x",
                Some("4711"),
            ),
            ("NCCL version 2.21.5+cuda12.4", None),
            ("", None),
            ("NET/OFI a:1:2", None),
        ] {
            // A word that is none of a process is not one for want of another.
            let found = process(line);
            assert!(
                found == is || is.is_none() && line.starts_with("NET"),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn times_are_in_order() {
        let lines = [
            "2026-11-01T09:59:19.000Z ip-10-0-2-6:1:2 [7] NCCL INFO",
            "[2026-11-01 10:00:00] ip-1:7:8 [0] NCCL WARN",
            "2026-Nov-01 10:00:00.0002  4711:4811  INFO",
            "x 2026/11/01 10:00:00,5 y",
            "2026-11-01T10:20:11+01:00 h0:1:2",
            "2026-12-01 00:00:00 x",
            "2027-01-01 00:00:00 x",
        ];
        let times: Vec<u64> = lines.iter().map(|line| time(line).unwrap()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        for line in [
            "",
            "10:00:00",
            "2026-13-01 10:00:00",
            "2026-11-01",
            "a-b-c d:e:f",
            "99999-1-1 1:1:1",
        ] {
            assert_eq!(time(line), None, "{line}");
        }
    }
}
