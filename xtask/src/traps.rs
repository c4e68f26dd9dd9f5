//! Builds each trap of the protocol in, in a copy of the repository, and demands that its test fails: a
//! test that passes with the trap built in does not guard against it.
//!
//! * [`edit`]: a trap, as a file of `xtask/traps` has it; [`copy`]: the copy
//! * [`runner`]: one test with one trap; here: the command, its table, and the check that `tidy` makes

mod copy;
mod edit;
mod runner;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use self::copy::Copy;
use self::edit::Trap;
use self::runner::{Runner, Verdict};
use crate::libfabric;
use crate::tidy::{TextFile, read_all};
use crate::workspace::Workspace;

/// Where the traps are.
const DIR: &str = "xtask/traps/";

/// The endings of their files' names.
pub(crate) const EXTENSION: &str = "trap";

/// The command: all traps, or those whose names begin with one of `wanted`; with `--pure` only those whose
/// test needs no libfabric.
pub(crate) fn run(here: &Workspace, wanted: &[&str]) -> Result<()> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        wanted.iter().partition(|word| word.starts_with("--"));
    let pure = match options[..] {
        [] => None,
        ["--pure"] => Some(here.pure_dirs()?),
        _ => bail!("traps has no option {}", options.join(" ")),
    };
    let is_wanted = |trap: &Trap| {
        let is_named = names.is_empty() || names.iter().any(|name| trap.name.starts_with(name));
        let is_in = |dir: &PathBuf| Path::new(&trap.test).starts_with(dir);
        is_named && pure.as_ref().is_none_or(|dirs| dirs.iter().any(is_in))
    };
    let (traps, faults) = load(&read_all(&here.root)?);
    ensure!(
        faults.is_empty(),
        "traps that cannot be built in:\n  {}",
        faults.join("\n  ")
    );
    let mut traps: Vec<Trap> = traps.into_iter().filter(is_wanted).collect();
    ensure!(
        !traps.is_empty(),
        "no trap is called {}",
        wanted.join(" or ")
    );
    // Those of one crate together: what the others need is built less often.
    traps.sort_by(|a, b| (&a.test, &a.name).cmp(&(&b.test, &b.name)));

    let libfabrics = libfabric::all(here);
    let runner = Runner::new(here, Copy::of(here)?, libfabrics.first())?;
    println!("without any trap");
    runner.expect_all_pass(&traps)?;
    let mut wrong = Vec::new();
    for trap in &traps {
        let start = Instant::now();
        let verdict = runner.verdict(trap).with_context(|| trap.name.clone())?;
        let seconds = start.elapsed().as_secs();
        println!(
            "{:<20} {verdict:<10} {seconds:>3} s  {}",
            trap.name,
            trap.test_name()?
        );
        if verdict != Verdict::Caught {
            wrong.push(format!(
                "{}: {verdict}: {}",
                trap.name,
                runner.log(trap).display()
            ));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "{} of {} traps:\n  {}",
            wrong.len(),
            traps.len(),
            wrong.join("\n  ")
        );
    }
    println!("{} traps, each caught by its test", traps.len());
    Ok(())
}

/// Traps that cannot be built in any more, or whose test is not that of their row in docs/conformance.md;
/// rows of traps that cannot be built in at all.
pub(crate) fn check(files: &[TextFile], rows: &[(&str, &str)]) -> Vec<String> {
    let (traps, mut faults) = load(files);
    for trap in &traps {
        let row = rows.iter().find(|(id, _)| *id == trap.point());
        let is_named = row.is_some_and(|(_, guard)| guard.contains(&format!("`{}`", trap.test)));
        if !is_named {
            let (name, test) = (&trap.name, &trap.test);
            faults.push(format!(
                "{DIR}{name}.{EXTENSION}: docs/conformance.md does not name {test}"
            ));
        }
    }
    // One whose file is there and wrong is named already.
    let has_file = |id: &str| {
        let start = format!("{DIR}{id}.");
        files.iter().any(|file| file.path.starts_with(&start))
    };
    let needs_one = |id: &str| id.starts_with("TRAP-") || id.starts_with("K-");
    for (id, _) in rows.iter().filter(|(id, _)| needs_one(id)) {
        if !has_file(id) {
            faults.push(format!("{DIR}{id}.{EXTENSION}: missing"));
        }
    }
    faults
}

/// The traps there are, and what is wrong with the others.
fn load(files: &[TextFile]) -> (Vec<Trap>, Vec<String>) {
    let (mut traps, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        let name = (file.path.strip_prefix(DIR))
            .and_then(|name| name.strip_suffix(&format!(".{EXTENSION}")));
        let Some(name) = name else { continue };
        match Trap::parse(name, &file.text).and_then(|trap| can_be_built_in(trap, files)) {
            Ok(trap) => traps.push(trap),
            Err(error) => faults.push(format!("{}: {error:#}", file.path)),
        }
    }
    (traps, faults)
}

/// The trap, if each of its edits has its one place.
fn can_be_built_in(trap: Trap, files: &[TextFile]) -> Result<Trap> {
    // As the edits before left it.
    let mut changed: Vec<(&str, String)> = Vec::new();
    for edit in &trap.edits {
        let before = match changed.iter().rfind(|(path, _)| *path == edit.file) {
            Some((_, text)) => text.as_str(),
            None => files
                .iter()
                .find(|file| file.path == edit.file)
                .map(|file| file.text.as_str())
                .with_context(|| format!("there is no file {}", edit.file))?,
        };
        let after = edit.apply(before)?;
        ensure!(after != before, "an edit of {} changes nothing", edit.file);
        changed.push((&edit.file, after));
    }
    Ok(trap)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::TextFile;

    const TEST: &str = "a/tests/b.rs::c";

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn faults(trap: &str, guard: &str) -> Vec<String> {
        let files = [
            file("a/src/lib.rs", "one();\ntwo();\n"),
            file("xtask/traps/TRAP-01.trap", trap),
        ];
        check(&files, &[("TRAP-01", guard), ("B-1", "no trap is needed")])
    }

    #[test]
    fn a_trap_that_can_be_built_in_and_is_guarded_passes() {
        let trap =
            format!("test: {TEST}\nsays: x\nfile: a/src/lib.rs\n-two();\n+three();\n\n-three();\n");
        assert_eq!(
            faults(&trap, &format!("`d`, `{TEST}`")),
            Vec::<String>::new()
        );
        assert!(faults(&trap, "`d`")[0].contains("does not name"));
    }

    #[test]
    fn rot_is_told() {
        let guard = format!("`{TEST}`");
        for (edit, wanted) in [
            ("file: a/src/lib.rs\n-four();\n", "0 places"),
            ("file: a/src/main.rs\n-two();\n", "no file a/src/main.rs"),
            ("file: a/src/lib.rs\n two();\n", "changes nothing"),
            ("", "lacks"),
        ] {
            let found = faults(&format!("test: {TEST}\nsays: x\n{edit}"), &guard);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains(wanted) && found[0].contains("TRAP-01"),
                "{found:?}"
            );
        }
    }
}
