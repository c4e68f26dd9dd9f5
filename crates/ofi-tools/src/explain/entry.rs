//! An entry of the tables of codes: of the plugins' errors and warnings, and of what doctor finds.

use ofi_net::Code;
use ofi_net::error::Severity;
use serde_json::{Value, json};

use crate::doctor;

/// What a table says of a code.
#[derive(Debug)]
pub(super) struct Entry {
    code: String,
    title: &'static str,
    /// In words, what kind of thing it is.
    kind: &'static str,
    /// The likeliest first; none for a finding, whose evidence says it.
    likely: Vec<&'static str>,
    fix: &'static str,
}

/// The entry of a code such as OFI-E0501, in any case and with or without OFI-; `None` for any other word.
pub(super) fn of(word: &str) -> Option<Entry> {
    let word = word.to_ascii_uppercase();
    let bare = word.strip_prefix("OFI-").unwrap_or(&word);
    let whole = format!("OFI-{bare}");
    if let Some(code) = Code::find(&whole).filter(|_| whole.len() == "OFI-E0501".len()) {
        return Some(of_plugin(code));
    }
    let (code, title, fix) = doctor::codes().find(|(code, ..)| *code == whole)?;
    Some(Entry {
        code,
        title,
        kind: "a finding of ofi doctor",
        likely: Vec::new(),
        fix,
    })
}

fn of_plugin(code: Code) -> Entry {
    let info = code.info();
    Entry {
        code: code.to_string(),
        title: info.title,
        kind: match info.severity {
            Severity::Error => "something failed",
            Severity::Warning => "a warning: the job runs on",
        },
        likely: info.likely.to_vec(),
        fix: info.fix,
    }
}

impl Entry {
    pub(super) fn text(&self) -> Vec<String> {
        let mut text = vec![format!("{}: {} ({})", self.code, self.title, self.kind)];
        if !self.likely.is_empty() {
            text.push("  likely, the likeliest first:".to_owned());
        }
        let causes = (1..).zip(&self.likely);
        text.extend(causes.map(|(n, cause)| format!("    {n}. {cause}")));
        text.push(format!("  do: {}", self.fix));
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "code": self.code,
            "title": self.title,
            "kind": self.kind,
            "likely": self.likely,
            "fix": self.fix,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn codes_are_known_by_any_of_their_spellings_and_other_words_are_not() {
        for word in ["OFI-E0501", "ofi-e0501", "E0501", "OFI-W0501"] {
            let text = of(word).unwrap().text();
            assert!(
                text[0].starts_with("OFI-E0501: memory could not"),
                "{text:?}"
            );
            assert!(text.last().unwrap().contains("ulimit -l"), "{text:?}");
        }
        assert!(of("W0204").unwrap().text()[0].contains("a warning"));
        assert!(of("OFI-D310").unwrap().text()[0].contains("locked memory"));
        for word in [
            "OFI-E9999",
            "E05011",
            "log.txt",
            "",
            "OFI-",
            "-",
            "E\u{e9}501",
        ] {
            assert!(of(word).is_none(), "{word}");
        }
    }
}
