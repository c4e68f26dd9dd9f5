//! An entry of the tables of codes: of the plugins' errors and warnings, and of what doctor finds.

use ofi_net::Code;
use ofi_net::error::Severity;

use crate::doctor;

/// The entry of a code such as OFI-E0501, in any case and with or without OFI-; `None` for any other word.
pub(super) fn of(word: &str) -> Option<Vec<String>> {
    let word = word.to_ascii_uppercase();
    let bare = word.strip_prefix("OFI-").unwrap_or(&word);
    let whole = format!("OFI-{bare}");
    if let Some(code) = Code::find(&whole).filter(|_| whole.len() == "OFI-E0501".len()) {
        return Some(of_plugin(code));
    }
    let (code, title, fix) = doctor::codes().find(|(code, ..)| *code == whole)?;
    Some(vec![
        format!("{code}: {title} (a finding of ofi doctor)"),
        format!("  do: {fix}"),
    ])
}

fn of_plugin(code: Code) -> Vec<String> {
    let info = code.info();
    let kind = match info.severity {
        Severity::Error => "something failed",
        Severity::Warning => "a warning: the job runs on",
    };
    let mut text = vec![format!("{code}: {} ({kind})", info.title)];
    text.push("  likely, the likeliest first:".to_owned());
    let causes = (1..).zip(info.likely);
    text.extend(causes.map(|(n, cause)| format!("    {n}. {cause}")));
    text.push(format!("  do: {}", info.fix));
    text
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn codes_are_known_by_any_of_their_spellings_and_other_words_are_not() {
        for word in ["OFI-E0501", "ofi-e0501", "E0501", "OFI-W0501"] {
            let text = of(word).unwrap();
            assert!(
                text[0].starts_with("OFI-E0501: memory could not"),
                "{text:?}"
            );
            assert!(text.last().unwrap().contains("ulimit -l"), "{text:?}");
        }
        assert!(of("W0204").unwrap()[0].contains("a warning"));
        assert!(of("OFI-D310").unwrap()[0].contains("locked memory"));
        for word in [
            "OFI-E9999",
            "E05011",
            "log.txt",
            "",
            "OFI-",
            "-",
            "E\u{e9}501",
        ] {
            assert_eq!(of(word), None, "{word}");
        }
    }
}
