//! The tests that docs/field-reports.md, docs/conformance.md and that of efa-emu name exist, and every row of them has one
//! or says why not.

use std::fs;
use std::path::Path;

use super::files::TextFile;
use super::lexer;

/// Where the answers to the catalogue are.
const PAGE: &str = "docs/field-reports.md";

/// Where the points of the protocol are.
const POINTS_PAGE: &str = "docs/conformance.md";

/// What of EFA is played.
const EMULATED_PAGE: &str = "crates/efa-emu/CONFORMANCE.md";

/// The points of the protocol, and how many of each there are: traces B, what a BASE peer cannot bear
/// (2.k), details (2.l), traps (4).
const POINTS: [(&str, usize); 4] = [("B", 9), ("K", 7), ("L", 8), ("TRAP", 34)];

/// The catalogue of reports that the page answers, beside the checkout of those who have it.
const CATALOGUE: &str = "../shared/reference/field-reports.md";

/// The groups of the catalogue that the page has to answer.
const GROUPS: [&str; 9] = [
    "### A.", "### B.", "### C.", "### D.", "### F.", "### G.", "### H.", "### I.", "### K.",
];

/// How a row without a test begins.
const REASONS: [&str; 3] = ["later:", "does not apply:", "hardware:"];

/// Named tests that are not there, rows that name none and say no reason, and ids that come twice.
pub(super) fn check(files: &[TextFile]) -> Vec<String> {
    let mut faults = check_page(files, PAGE);
    faults.extend(check_page(files, POINTS_PAGE));
    faults.extend(check_page(files, EMULATED_PAGE));
    faults.extend(missing_points(files));
    faults
}

/// The points of the protocol, each with what guards it.
pub(super) fn points(files: &[TextFile]) -> Vec<(&str, &str)> {
    let page = files.iter().find(|file| file.path == POINTS_PAGE);
    let rows = page.map_or(Vec::new(), |page| rows(&page.text));
    rows.into_iter().map(|row| (row.id, row.guard)).collect()
}

/// Points of the protocol without a row.
fn missing_points(files: &[TextFile]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == POINTS_PAGE);
    let rows = page.map_or(Vec::new(), |page| rows(&page.text));
    let wanted = POINTS.iter().flat_map(|&(kind, count)| {
        (1..=count).map(move |n| match kind {
            "TRAP" => format!("{kind}-{n:02}"),
            _ => format!("{kind}-{n}"),
        })
    });
    let missing = wanted.filter(|id| !rows.iter().any(|row| row.id == id));
    missing
        .map(|id| format!("{POINTS_PAGE}: no row for {id}"))
        .collect()
}

fn check_page(files: &[TextFile], path: &str) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == path) else {
        return vec![format!("{path}: missing")];
    };
    let rows = rows(&page.text);
    let mut faults = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let fault = |what: String| format!("{path}: {}: {what}", row.id);
        if rows[..at].iter().any(|before| before.id == row.id) {
            faults.push(fault("a second row".to_owned()));
        }
        let tests = named_tests(row.guard);
        let says_why = REASONS.iter().any(|reason| row.guard.starts_with(reason));
        if tests.is_empty() && !says_why {
            let wanted = REASONS.join("\", \"");
            faults.push(fault(format!(
                "neither a test as `file::name` nor \"{wanted}\""
            )));
        }
        for (place, name) in tests {
            match files.iter().find(|file| file.path == place) {
                None => faults.push(fault(format!("there is no file {place}"))),
                Some(file) if !has_test(file, name) => {
                    faults.push(fault(format!("{place} has no test {name}")));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

/// The ids of the catalogue that have no row. `None`: the catalogue is not here.
pub(super) fn missing(files: &[TextFile], root: &Path) -> Option<Vec<String>> {
    let catalogue = fs::read_to_string(root.join(CATALOGUE)).ok()?;
    let page = files.iter().find(|file| file.path == PAGE);
    let page = page.map_or("", |file| file.text.as_str());
    Some(unanswered(&catalogue, page))
}

fn unanswered(catalogue: &str, page: &str) -> Vec<String> {
    let answered = rows(page);
    let mut asked = 0;
    let mut faults = Vec::new();
    let mut is_wanted = false;
    for line in catalogue.lines() {
        if line.starts_with('#') {
            is_wanted = GROUPS.iter().any(|group| line.starts_with(group));
        }
        let Some(id) = id_of(line).filter(|_| is_wanted) else {
            continue;
        };
        asked += 1;
        if !answered.iter().any(|row| row.id == id) {
            faults.push(format!("{PAGE}: no row for {id}"));
        }
    }
    if asked == 0 {
        faults.push(format!("{CATALOGUE}: no row of the groups {GROUPS:?}"));
    }
    faults
}

/// A row of the page.
struct Row<'a> {
    id: &'a str,
    /// Its last cell.
    guard: &'a str,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines();
    let found = lines.filter_map(|line| {
        let id = id_of(line)?;
        let cells = line.trim().trim_matches('|');
        let guard = cells.rsplit('|').next().unwrap_or("").trim();
        Some(Row { id, guard })
    });
    found.collect()
}

/// The id that a row of a table begins with: letters, a dash, digits.
fn id_of(line: &str) -> Option<&str> {
    let id = line.trim().strip_prefix('|')?.split('|').next()?.trim();
    let (kind, number) = id.split_once('-')?;
    let is_id = !kind.is_empty()
        && kind.chars().all(|c| c.is_ascii_uppercase())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit());
    is_id.then_some(id)
}

/// The tests named between backquotes as `path::name`.
fn named_tests(cell: &str) -> Vec<(&str, &str)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.rsplit_once("::")).collect()
}

/// Whether a file has a test of that name: in Rust a function with `#[test]`, or any function of a file
/// below `tests/`, where macros make tests of them; in C a function that is called or defined.
fn has_test(file: &TextFile, name: &str) -> bool {
    let code = lexer::split(&file.text).code;
    if file.extension() == "c" {
        return has_call(&code, name);
    }
    let wanted = format!("fn {name}(");
    code.match_indices(&wanted).any(|(at, _)| {
        let before = &code[..at];
        let start = before.rfind([';', '{', '}']).map_or(0, |found| found + 1);
        file.path.contains("/tests/") || before[start..].contains("#[test]")
    })
}

/// Whether code has `name(`, not as the end of a longer name.
fn has_call(code: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(&format!("{name}("))
        .any(|(at, _)| !code[..at].ends_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::{PAGE, check_page, missing_points, unanswered};
    use crate::tidy::files::TextFile;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn faults(cell: &str) -> Vec<String> {
        let page = format!(
            "# X\n\n| id | fault | guarded by |\n|---|---|---|\n| REG-01 | a \\| b | {cell} |\n"
        );
        let unit = "fn plain() {}\n#[cfg(test)]\nmod tests {\n#[test]\n#[expect(x, reason = \"y\")]\nfn one() {}\n}";
        let files = [
            file("docs/field-reports.md", &page),
            file("crates/a/src/x.rs", unit),
            file("crates/a/tests/y.rs", "fn by_macro(info: &Info) {}"),
            file("plugin/tests/z.c", "static void stage(void)\n{\n}"),
        ];
        check_page(&files, PAGE)
    }

    #[test]
    fn tests_that_are_there_and_reasons_pass() {
        for cell in [
            "`crates/a/src/x.rs::one`",
            "`crates/a/tests/y.rs::by_macro`, `plugin/tests/z.c::stage`; fuzz target `x`",
            "later: `doctor`",
            "does not apply: no such thing",
            "hardware: an adapter",
        ] {
            assert_eq!(faults(cell), Vec::<String>::new(), "{cell}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (cell, wanted) in [
            ("`crates/a/src/x.rs::two`", "has no test two"),
            ("`crates/a/src/x.rs::plain`", "has no test plain"),
            ("`crates/a/src/w.rs::one`", "no file crates/a/src/w.rs"),
            ("`plugin/tests/z.c::age`", "has no test age"),
            ("later: then `crates/a/src/x.rs::two`", "has no test two"),
            ("by hand", "neither a test"),
            ("", "neither a test"),
        ] {
            let found = faults(cell);
            assert_eq!(found.len(), 1, "{cell}: {found:?}");
            assert!(
                found[0].contains(wanted) && found[0].contains("REG-01"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_row_comes_once_and_the_page_exists() {
        let twice = "| REG-01 | a | later: x |\n| REG-01 | b | later: y |\n";
        let found = check_page(&[file("docs/field-reports.md", twice)], PAGE);
        assert_eq!(found, ["docs/field-reports.md: REG-01: a second row"]);
        assert_eq!(check_page(&[], PAGE).len(), 1);
    }

    #[test]
    fn every_point_of_the_protocol_has_a_row() {
        let rows: String = (1..=34)
            .map(|n| format!("| TRAP-{n:02} | x | y |\n"))
            .collect();
        let found = missing_points(&[file("docs/conformance.md", &rows)]);
        assert_eq!(found.len(), 9 + 7 + 8);
        assert_eq!(found[0], "docs/conformance.md: no row for B-1");
        assert_eq!(missing_points(&[]).len(), 9 + 7 + 8 + 34);
    }

    #[test]
    fn reports_of_the_wanted_groups_have_a_row() {
        let catalogue = "### A. Keys (2)\n| REG-01 | x |\n| REG-02 | x |\n### J. Odds (1)\n| ODD-01 | x |\n\
                         ### H. Tables (1)\n| ABI-03 | x |\n";
        let page = "| REG-01 | a | later: x |\n| ABI-03 | a | later: x |\n";
        assert_eq!(
            unanswered(catalogue, page),
            ["docs/field-reports.md: no row for REG-02"]
        );
        assert_eq!(unanswered("### J. Other", page).len(), 1);
    }
}
