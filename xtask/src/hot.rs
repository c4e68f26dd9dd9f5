//! What the engine costs in instructions, held against `docs/hot-path.md`.
//!
//! `crates/ofi-rdma/examples/hot_path`, and those of ofi-imm and ofi-pools, run once for each case
//! under callgrind, which counts what is executed: the same number on a busy machine and on a quiet one. The
//! numbers depend on the compiler, so that the page names it; another one is given [`OTHER_COMPILER`]. The same
//! cases in a build without counters say what counting costs ([`without`]).

mod loops;
mod whole;
mod without;

use core::fmt::Write as _;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::Program;
use crate::workspace::Workspace;

/// The page, and the marks around what is measured.
const PAGE: &str = "docs/hot-path.md";
const BEGIN: &str = "<!-- measured: cargo xtask hot --update -->\n";
const END: &str = "<!-- end of what is measured -->\n";

/// By how much a case may exceed the page: a fraction, or so many instructions.
const SAME_COMPILER: f64 = 0.02;
const OTHER_COMPILER: f64 = 0.10;
const SLACK: f64 = 1.0;

/// One run under callgrind.
const LIMIT: Duration = Duration::from_secs(300);

/// What a case is, and the most it should cost, if there is such a number. `rails` calls of the port are not
/// the engine's.
struct Case {
    name: &'static str,
    what: &'static str,
    rails: u8,
    limit: Option<f64>,
}

const fn case(name: &'static str, what: &'static str, rails: u8, limit: Option<f64>) -> Case {
    Case {
        name,
        what,
        rails,
        limit,
    }
}

/// An example: its cases, and one more, `frame`, that is the measuring itself.
struct Suite {
    package: &'static str,
    example: &'static str,
    cases: &'static [Case],
}

impl Suite {
    /// What is run.
    fn program(&self, here: &Workspace) -> PathBuf {
        here.target.join("release/examples").join(self.example)
    }
}

const SUITES: [Suite; 3] = [
    Suite {
        package: "ofi-rdma",
        example: "hot_path",
        cases: &ENGINE,
    },
    Suite {
        package: "ofi-imm",
        example: "imm_instructions",
        cases: &WORD,
    },
    Suite {
        package: "ofi-pools",
        example: "instructions",
        cases: &POOLS,
    },
];

const WORD: [Case; 2] = [
    case(
        "imm",
        "immediate: encoded, checked, its three parts",
        0,
        Some(16.0),
    ),
    case("imm_hand", "the same by hand", 0, None),
];

const POOLS: [Case; 9] = [
    case("take", "buffer out of a freelist", 0, Some(18.0)),
    case("give", "buffer into a freelist", 0, Some(18.0)),
    case("insert", "value into a table", 0, None),
    case("remove", "value out of a table", 0, None),
    case("get", "value of a table by its key", 0, None),
    case("id_alloc", "id out of a pool, 64 at rest", 0, None),
    case("id_free", "id into a pool", 0, None),
    case("mr_last", "registration, the last hit", 0, Some(15.0)),
    case("mr_random", "registration, one of 10 000", 0, None),
];

const ENGINE: [Case; 22] = [
    case("isend1", "isend to the post, 1 stripe", 1, Some(300.0)),
    case(
        "isend4",
        "isend to the last post, 4 stripes",
        4,
        Some(600.0),
    ),
    case("eager", "isend of an eager message to the post", 1, None),
    case("irecv1", "irecv to the post of its CTRL, 1 rail", 1, None),
    case("irecv4", "irecv to the post of its CTRL, 4 rails", 1, None),
    case("early_ctrl", "CTRL in, its isend to come", 0, None),
    case("late_ctrl1", "CTRL in to the post, 1 stripe", 1, None),
    case("late_ctrl4", "CTRL in to the last post, 4 stripes", 4, None),
    case("local", "completion of a write of ours", 0, None),
    case("done", "`test` of a request that is done", 0, None),
    case("write", "write of the peer in, not the last", 0, Some(60.0)),
    case(
        "write_last",
        "write of the peer in, the last",
        0,
        Some(60.0),
    ),
    case(
        "write_32k",
        "the first, 32 000 communicators",
        0,
        Some(60.0),
    ),
    case(
        "write_last_32k",
        "the last, 32 000 communicators",
        0,
        Some(60.0),
    ),
    case("drain1", "completion queue, batches of 1", 0, None),
    case("drain4", "completion queue, batches of 4", 0, None),
    case("drain16", "completion queue, batches of 16", 0, Some(75.0)),
    case("drain64", "completion queue, batches of 64", 0, Some(75.0)),
    case("idle128", "idle `test`, 128 outstanding", 0, Some(25.0)),
    case(
        "idle1024",
        "idle `test`, 1 024 outstanding, 8 communicators",
        0,
        Some(25.0),
    ),
    case("connect", "a connection each way, the first ones", 0, None),
    case("connect_16k", "the same, 16 000 of each there", 0, None),
];

/// The command: compares, or with `--update` writes the page.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let update = match options {
        [] => false,
        ["--update"] => true,
        _ => bail!("hot has no option {}", options.join(" ")),
    };
    let measured = measure(here)?;
    let compiler = compiler()?;
    let path = here.root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
    if update {
        let text = rewritten(&page, &table(&measured, &compiler))?;
        fs::write(&path, text).with_context(|| PAGE.to_owned())?;
        println!("hot: {PAGE} written");
        return loops::write(here, &SUITES[0].program(here));
    }
    let faults = compare(&page, &measured, &compiler)?;
    ensure!(
        faults.is_empty(),
        "{}\nIf it is meant: cargo xtask hot --update, and say why in the commit",
        faults.join("\n")
    );
    println!("hot: {} cases as {PAGE} has them", measured.len());
    without::compare(here, &measured)
}

/// Whether there is a callgrind.
pub(crate) fn can_measure() -> bool {
    Program::new("valgrind").args(["--version"]).succeeds()
}

fn compiler() -> Result<String> {
    let version = Program::new("rustc").args(["--version"]).output()?;
    Ok(version.trim().to_owned())
}

/// All cases, in the order of the page.
fn cases() -> impl Iterator<Item = &'static Case> {
    SUITES.iter().flat_map(|suite| suite.cases)
}

/// Instructions of each case, above those of the measuring itself and of the port.
fn measure(here: &Workspace) -> Result<Vec<f64>> {
    let suites = SUITES.iter().map(|suite| measure_suite(here, suite));
    Ok(suites.collect::<Result<Vec<_>>>()?.concat())
}

fn measure_suite(here: &Workspace, suite: &Suite) -> Result<Vec<f64>> {
    let package = ["build", "--release", "--package", suite.package];
    let example = ["--example", suite.example];
    here.cargo(&[&package[..], &example[..]].concat()).run()?;
    let cases: Vec<&Case> = suite.cases.iter().collect();
    measure_program(&suite.program(here), &cases, &[])
}

/// The cases of a program that is built, with these variables set.
fn measure_program(program: &Path, cases: &[&Case], set: &[(&str, String)]) -> Result<Vec<f64>> {
    let one = |name: &str| -> Result<f64> {
        let line = [
            "--tool=callgrind",
            "--toggle-collect=*measured*",
            "--callgrind-out-file=/dev/null",
            "--log-fd=1",
        ];
        let valgrind = Program::new("valgrind").args(line).args([program]);
        let valgrind = set.iter().fold(valgrind, |valgrind, (variable, value)| {
            valgrind.env(variable, value)
        });
        let output = valgrind.args([name]).limit(LIMIT).output()?;
        cost(&output).with_context(|| format!("case {name}"))
    };
    let frame = one("frame")?;
    let has_rail = cases.iter().any(|case| case.rails > 0);
    let rail = if has_rail { one("rail")? - frame } else { 0.0 };
    let above = |case: &&Case| Ok(one(case.name)? - frame - f64::from(case.rails) * rail);
    cases.iter().map(above).collect()
}

/// What the page says of a case: its instructions.
pub(crate) fn written(here: &Workspace, name: &str) -> Option<f64> {
    let page = fs::read_to_string(here.root.join(PAGE)).ok()?;
    let (_, rest) = page.split_once(BEGIN)?;
    number_of(rest, name)
}

/// The number in the row of a case.
fn number_of(block: &str, name: &str) -> Option<f64> {
    let start = format!("| `{name}` |");
    let row = block.lines().find(|line| line.starts_with(&start))?;
    row.rsplit('|').nth(1)?.trim().parse().ok()
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// How many operations the program says it measured: the line that is a number.
fn rounds(output: &str) -> Option<f64> {
    output.lines().find_map(number)
}

/// Instructions of one operation, from what callgrind and the program print.
fn cost(output: &str) -> Result<f64> {
    let collected = output
        .lines()
        .find_map(|line| line.split_once("Collected :").and_then(|(_, n)| number(n)));
    let (Some(collected), Some(rounds)) = (collected, rounds(output)) else {
        bail!("nothing was counted:\n{output}");
    };
    ensure!(rounds > 0.0, "nothing was run");
    Ok(collected / rounds)
}

fn table(measured: &[f64], compiler: &str) -> String {
    let mut text =
        format!("{compiler}, x86-64\n\n| case | what | target | measured |\n|---|---|---|---|\n");
    for (case, cost) in cases().zip(measured) {
        let Case {
            name, what, limit, ..
        } = case;
        let limit = limit.map_or_else(String::new, |limit| format!("{limit}"));
        // Writing to a string does not fail.
        let _infallible = writeln!(text, "| `{name}` | {what} | {limit} | {cost:.1} |");
    }
    text
}

fn rewritten(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no mark")?;
    let (_, after) = rest
        .split_once(END)
        .context("the page has no second mark")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// What became worse than the page says.
fn compare(page: &str, measured: &[f64], compiler: &str) -> Result<Vec<String>> {
    let (_, rest) = page.split_once(BEGIN).context("the page has no mark")?;
    let (block, _) = rest
        .split_once(END)
        .context("the page has no second mark")?;
    let same = block.trim_start().starts_with(compiler);
    let tolerance = if same { SAME_COMPILER } else { OTHER_COMPILER };
    let mut faults = Vec::new();
    for (case, cost) in cases().zip(measured) {
        let Some(written) = number_of(block, case.name) else {
            faults.push(format!("{}: {PAGE} has no number", case.name));
            continue;
        };
        let most = (written * (1.0 + tolerance)).max(written + SLACK);
        println!("{:<14} {cost:>9.1}   written: {written:.1}", case.name);
        if *cost > most {
            faults.push(format!(
                "{} ({}): {cost:.1} instructions, {written:.1} are written, {most:.1} allowed",
                case.name, case.what
            ));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "==7== Callgrind\n10000\n==7== Events    : Ir\n==7== Collected : 1234000\n";

    fn page(scale: f64, compiler: &str) -> String {
        let costs: Vec<f64> = cases().map(|_| 100.0 * scale).collect();
        rewritten(
            &format!("top\n{BEGIN}old\n{END}bottom\n"),
            &table(&costs, compiler),
        )
        .unwrap()
    }

    #[test]
    fn what_callgrind_prints_is_understood() {
        assert_eq!(cost(PRINTED).unwrap(), 123.4);
        cost("==7== Collected : 1234000\n").unwrap_err();
        cost("10000\n").unwrap_err();
    }

    #[test]
    fn worse_is_told_and_as_good_is_not() {
        let written = page(1.0, "rustc 1");
        let at = |cost: f64, compiler: &str| {
            compare(&written, &vec![cost; cases().count()], compiler).unwrap()
        };
        assert_eq!(at(101.9, "rustc 1"), [""; 0]);
        assert_eq!(at(90.0, "rustc 1"), [""; 0]);
        assert_eq!(at(102.1, "rustc 1").len(), cases().count());
        assert_eq!(at(109.0, "rustc 2"), [""; 0], "another compiler");
        assert_eq!(at(111.0, "rustc 2").len(), cases().count());
    }

    #[test]
    fn a_case_without_a_number_is_told() {
        let written = page(1.0, "rustc 1").replace("`isend1`", "`isend`");
        let faults = compare(&written, &vec![100.0; cases().count()], "rustc 1").unwrap();
        assert_eq!(faults, ["isend1: docs/hot-path.md has no number"]);
    }

    #[test]
    fn the_rest_of_the_page_stays() {
        let written = page(2.0, "rustc 1");
        assert!(written.starts_with("top\n") && written.ends_with("bottom\n"));
        assert!(!written.contains("old") && written.contains("| `isend1` |"));
    }
}
