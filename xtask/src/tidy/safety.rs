//! Unsafe code has an address: the files that hold any are those in the table of docs/safety.md.

use super::files::TextFile;
use super::lexer;
use super::rules::has_word;

/// Where the table is.
const TABLE: &str = "docs/safety.md";

/// Files with unsafe code that are not listed, and rows without unsafe code.
pub(super) fn check(files: &[TextFile]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return vec![format!(
            "{TABLE}: missing; it lists the files with unsafe code"
        )];
    };
    let listed = listed(&table.text);
    let holders: Vec<&str> = files
        .iter()
        .filter(|file| has_unsafe(file))
        .map(|file| file.path.as_str())
        .collect();
    let stray = holders
        .iter()
        .filter(|path| !listed.iter().any(|row| covers(row, path)));
    let stray = stray.map(|path| format!("{path}: unsafe code, and not listed in {TABLE}"));
    let idle = listed
        .iter()
        .filter(|row| !holders.iter().any(|path| covers(row, path)));
    let idle = idle.map(|row| format!("{TABLE}: lists {row}, which has no unsafe code"));
    stray.chain(idle).collect()
}

/// Whether there is unsafe code in a file. The name of the lint, `unsafe_code`, is another word.
pub(super) fn has_unsafe(file: &TextFile) -> bool {
    file.extension() == "rs" && has_word(&lexer::split(&file.text).code, "unsafe")
}

/// The paths in the first cells of the table's rows: a file `x/y.rs`, or a directory `x/y/` for
/// all files below it. Between backquotes; other tables of the page have no paths there.
fn listed(page: &str) -> Vec<String> {
    let first_cells = page
        .lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.split('|').next());
    let quoted = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let paths = quoted.filter(|text| text.ends_with('/') || text.ends_with(".rs"));
    paths.map(ToOwned::to_owned).collect()
}

fn covers(row: &str, path: &str) -> bool {
    if row.ends_with('/') {
        path.starts_with(row)
    } else {
        path == row
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::files::TextFile;

    const PAGE: &str = "\
# Safety\n\n`crates/c/src/prose.rs` is not in a table.\n\n\
| file | why |\n|---|---|\n\
| `crates/a/src/ffi.rs` | calls `x/y.rs` |\n\
| `crates/b/tests/` | tests |\n";

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let page = ("docs/safety.md", PAGE);
        let files: Vec<TextFile> = files
            .iter()
            .chain([&page])
            .map(|(path, text)| TextFile {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        check(&files)
    }

    const FFI: (&str, &str) = ("crates/a/src/ffi.rs", "fn f() { unsafe { g() } }");
    const TEST: (&str, &str) = ("crates/b/tests/x.rs", "unsafe extern \"C\" {}");

    #[test]
    fn listed_files_pass() {
        assert_eq!(faults(&[FFI, TEST]), Vec::<String>::new());
    }

    #[test]
    fn unsafe_in_an_unlisted_file_is_a_fault() {
        let stray = ("crates/c/src/prose.rs", "#[unsafe(no_mangle)] fn f() {}");
        let found = faults(&[FFI, TEST, stray]);
        assert_eq!(
            found,
            ["crates/c/src/prose.rs: unsafe code, and not listed in docs/safety.md"]
        );
    }

    #[test]
    fn a_row_without_unsafe_is_a_fault() {
        let calm = "#![forbid(unsafe_code)]\n// unsafe\nlet x = \"unsafe\";";
        let found = faults(&[("crates/a/src/ffi.rs", calm)]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn the_page_must_exist() {
        assert_eq!(check(&[]).len(), 1);
    }
}
