//! Lines with a code of this project's plugins: what its table says of the code, and what the line itself says
//! more nearly, of the provider's number in it; and such numbers in lines of other plugins, and of libfabric.

use ofi_net::Code;
use ofi_net::error::{EfaStatus, Severity, efa_status};

use super::pattern::{Kind, Known};
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

/// Of a line of somebody else, in small letters, that has a number of EFA's: which, and what it means. `known` is what
/// the table makes of its words. Where the log says that another provider is used (`is_elsewhere`) only what EFA's says
/// itself is its number.
pub(super) fn of_number(
    small: &str,
    known: Option<&Known>,
    is_elsewhere: bool,
) -> Option<(usize, Meaning)> {
    /// Given back since another operation failed.
    const FLUSHED: i32 = 1;
    let number = match is_elsewhere {
        true => of_provider(small),
        false => of_entry(small).or_else(|| of_provider(small)),
    };
    let efa = number.and_then(efa_status)?;
    let number = efa.number;
    let is_follower = known.is_some_and(|known| known.kind == Kind::Follow);
    // Nothing of the device: the words are all there is.
    if number == 0 || is_follower && number != FLUSHED {
        return None;
    }
    let EfaStatus {
        meaning, likely, ..
    } = efa;
    let name = format!("EFA {number}");
    let meaning = Meaning {
        kind: match number {
            FLUSHED => Kind::Follow,
            _ => Kind::Cause,
        },
        what: format!("{name}: {meaning}"),
        fix: match (*likely, known) {
            ("", Some(known)) => known.fix.to_owned(),
            ("", None) => "ofi pair between the two hosts tells what is wrong".to_owned(),
            (likely, _) => likely.to_owned(),
        },
        source: known.map_or(name, |known| known.source.to_owned()),
    };
    usize::try_from(number).ok().map(|number| (number, meaning))
}

/// As the plugins of the reference write it (`completed with error. RC: 103. Error: 13 (..)`), programs that print the
/// entry of a completion queue (`prov_errno: 13`, `prov_errno=13`).
fn of_entry(small: &str) -> Option<i32> {
    let digits = |text: &str| -> Option<i32> {
        let text = text.trim_start_matches([' ', ':', '=', '(']);
        let end = text.find(|c: char| !c.is_ascii_digit());
        let number = text.get(..end.unwrap_or(text.len()))?;
        number.parse().ok()
    };
    let behind = |word: &str| digits(small.split_once(word)?.1);
    if let Some((_, rest)) = small.split_once("completed with error") {
        let number = rest
            .split_once("error: ")
            .and_then(|(_, rest)| digits(rest));
        return number.or_else(|| behind("prov_errno"));
    }
    let named = [
        "prov_errno",
        "prov errno",
        "provider errno",
        "provider error",
    ];
    named.into_iter().find_map(behind)
}

/// As EFA's provider writes it: `libfabric:..:efa:.. message: .. (13)`.
fn of_provider(small: &str) -> Option<i32> {
    let (_, message) = small
        .split_once(":efa:")
        .and_then(|(_, rest)| rest.split_once("message: "))?;
    let (_, last) = message.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    last.parse().ok()
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
    use super::{Kind, nearer, of_line, of_number};
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

    /// Each number, in the words of each who writes it.
    #[test]
    fn numbers_in_lines_of_others_are_decoded() {
        for efa in EFA_STATUS.iter().filter(|efa| efa.number != 0) {
            let number = efa.number;
            for line in [
                format!(
                    "h:1:2 [0] NCCL WARN NET/OFI Request 0x7f completed with error. RC: 103. Error: {number} (some words (more)). Completed length: 0, Request: {{ dev: 0 }}"
                ),
                format!("NET/OFI Request 0x7f completed with error. RC: 5. Error: {number}"),
                format!("cq entry: err=5 prov_errno={number} flags=0"),
                format!("fi_cq_readerr: err: 5, prov_errno: {number}, some words"),
                format!("Provider errno {number}: some words"),
                format!(
                    "libfabric:42:1700000000::efa:cq:efa_rdm_cq_poll():11<warn> err: 113, message: Words (of it) My addr: fi_addr_efa://[fe80::1]:0:1 ({number})"
                ),
            ] {
                let found = of_number(&line.to_ascii_lowercase(), None, false);
                let (_, meaning) = found.unwrap_or_else(|| panic!("{line}"));
                let what = format!("EFA {number}: {}", efa.meaning);
                assert_eq!(meaning.what, what, "{line}");
                assert!(!meaning.fix.is_empty());
                let kind = if number == 1 {
                    Kind::Follow
                } else {
                    Kind::Cause
                };
                assert_eq!(meaning.kind, kind, "{line}");
            }
        }
        let efas = "x:efa:cq: err: 113, message: words (13)";
        assert!(of_number(efas, None, true).is_some());
        let others = "request completed with error. rc: 5. error: 18 (vni_not_found)";
        assert!(of_number(others, None, true).is_none());
        for none in [
            "request completed with error. rc: 125. error: flushed",
            "request completed with error. rc: 13",
            "register memory failed. rc: -12, error: 13",
            "prov_errno: 107",
            "prov_errno: 0",
            "prov_errno: ",
            "prov_errno: 99999999999999999999",
            "x:efa:mr:message: (4112) more",
            "x:tcp:cq:message: a (4112)",
        ] {
            assert!(of_number(none, None, false).is_none(), "{none}");
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
