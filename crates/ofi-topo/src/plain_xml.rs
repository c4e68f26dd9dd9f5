//! What a topology file has beyond the XML that files of NCCL are written in: elements, attributes in double quotes,
//! blanks and line ends between elements, comments (the file that the reference has for p4d begins with one).
//!
//! NCCL reads it by a parser of its own, of which the facts tell no more than its limits (protocol 2h.4). So what is
//! found here may be refused, and need not be.

use core::fmt;
use std::collections::BTreeMap;

/// What is beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Beyond {
    ByteOrderMark,
    Declaration,
    Section,
    SingleQuotes,
    Tabs,
    LineEndInElement,
    References,
    Text,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "a byte order mark before the first element",
            Self::Declaration => "a declaration or instruction (<?..?>)",
            Self::Section => "a document type or a section (<!..>)",
            Self::SingleQuotes => "a value in single quotes",
            Self::Tabs => "a tab",
            Self::LineEndInElement => "a line end within an element",
            Self::References => "a reference (&..;)",
            Self::Text => "text between elements",
        })
    }
}

/// Each kind that is there, with the first line that has it: a sentence each, by line.
pub(crate) fn beyond(text: &str) -> Vec<String> {
    let mut found: BTreeMap<Beyond, usize> = BTreeMap::new();
    let mut add = |what, line| {
        found.entry(what).or_insert(line);
    };
    let mut rest = text;
    if let Some(after) = text.strip_prefix('\u{feff}') {
        add(Beyond::ByteOrderMark, 1);
        rest = after;
    }
    let mut line = 1;
    while !rest.is_empty() {
        let (part, within) = next(rest);
        match within {
            Part::Between => between(part, line, &mut add),
            Part::Element => element(part, line, &mut add),
            Part::Comment => {}
            Part::Instruction => add(Beyond::Declaration, line),
            Part::Section => add(Beyond::Section, line),
        }
        line += part.matches('\n').count();
        rest = rest.get(part.len()..).unwrap_or_default();
    }
    let mut found: Vec<(usize, Beyond)> =
        found.into_iter().map(|(what, line)| (line, what)).collect();
    found.sort_unstable();
    let sentence = |(line, what)| format!("line {line}: {what}: NCCL's own parser may refuse it");
    found.into_iter().map(sentence).collect()
}

#[derive(Clone, Copy)]
enum Part {
    Between,
    Element,
    Comment,
    Instruction,
    Section,
}

/// The first part of a text, which is not empty; nor is the part.
fn next(rest: &str) -> (&str, Part) {
    let up_to = |end: &str| {
        let at = rest.find(end).map_or(rest.len(), |at| at + end.len());
        rest.get(..at).unwrap_or(rest)
    };
    if rest.starts_with("<!--") {
        (up_to("-->"), Part::Comment)
    } else if rest.starts_with("<![CDATA[") {
        (up_to("]]>"), Part::Section)
    } else if rest.starts_with("<!") {
        (up_to(">"), Part::Section)
    } else if rest.starts_with("<?") {
        (up_to("?>"), Part::Instruction)
    } else if rest.starts_with('<') {
        (
            rest.get(..end_of_element(rest)).unwrap_or(rest),
            Part::Element,
        )
    } else {
        let at = rest.find('<').unwrap_or(rest.len());
        (rest.get(..at).unwrap_or(rest), Part::Between)
    }
}

/// Behind the first `>` that is in no value.
fn end_of_element(rest: &str) -> usize {
    let mut quote = None;
    for (at, c) in rest.char_indices() {
        match (quote, c) {
            (None, '>') => return at + 1,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    rest.len()
}

fn between(part: &str, line: usize, add: &mut impl FnMut(Beyond, usize)) {
    for (number, text) in (line..).zip(part.split('\n')) {
        if text.contains('\t') {
            add(Beyond::Tabs, number);
        }
        if text.contains('&') {
            add(Beyond::References, number);
        } else if !text.trim().is_empty() {
            add(Beyond::Text, number);
        }
    }
}

fn element(part: &str, line: usize, add: &mut impl FnMut(Beyond, usize)) {
    let (mut quote, mut line) = (None, line);
    for c in part.chars() {
        match (quote, c) {
            (None, '\'') => {
                add(Beyond::SingleQuotes, line);
                quote = Some(c);
            }
            (None, '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (_, '\t') => add(Beyond::Tabs, line),
            (_, '\n') => {
                add(Beyond::LineEndInElement, line);
                line += 1;
            }
            (_, '&') => add(Beyond::References, line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn each_kind_is_told_once_with_its_first_line() {
        const PLAIN: &str = "<system version=\"1\">\n  <cpu numaid=\"0\"/>\r\n</system>\n";
        assert_eq!(beyond(PLAIN), [""; 0]);
        for (text, line, what) in [
            (format!("\u{feff}{PLAIN}"), 1, "a byte order mark"),
            (
                format!("<?xml version='1.0'?>\n{PLAIN}"),
                1,
                "a declaration",
            ),
            (
                format!("<!-- it's\t& <a> -->\n<!DOCTYPE system>\n{PLAIN}"),
                2,
                "a document type",
            ),
            (PLAIN.replace("\"0\"", "'0'"), 2, "a value in single quotes"),
            (
                PLAIN.replace("  <", "\t<").replace("</s", "\t</s"),
                2,
                "a tab",
            ),
            (PLAIN.replace("<cpu ", "<cpu\t"), 2, "a tab"),
            (PLAIN.replace("<cpu ", "<cpu\n"), 2, "a line end within"),
            (PLAIN.replace("\"0\"", "\"&#48;\""), 2, "a reference"),
            (PLAIN.replace("\"0\"/>", "\"0\">x</cpu>"), 2, "text between"),
            (
                PLAIN.replace("\"0\"/>", "\"0\"><![CDATA[\n<\n]]></cpu>"),
                2,
                "a document type or a section",
            ),
        ] {
            let found = beyond(&text);
            let [one] = &found[..] else {
                panic!("{text}: {found:?}");
            };
            assert!(
                one.starts_with(&format!("line {line}: {what}")),
                "{text}: {one}"
            );
        }
        // A comment, and what is in one or in a value, is nothing.
        for plain in [
            format!("<!--\n\tit's <?a?> &b; --->\n{PLAIN}<!-- -->"),
            PLAIN.replace("\"0\"", "\"it's > 0\""),
        ] {
            assert_eq!(beyond(&plain), [""; 0], "{plain}");
        }
        // Without an end: none of the crate's business, and no loop.
        for open in [
            "<",
            "<!",
            "<!--",
            "<?",
            "<a b=\"",
            "<![CDATA[",
            "&",
            "\u{feff}",
        ] {
            beyond(open);
        }
    }
}
