//! Numbers as people write them: times, sizes, speeds, chances, lists of ranges.

/// A whole number, with digits only.
pub(super) fn count(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A number of at least 1.
pub(super) fn positive(text: &str) -> Option<u64> {
    count(text).filter(|n| *n > 0)
}

/// A time such as 250ns, 10us, 2ms, 1s, in nanoseconds; at most an hour.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    scaled(text, &UNITS).filter(|ns| *ns <= 3_600_000_000_000)
}

/// A size such as 4096, 64K, 2M, 1G, in bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("", 1)];
    scaled(text, &UNITS)
}

/// A speed such as 800Mbps, 10Gbps, in bits per second; at least 1.
pub(super) fn bits_per_second(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [
        ("Kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("bps", 1),
    ];
    scaled(text, &UNITS).filter(|bps| *bps > 0)
}

/// A chance in percent, such as 5% or 0.01%, in millionths.
pub(super) fn chance_ppm(text: &str) -> Option<u32> {
    let percent = text.strip_suffix('%')?;
    let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
    if part.is_empty() || part.len() > 4 {
        return None;
    }
    let padded = format!("{part:0<4}");
    let ppm = count(whole)?
        .checked_mul(10_000)?
        .checked_add(count(&padded)?)?;
    u32::try_from(ppm).ok().filter(|ppm| *ppm <= 1_000_000)
}

/// Two times `LOW..HIGH`, LOW not above HIGH.
pub(super) fn time_range_ns(text: &str) -> Option<(u64, u64)> {
    let (low, high) = text.split_once("..")?;
    let (low, high) = (time_ns(low)?, time_ns(high)?);
    (low <= high).then_some((low, high))
}

/// Numbers and ranges, `0,4-7`, ends included.
pub(super) fn ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let one = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let low = u32::try_from(count(low)?).ok()?;
        let high = u32::try_from(count(high)?).ok()?;
        (low <= high).then_some((low, high))
    };
    text.split(',').map(one).collect()
}

/// A number with the first of these units that it ends with.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let stripped = |(unit, scale): &(&str, u64)| {
        let number = text.strip_suffix(unit)?;
        Some((count(number)?, *scale))
    };
    let (number, scale) = units.iter().find_map(stripped)?;
    number.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::{bits_per_second, bytes, chance_ppm, ranges, time_ns, time_range_ns};

    #[test]
    fn units_are_read() {
        assert_eq!(time_ns("250ns"), Some(250));
        assert_eq!(time_ns("10us"), Some(10_000));
        assert_eq!(time_ns("3s"), Some(3_000_000_000));
        assert_eq!(time_range_ns("5us..1ms"), Some((5_000, 1_000_000)));
        assert_eq!(bytes("64K"), Some(65_536));
        assert_eq!(bytes("7"), Some(7));
        assert_eq!(bits_per_second("100Gbps"), Some(100_000_000_000));
        assert_eq!(bits_per_second("9bps"), Some(9));
        assert_eq!(chance_ppm("100%"), Some(1_000_000));
        assert_eq!(chance_ppm("0.01%"), Some(100));
        assert_eq!(chance_ppm("2.5%"), Some(25_000));
        assert_eq!(ranges("0,4-7"), Some(vec![(0, 0), (4, 7)]));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in [
            "",
            "s",
            "10",
            "-1us",
            "1.5us",
            "1 us",
            "+1us",
            "3601s",
            "99999999999999999999s",
        ] {
            assert_eq!(time_ns(bad), None, "{bad}");
        }
        for bad in ["1us", "2us..1us", "..", "1us..", "1us..2us..3us"] {
            assert_eq!(time_range_ns(bad), None, "{bad}");
        }
        for bad in ["5", "101%", "-1%", "0.00001%", ".5%", "5.%", "%"] {
            assert_eq!(chance_ppm(bad), None, "{bad}");
        }
        for bad in ["", ",", "1,", "2-1", "a", "1-", "-1", "4294967296"] {
            assert_eq!(ranges(bad), None, "{bad}");
        }
        for bad in ["0Gbps", "Gbps", "10", "10GB", "99999999999999Gbps"] {
            assert_eq!(bits_per_second(bad), None, "{bad}");
        }
    }
}
