//! Where the instructions of a case go: what callgrind writes, by source line, as a listing with a sentence for each
//! file that takes part.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{LIMIT, cost};
use crate::process::Program;
use crate::workspace::Workspace;

/// The page, and the marks around what is measured.
const PAGE: &str = "docs/hot-loops.md";
const BEGIN: &str = "<!-- measured: cargo xtask hot --update -->\n";
const END: &str = "<!-- end of what is measured -->\n";

/// The cases that are listed.
const CASES: [(&str, &str); 3] = [
    ("isend1", "isend to the post, 1 stripe"),
    ("write", "write of the peer in, not the last"),
    ("write_last", "write of the peer in, the last"),
];

/// Lines with fewer instructions than this are told of as one number.
const LEAST: f64 = 1.0;

/// What the instructions of a file are for.
const NOTES: [(&str, &str); 21] = [
    (
        "ofi-imm/",
        "The immediate word: shifts and masks, the same as by hand.",
    ),
    (
        "ofi-pools/src/key.rs",
        "Keys: index and generation in one word, so that a stale one is refused and not followed.",
    ),
    (
        "ofi-pools/src/table.rs",
        "Slots in and out of a table: bounds, occupation, generation; the list of free slots.",
    ),
    (
        "ofi-sched/",
        "The plan of a message: two comparisons, a look-up, a multiplication; the rotation of rails.",
    ),
    (
        "ofi-rdma/src/batch.rs",
        "The operations that wait to be posted, a bit for each request: what a post takes is taken off.",
    ),
    (
        "ofi-rdma/src/comm.rs",
        "Whether the communicator is open, of the right kind, and without an error.",
    ),
    (
        "ofi-rdma/src/comms.rs",
        "A communicator by its id or key: bounds, occupation and generation, whatever a peer named.",
    ),
    (
        "ofi-rdma/src/engine.rs",
        "The fields of the engine that a call goes through; that something moved, for the next poll.",
    ),
    (
        "ofi-rdma/src/key.rs",
        "The caller's words: a request or a communicator in a register.",
    ),
    (
        "ofi-rdma/src/window.rs",
        "The window of sequence numbers: one mask, one load, one store.",
    ),
    (
        "ofi-rdma/src/outbox.rs",
        "Whether the rail has something that waits: then a new operation goes behind it.",
    ),
    (
        "ofi-rdma/src/port.rs",
        "The operation in the form in which the port takes it.",
    ),
    (
        "ofi-rdma/src/request.rs",
        "The request: written once, two cache lines; of a write the count, the rail and the length, each checked.",
    ),
    (
        "ofi-rdma/src/datapath/demux.rs",
        "From the entry of a queue to the request: the calls and branches of the checks.",
    ),
    (
        "ofi-rdma/src/datapath/isend.rs",
        "Admission: error, room in the window, length and region; what the CTRL said.",
    ),
    (
        "ofi-rdma/src/datapath/offer.rs",
        "Stripes to operations: address, key and length of each.",
    ),
    (
        "ofi-rdma/src/datapath/post.rs",
        "An operation written field by field, and given to the port by reference.",
    ),
    (
        "ofi-rdma/src/datapath/pump.rs",
        "Who has something to post, and in which order of rails.",
    ),
    (
        "ofi-rdma/src/datapath/",
        "The rest of the way of a message.",
    ),
    (
        "ofi-rdma/examples/",
        "The loop of the measurement and the rail that takes everything; no part of the numbers in hot-path.md.",
    ),
    (
        CORE,
        "The standard library, inlined: options, slices, arithmetic; and saving registers at calls.",
    ),
];

/// In place of the files of the standard library.
const CORE: &str = "core, alloc";

/// Instructions by file and line.
type Lines = BTreeMap<(String, u32), u64>;

/// Writes the page.
pub(super) fn write(here: &Workspace, program: &Path) -> Result<()> {
    let path = here.root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
    let (before, rest) = page.split_once(BEGIN).context("the page has no mark")?;
    let (_, after) = rest
        .split_once(END)
        .context("the page has no second mark")?;
    let mut text = String::new();
    for (case, title) in CASES {
        let (lines, rounds) = measure(here, program, case)?;
        let _infallible = writeln!(text, "\n## {title}\n");
        text.push_str(&listing(&here.root, &lines, rounds));
    }
    fs::write(&path, format!("{before}{BEGIN}{text}\n{END}{after}"))?;
    println!("hot: {PAGE} written");
    Ok(())
}

/// Instructions of each line, and how many operations they are of.
fn measure(here: &Workspace, program: &Path, case: &str) -> Result<(Lines, f64)> {
    let file = here.target.join(format!("hot-{case}.callgrind"));
    let mut to_file = std::ffi::OsString::from("--callgrind-out-file=");
    to_file.push(&file);
    let valgrind = Program::new("valgrind")
        .args([
            "--tool=callgrind",
            "--toggle-collect=*measured*",
            "--log-fd=1",
        ])
        .args([to_file])
        .args([program])
        .args([case]);
    let output = valgrind.limit(LIMIT).output()?;
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let lines = by_line(&text, &here.root.display().to_string());
    let total: u64 = lines.values().sum();
    Ok((lines, total as f64 / cost(&output)?))
}

/// The own instructions of every line; see "Callgrind Format Specification" in valgrind's manual.
fn by_line(text: &str, root: &str) -> Lines {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = Lines::new();
    let mut file = String::new();
    let (mut line, mut is_call) = (0_u32, false);
    for row in text.lines() {
        let named = ["fl=", "fi=", "fe="]
            .iter()
            .find_map(|key| row.strip_prefix(key));
        let called = ["cfi=", "cfl="]
            .iter()
            .find_map(|key| row.strip_prefix(key));
        if let Some(name) = named.or(called) {
            let (id, path) = name.split_once(' ').unwrap_or((name, ""));
            if !path.is_empty() {
                names.insert(id.to_owned(), shortened(path, root));
            }
            if named.is_some() {
                file = names.get(id).cloned().unwrap_or_default();
            }
        } else if row.starts_with("calls=") {
            is_call = true;
        } else if let Some((at, count)) = position(row, line) {
            line = at;
            // What follows a call is what the callee took, which is counted there.
            if !core::mem::take(&mut is_call) {
                *lines.entry((file.clone(), line)).or_default() += count;
            }
        }
    }
    lines
}

/// A line with a cost: a line number, or how far it is from the last, and instructions.
fn position(row: &str, last: u32) -> Option<(u32, u64)> {
    let (at, count) = row.split_once(' ')?;
    let line = match at.split_at_checked(1)? {
        ("+", ahead) => last.checked_add(ahead.parse().ok()?)?,
        ("-", back) => last.checked_sub(back.parse().ok()?)?,
        ("*", "") => last,
        _ => at.parse().ok()?,
    };
    Some((line, count.trim().parse().ok()?))
}

/// A file as one knows it: from `crates/` on, or only that it is not ours.
fn shortened(path: &str, root: &str) -> String {
    let ours = path
        .strip_prefix(root)
        .and_then(|rest| rest.strip_prefix('/'));
    let ours = ours.or_else(|| path.starts_with("crates/").then_some(path));
    ours.map_or_else(|| CORE.to_owned(), str::to_owned)
}

/// The listing: files by their instructions, with their note and their lines.
fn listing(root: &Path, lines: &Lines, rounds: f64) -> String {
    let mut files: BTreeMap<&str, f64> = BTreeMap::new();
    for ((file, _), count) in lines {
        *files.entry(file).or_default() += *count as f64 / rounds;
    }
    let mut order: Vec<(&str, f64)> = files.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::from("| instructions | of | for |\n|---|---|---|\n");
    for (file, count) in order.iter().filter(|(_, count)| *count >= LEAST) {
        let _infallible = writeln!(text, "| {count:.1} | `{file}` | {} |", note(file));
    }
    text.push_str("\n```text\n");
    for (file, _) in order.iter().filter(|(file, _)| *file != CORE) {
        source(&mut text, root, file, lines, rounds);
    }
    text.push_str("```\n");
    text
}

fn note(file: &str) -> &'static str {
    let found = NOTES.iter().find(|(part, _)| file.contains(part));
    found.map_or("", |(_, note)| note)
}

/// The lines of a file that count, each with its instructions.
fn source(text: &mut String, root: &Path, file: &str, lines: &Lines, rounds: f64) {
    let source = fs::read_to_string(root.join(file)).unwrap_or_default();
    let source: Vec<&str> = source.lines().collect();
    let mut has_head = false;
    for ((_, number), count) in lines.iter().filter(|((name, _), _)| name == file) {
        let count = *count as f64 / rounds;
        if count < LEAST {
            continue;
        }
        if !core::mem::replace(&mut has_head, true) {
            let _infallible = writeln!(text, "{file}");
        }
        let index = (*number as usize).checked_sub(1);
        let line = index
            .and_then(|index| source.get(index))
            .map_or("", |line| line.trim());
        let _infallible = writeln!(text, "{count:>7.1}  {number:>4}  {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::{CORE, by_line, listing, note};
    use std::path::Path;

    const FILE: &str = "\
fl=(1) /r/crates/ofi-rdma/src/window.rs
fn=(1) a
10 20
+2 30
fi=(2) /rustc/x/core/src/option.rs
7 5
fe=(1)
calls=1 3
* 1000
-2 10
cfi=(3) /r/crates/x.rs
cfn=(2) b
calls=1 5
10 9
fl=(3)
5 40
";

    #[test]
    fn own_instructions_are_told_from_those_of_calls() {
        let lines = by_line(FILE, "/r");
        let window = "crates/ofi-rdma/src/window.rs".to_owned();
        assert_eq!(lines[&(window.clone(), 10)], 20);
        assert_eq!(lines[&(window, 12)], 30);
        assert_eq!(lines[&(CORE.to_owned(), 7)], 5);
        assert_eq!(lines[&("crates/x.rs".to_owned(), 5)], 40);
    }

    #[test]
    fn files_are_listed_by_what_they_take() {
        let text = listing(Path::new("/nowhere"), &by_line(FILE, "/r"), 10.0);
        let (x, window) = (text.find("`crates/x.rs`"), text.find("window.rs"));
        assert!(window < x, "{text}");
        assert!(text.contains("| 4.0 | `crates/x.rs` |  |"), "{text}");
        assert!(!note("crates/ofi-rdma/src/window.rs").is_empty());
    }
}
