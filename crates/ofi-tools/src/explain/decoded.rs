//! Lines with a code of this project's plugins: what its table says of the code, and what the line itself says
//! more nearly, of the provider's number in it.

use ofi_net::Code;
use ofi_net::error::Severity;

use super::pattern::Kind;
use super::seen::Meaning;

/// What a code and its numbers mean.
#[derive(Debug)]
pub(super) struct OfCode {
    pub(super) number: u16,
    /// Sets it apart from others of the same code: its decoded numbers.
    pub(super) apart: String,
    pub(super) meaning: Meaning,
}

/// Of a line that has a code.
pub(super) fn of_line(line: &str) -> Option<OfCode> {
    let code = Code::find(line)?;
    let info = code.info();
    let near = nearer(line);
    let (what, fix) = match &near {
        Some((what, likely)) => (format!("{code} {}: {what}", info.title), likely.clone()),
        None => (
            format!(
                "{code} {}; likely: {}",
                info.title,
                info.likely.join(", or ")
            ),
            info.fix.to_owned(),
        ),
    };
    let fix = if fix.is_empty() {
        info.fix.to_owned()
    } else {
        fix
    };
    Some(OfCode {
        number: info.number,
        apart: near.map(|(what, _)| what).unwrap_or_default(),
        meaning: Meaning {
            kind: match info.severity {
                Severity::Warning => Kind::Note,
                Severity::Error => Kind::Cause,
            },
            what,
            fix,
            source: code.to_string(),
        },
    })
}

/// What a plugin made of the numbers of a provider: `.. provider error 4112 (FI_ENOMEM (12), Cannot allocate
/// memory; EFA: what; likely: why); ..`. The words after the errno's, and what they are likely due to.
pub(crate) fn nearer(line: &str) -> Option<(String, String)> {
    const LONGEST: usize = 400;
    let (_, rest) = line.split_once("provider error ")?;
    let (number, rest) = rest.split_once(" (")?;
    number.parse::<i32>().ok()?;
    let (_, decoded) = inside(rest)?.split_once("; ")?;
    let (what, likely) = decoded.split_once("; likely: ").unwrap_or((decoded, ""));
    let text = |text: &str| {
        let shown = text.trim().chars().take(LONGEST);
        shown
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    };
    Some((text(what), text(likely)))
}

/// Up to the bracket that closes; to the end where the line is cut before it.
fn inside(text: &str) -> Option<&str> {
    let mut depth = 1_u32;
    let end = text.char_indices().find(|(_, c)| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    text.get(..end.map_or(text.len(), |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::{nearer, of_line};
    use ofi_net::error::EFA_STATUS;

    fn line(number: i32, decoded: &str) -> String {
        format!(
            "ip-1:1:2 [0] NCCL WARN NET/OFI OFI-E0601 an operation failed: device 0 (rdmap16s27): peer fe80::1: communicator 1, message 3: Write on data rail 0 failed: errno 12, provider error {number} (FI_ENOMEM (12), Cannot allocate memory{decoded}); likely: the peer process died, or the network path failed; do: look at the peer's log first"
        )
    }

    #[test]
    fn the_number_of_the_provider_is_nearer_than_the_code() {
        for efa in EFA_STATUS {
            let likely = match efa.likely {
                "" => String::new(),
                likely => format!("; likely: {likely}"),
            };
            let found = of_line(&line(
                efa.number,
                &format!("; EFA: {}{likely}", efa.meaning),
            ));
            let meaning = found.unwrap().meaning;
            let what = format!("OFI-E0601 an operation failed: EFA: {}", efa.meaning);
            assert_eq!(meaning.what, what);
            let fix = if efa.likely.is_empty() {
                "look at the peer's log"
            } else {
                efa.likely
            };
            assert!(
                meaning.fix.starts_with(fix),
                "{}: {}",
                efa.number,
                meaning.fix
            );
        }
    }

    #[test]
    fn without_one_the_table_of_codes_counts() {
        let meaning = of_line(&line(107, "")).unwrap().meaning;
        assert!(meaning.what.contains("; likely: "), "{}", meaning.what);
        assert!(of_line("OFI-E9999 x").is_none());
        for text in [
            "provider error ",
            "provider error x (a; b)",
            "provider error 1 (",
            "provider error 1 (a)",
        ] {
            assert_eq!(nearer(text), None, "{text}");
        }
        // A line that its writer cut.
        let cut = nearer("provider error 4112 (a (b); EFA: c");
        assert_eq!(cut, Some(("EFA: c".to_owned(), String::new())));
    }
}
