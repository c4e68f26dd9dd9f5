//! What can be said of one file alone.

use super::files::TextFile;
use super::lexer::{self, Views};

/// Most lines of a file with code.
const LINES_MAX: usize = 500;
/// Most lines of a crate's README.
const README_LINES_MAX: usize = 120;

/// Files that are longer, with the lines they may have. This list may only shrink.
const LONGER: [(&str, usize); 0] = [];

/// Generated files: no rule about their length or their comments.
const GENERATED: [&str; 1] = ["bindings.rs"];

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "helper", "helpers", "misc", "stuff"];

/// Beginnings of paths that exist on one machine only. In pieces, lest this file break its rule.
const MACHINE_PATHS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// All faults of a file, each with path and line.
pub(super) fn check(file: &TextFile) -> Vec<String> {
    let mut faults = Vec::new();
    faults.extend(too_long(file, &LONGER));
    faults.extend(empty_name(file));
    faults.extend(machine_paths(file));
    if file.extension() == "rs" {
        let views = lexer::split(&file.text);
        if !is_generated(file) {
            faults.extend(foreign_letters(file, &views));
        }
        faults.extend(unfinished(file, &views));
        faults.extend(ignored_tests(file, &views));
    }
    faults
}

/// The allow-list may only shrink: a row whose file got shorter, or went, must go too.
pub(super) fn check_allowed_lengths(files: &[TextFile]) -> Vec<String> {
    stale_rows(files, &LONGER)
}

fn stale_rows(files: &[TextFile], longer: &[(&str, usize)]) -> Vec<String> {
    let stale = longer.iter().filter_map(|(path, allowed)| {
        let lines = files
            .iter()
            .find(|file| file.path == *path)
            .map(|f| f.text.lines().count());
        match lines {
            None => Some(format!(
                "{path}: gone; remove it from LONGER in tidy/rules.rs"
            )),
            Some(lines) if lines < *allowed => Some(format!(
                "{path}: {lines} lines; lower its row in LONGER of {allowed}"
            )),
            Some(_) => None,
        }
    });
    stale.collect()
}

fn is_generated(file: &TextFile) -> bool {
    GENERATED.contains(&file_name(file))
}

fn file_name(file: &TextFile) -> &str {
    file.path
        .rsplit_once('/')
        .map_or(file.path.as_str(), |(_, name)| name)
}

fn too_long(file: &TextFile, longer: &[(&str, usize)]) -> Option<String> {
    let is_crate_readme = file.path.ends_with("/README.md") && !file.path.starts_with("docs/");
    let bound = match (file.extension(), file_name(file)) {
        _ if is_generated(file) => return None,
        _ if is_crate_readme => README_LINES_MAX,
        ("rs" | "c" | "h" | "sh" | "py", _) | (_, "run") => LINES_MAX,
        _ => return None,
    };
    let allowed = longer
        .iter()
        .find(|(path, _)| *path == file.path)
        .map_or(bound, |row| row.1);
    let lines = file.text.lines().count();
    (lines > allowed).then(|| format!("{}: {lines} lines, at most {allowed}", file.path))
}

fn empty_name(file: &TextFile) -> Option<String> {
    let parts = file
        .path
        .split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let empty = parts.into_iter().find(|part| EMPTY_NAMES.contains(part))?;
    Some(format!(
        "{}: {empty:?} says nothing about what is in it",
        file.path
    ))
}

fn machine_paths(file: &TextFile) -> Vec<String> {
    let lines = (1..).zip(file.text.lines());
    let found =
        lines.filter(|(_, line)| MACHINE_PATHS.iter().any(|path| starts_a_path(line, path)));
    found
        .map(|(number, _)| format!("{}:{number}: a path of one machine only", file.path))
        .collect()
}

/// Whether a line holds a path that begins so, and not one that merely continues so.
fn starts_a_path(line: &str, path: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.}~*>)".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(continues))
}

fn foreign_letters(file: &TextFile, views: &Views) -> Vec<String> {
    let lines = (1..).zip(views.comments.lines());
    let found = lines.filter_map(|(number, line)| {
        let letter = line.chars().find(|c| !c.is_ascii())?;
        Some(format!(
            "{}:{number}: {letter:?} in a comment, which is ASCII only",
            file.path
        ))
    });
    found.collect()
}

fn unfinished(file: &TextFile, views: &Views) -> Vec<String> {
    let lines = (1..).zip(views.code.lines());
    let found = lines.filter_map(|(number, line)| {
        let marker = ["todo!", "unimplemented!"]
            .into_iter()
            .find(|m| has_word(line, m))?;
        Some(format!(
            "{}:{number}: {marker} is unfinished work",
            file.path
        ))
    });
    found.collect()
}

fn ignored_tests(file: &TextFile, views: &Views) -> Vec<String> {
    let lines = (1..).zip(views.code.lines());
    let bare = lines.filter(|(_, line)| line.replace(' ', "").contains("#[ignore]"));
    bare.map(|(number, _)| {
        format!(
            "{}:{number}: #[ignore] without a reason: #[ignore = \"why\"]",
            file.path
        )
    })
    .collect()
}

/// Whether code has a word, not as a part of a longer one.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, check, stale_rows, too_long};
    use crate::tidy::files::TextFile;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text))
    }

    #[test]
    fn long_files_are_faults() {
        let lines = |count: usize| "x\n".repeat(count);
        assert_eq!(
            faults("crates/a/src/x.rs", &lines(500)),
            Vec::<String>::new()
        );
        assert_eq!(faults("crates/a/src/x.rs", &lines(501)).len(), 1);
        assert_eq!(
            faults("crates/a/src/bindings.rs", &lines(5000)),
            Vec::<String>::new()
        );
        assert_eq!(faults("crates/a/README.md", &lines(121)).len(), 1);
        assert_eq!(faults("README.md", &lines(121)), Vec::<String>::new());
        assert_eq!(faults(".ci/run", &lines(501)).len(), 1);
    }

    #[test]
    fn the_list_of_longer_files_only_shrinks() {
        let longer = [("a.rs", 600), ("gone.rs", 600)];
        let long = file("a.rs", &"x\n".repeat(600));
        assert_eq!(too_long(&long, &longer), None);
        assert!(too_long(&file("a.rs", &"x\n".repeat(601)), &longer).is_some());
        assert_eq!(
            stale_rows(&[long], &longer).len(),
            1,
            "only the one that went"
        );
        assert_eq!(stale_rows(&[file("a.rs", "x\n")], &longer).len(), 2);
    }

    #[test]
    fn empty_names_are_faults() {
        assert_eq!(faults("crates/a/src/util.rs", "").len(), 1);
        assert_eq!(faults("crates/a/src/helpers/mod.rs", "").len(), 1);
        assert_eq!(
            faults("crates/a/src/utility_model.rs", ""),
            Vec::<String>::new()
        );
    }

    #[test]
    fn paths_of_a_machine_are_faults() {
        for path in MACHINE_PATHS {
            assert_eq!(
                faults("a.md", &format!("see {path}x")),
                ["a.md:1: a path of one machine only"]
            );
            assert_eq!(faults("a.md", &format!("net{path}x")), Vec::<String>::new());
        }
    }

    #[test]
    fn comments_are_ascii_and_strings_need_not_be() {
        assert_eq!(
            faults("a.rs", "let x = \"\u{2500}\"; // fine"),
            Vec::<String>::new()
        );
        assert_eq!(faults("a.rs", "fn f() {}\n/// \u{2500}").len(), 1);
        assert_eq!(faults("a.md", "\u{2500}"), Vec::<String>::new());
    }

    #[test]
    fn unfinished_work_is_a_fault() {
        assert_eq!(faults("a.rs", "fn f() { todo!() }").len(), 1);
        assert_eq!(faults("a.rs", "fn f() { unimplemented!(\"x\") }").len(), 1);
        assert_eq!(
            faults("a.rs", "// todo!\nlet x = \"todo!\"; mytodo!()"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn ignored_tests_say_why() {
        assert_eq!(faults("a.rs", "#[ignore]\nfn f() {}").len(), 1);
        assert_eq!(
            faults("a.rs", "#[ignore = \"an hour\"]\nfn f() {}"),
            Vec::<String>::new()
        );
    }
}
