//! What docs/field-reports.md quotes of this project's output is still said: words drift where nobody looks.
//!
//! A quote stands between backquotes in the column "what a user sees"; `..` in it is what was left out. Of each part,
//! three words that follow each other have to stand in a string of the sources, or in a table of them. Words with
//! digits are values. A code has to exist, and what follows it up to a colon has to be its title.

use super::files::TextFile;
use super::lexer;

/// The page that quotes.
const PAGE: &str = "docs/field-reports.md";
/// The heading of the column that has quotes.
const COLUMN: &str = "what a user sees";
/// Pages that are made from the tables of codes.
const CODES: [&str; 2] = ["docs/errors.md", "docs/doctor.md"];
/// Words that have to follow each other.
const WORDS: usize = 3;
/// Words of the C library: a part that has nothing else is not ours.
const FOREIGN: [&str; 1] = ["Cannot allocate memory"];
/// How a command begins, which is no output.
const COMMAND: &str = "ofi ";
/// Quotes that there are at least: fewer mean that this does not read the page any more.
const QUOTES_MIN: usize = 100;

/// Quotes of what nothing says.
pub(super) fn check(files: &[TextFile]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE}: missing")];
    };
    let (said, codes) = (said(files), codes(files));
    let (mut count, mut faults) = (0, Vec::new());
    for (id, cell) in cells(&page.text) {
        let quotes = cell.split('`').skip(1).step_by(2);
        for quote in quotes.filter(|quote| !quote.starts_with(COMMAND)) {
            count += 1;
            let is_said = quote.split("..").all(|part| is_said(part, &said));
            if !is_said || !is_code(quote, &codes) {
                faults.push(format!("{PAGE}: {id}: nothing says `{quote}` any more"));
            }
        }
    }
    if count < QUOTES_MIN {
        faults.push(format!("{PAGE}: {count} quotes in the column \"{COLUMN}\""));
    }
    faults
}

/// The cells of the column, with the ids of their rows.
fn cells(page: &str) -> Vec<(&str, &str)> {
    let mut at = None;
    let mut found = Vec::new();
    for line in page.lines() {
        let Some(line) = line.trim().strip_prefix('|') else {
            at = None;
            continue;
        };
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        match at {
            None => at = Some(row.iter().position(|name| *name == COLUMN)),
            Some(Some(column)) => found.extend(row.first().copied().zip(row.get(column).copied())),
            Some(None) => {}
        }
    }
    found
}

/// All strings of the sources and the tables that they include, with one blank between words.
fn said(files: &[TextFile]) -> String {
    let is_source = |path: &str| {
        (path.starts_with("crates/") || path.starts_with("plugin/")) && path.contains("/src/")
    };
    let of_sources = files.iter().filter(|file| is_source(&file.path));
    let texts = of_sources.map(|file| match file.extension() {
        "rs" => lexer::split(&file.text).strings.replace("\\\n", ""),
        "csv" => file.text.clone(),
        _ => String::new(),
    });
    let words: Vec<String> = texts
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    // A quote cannot have the marks that it stands between.
    words.join(" ").replace('`', "")
}

/// Codes with their titles, as the pages have them.
fn codes(files: &[TextFile]) -> Vec<(String, String)> {
    let pages = files
        .iter()
        .filter(|file| CODES.contains(&file.path.as_str()));
    let lines = pages.flat_map(|page| page.text.lines());
    let found = lines.filter_map(|line| {
        if let Some(heading) = line.strip_prefix("### ") {
            return heading.split_once(": ");
        }
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.nth(1)?))
    });
    let found = found.filter(|(code, _)| code.starts_with("OFI-"));
    found
        .map(|(code, title)| (code.to_owned(), title.to_owned()))
        .collect()
}

/// Whether a quote that begins with a code has one that exists, with the beginning of its title.
fn is_code(quote: &str, codes: &[(String, String)]) -> bool {
    if !quote.starts_with("OFI-") {
        return true;
    }
    let (code, rest) = quote.split_once([' ', ':']).unwrap_or((quote, ""));
    let Some((_, title)) = codes.iter().find(|(known, _)| known == code) else {
        return false;
    };
    let told = rest.split([':', ';']).next().unwrap_or_default();
    let told = told.split("..").next().unwrap_or_default().trim();
    title.starts_with(told)
}

const fn is_of_value(c: char) -> bool {
    c.is_ascii_digit() || c == '='
}

/// Whether some words of a part that follow each other are said; one of values alone says nothing.
fn is_said(part: &str, said: &str) -> bool {
    let is_value = |word: &&str| !word.contains(char::is_alphabetic) || word.contains(is_of_value);
    let part = FOREIGN
        .iter()
        .fold(part.to_owned(), |part, foreign| part.replace(foreign, " "));
    let words: Vec<&str> = part.split_whitespace().collect();
    let runs = words
        .split(|word| is_value(word))
        .filter(|run| run.len() >= WORDS);
    let mut windows = runs.flat_map(|run| run.windows(WORDS)).peekable();
    windows.peek().is_none() || windows.any(|window| said.contains(&window.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::{cells, check, codes, is_code, is_said, said};
    use crate::tidy::files::TextFile;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn quotes_are_those_of_the_column() {
        let page = "| id | fault | what a user sees | guarded by |\n|---|---|---|---|\n\
            | A-1 | x | `one two` | `f::t` |\n\n| id | fault | guarded by |\n|---|---|---|\n| A-2 | `y` | z |\n";
        let found = cells(page);
        assert_eq!(found, [("---", "---"), ("A-1", "`one two`")]);
    }

    #[test]
    fn words_are_looked_for_in_strings_alone() {
        let source =
            "// the peer is gone away\nlet x = \"memory could \\\n    not be registered: {what}\";";
        let said = said(&[
            file("crates/x/src/a.rs", source),
            file("docs/b.md", "it is late"),
        ]);
        assert!(
            is_said("memory could not be registered: 12 bytes", &said),
            "{said}"
        );
        assert!(is_said(" eth0 is 7 ", &said), "values alone");
        for other in [
            "the peer is gone away",
            "memory could be registered",
            "it is late",
        ] {
            assert!(!is_said(other, &said), "{other}");
        }
    }

    #[test]
    fn a_code_has_its_title() {
        let errors = file(
            "docs/errors.md",
            "### OFI-E0501: memory could not be registered\n",
        );
        let doctor = file(
            "docs/doctor.md",
            "| OFI-D101 | error | the plugin is switched off | unset it | X |\n",
        );
        let codes = codes(&[errors, doctor]);
        for good in [
            "OFI-E0501 memory could not be registered: .. 12",
            "OFI-E0501",
            "OFI-D101 the plugin is switched off",
            "OFI-E0501 memory could ..",
            "no code",
        ] {
            assert!(is_code(good, &codes), "{good}");
        }
        for bad in [
            "OFI-E0502",
            "OFI-E0501 memory is gone: x",
            "OFI-D101: memory",
        ] {
            assert!(!is_code(bad, &codes), "{bad}");
        }
    }

    #[test]
    fn a_page_without_quotes_is_a_fault() {
        let faults = check(&[file("docs/field-reports.md", "# X\n")]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(check(&[]), ["docs/field-reports.md: missing"]);
    }
}
