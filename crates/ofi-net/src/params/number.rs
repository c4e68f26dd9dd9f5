//! Numbers as strtoll(3) with base 0 reads them (protocol 2i), but the whole text has to be a number,
//! and nothing wraps.

/// A number within `min..=max`; the error says why not.
pub(super) fn ranged(text: &str, min: i64, max: i64) -> Result<i64, String> {
    match integer(text) {
        Some(n) if (i128::from(min)..=i128::from(max)).contains(&n) => {
            // The range is one of i64, so this never fails.
            i64::try_from(n).map_err(|error| error.to_string())
        }
        Some(n) => Err(format!("{n} is outside {min}..={max}")),
        None => Err(format!(
            "it is a number in {min}..={max}, decimal, 0x.. or 0.."
        )),
    }
}

/// A flag: true, false (any case), or a number, of which 0 is false.
pub(super) fn flag(text: &str) -> Result<i64, String> {
    let word = text.trim();
    if word.eq_ignore_ascii_case("true") {
        return Ok(1);
    }
    if word.eq_ignore_ascii_case("false") {
        return Ok(0);
    }
    match integer(word).map(i64::try_from) {
        Some(Ok(n)) => Ok(i64::from(n != 0)),
        _ => Err("it is 0 or 1, false or true".to_owned()),
    }
}

/// Up to 2^64 or so: more than any parameter takes, so that "out of range" can name the number.
fn integer(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        Some(hex) => (16, hex),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    // from_str_radix would take a second sign.
    let all_digits = digits.chars().all(|c| c.is_digit(radix));
    let value = all_digits
        .then(|| i128::from_str_radix(digits, radix).ok())
        .flatten()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::{flag, integer, ranged};

    #[test]
    fn bases_are_those_of_strtoll() {
        let cases = [
            ("12", 12),
            ("0x10", 16),
            ("010", 8),
            (" 7 ", 7),
            ("+3", 3),
            ("-0X1f", -31),
        ];
        for (text, value) in cases {
            assert_eq!(integer(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "", " ", "abc", "1e3", "1 2", "0x", "--1", "+-1", "09", "1_000", "\u{661}",
        ] {
            assert_eq!(integer(text), None, "{text:?}");
        }
        assert_eq!(integer(&"9".repeat(60)), None);
    }

    #[test]
    fn nothing_wraps() {
        assert!(ranged("-1", 0, i64::MAX).is_err_and(|e| e.contains("-1 is outside 0..=")));
        ranged("99999999999999999999", 0, i64::MAX).unwrap_err();
        assert_eq!(ranged("-1", -1, 10), Ok(-1));
    }

    #[test]
    fn flags_take_words_and_numbers() {
        let cases = [
            ("TRUE", 1),
            ("false", 0),
            ("2", 1),
            ("-1", 1),
            ("0x0", 0),
            (" 1", 1),
        ];
        for (text, value) in cases {
            assert_eq!(flag(text), Ok(value), "{text}");
        }
        assert!(flag("yes").is_err() && flag("1e3").is_err());
    }
}
