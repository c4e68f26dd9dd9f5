//! Byte counts as people write them: `8`, `64K`, `1M`, lists of them, and ranges.

/// No message, region or pool is larger than this (2 GiB - 4 KiB fits every `int` of the ABIs).
pub(crate) const MAX_BYTES: usize = (1 << 31) - 4096;

/// `8`, `64K`, `1M`, `2G`; powers of 1024.
pub(crate) fn parse_one(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| format!("{text:?} is not a size such as 8, 64K or 1M"))?;
    number
        .checked_mul(1 << shift)
        .filter(|n| *n <= MAX_BYTES)
        .ok_or_else(|| format!("{text} is more than the {} that fit", human(MAX_BYTES)))
}

/// A comma-separated list of sizes and ranges `from:to:xFACTOR` (the factor is 2 if not given; the
/// end is always included).
pub(crate) fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let mut out = Vec::new();
    for part in text.split(',') {
        if part.contains(':') {
            range(part, &mut out)?;
        } else {
            out.push(parse_one(part)?);
        }
    }
    if out.len() > 256 {
        return Err(format!(
            "{} sizes are more than the 256 that one run takes",
            out.len()
        ));
    }
    Ok(out)
}

fn range(text: &str, out: &mut Vec<usize>) -> Result<(), String> {
    let form = || format!("{text:?} is not a range such as 1:64M:x2");
    let mut parts = text.split(':');
    let (Some(from), Some(to), factor, None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(form());
    };
    let (from, to) = (parse_one(from)?, parse_one(to)?);
    let factor: usize = match factor {
        None => 2,
        Some(f) => f
            .strip_prefix('x')
            .and_then(|f| f.parse().ok())
            .ok_or_else(form)?,
    };
    if from == 0 || factor < 2 || from > to {
        return Err(format!(
            "{text}: a range goes up from at least 1 by a factor of at least 2"
        ));
    }
    let mut at = from;
    while at < to {
        out.push(at);
        at = at.saturating_mul(factor);
    }
    out.push(to);
    Ok(())
}

/// The shortest exact form: `8`, `64K`, `1536`, `1M`.
pub(crate) fn human(bytes: usize) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >> shift > 0 && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// For totals: `1.50 GiB`.
pub(crate) fn rounded(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let digits = if unit == "B" { 0 } else { 2 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units_and_refuse_the_rest() {
        assert_eq!(parse_one("0"), Ok(0));
        assert_eq!(parse_one("64k"), Ok(65_536));
        assert_eq!(parse_one(" 1M "), Ok(1 << 20));
        for bad in [
            "",
            "K",
            "1.5M",
            "-1",
            "3G",
            "1T",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert!(parse_one(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(parse_list("0,1:16:x4"), Ok(vec![0, 1, 4, 16]));
        assert_eq!(parse_list("1:10:x4"), Ok(vec![1, 4, 10]));
        assert_eq!(parse_list("1:4"), Ok(vec![1, 2, 4]));
        assert_eq!(parse_list("8:8"), Ok(vec![8]));
        for bad in [
            "0:8",
            "8:4",
            "1:2:3",
            "1:8:x1",
            "1:8:x2:x2",
            "1:",
            ",",
            "1,,2",
        ] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn printing_is_exact_or_rounded() {
        assert_eq!(
            [human(0), human(1536), human(65_536), human(1 << 20)],
            ["0", "1536", "64K", "1M"]
        );
        assert_eq!(rounded(512), "512 B");
        assert_eq!(rounded(3 << 29), "1.50 GiB");
    }
}
