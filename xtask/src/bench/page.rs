//! docs/benchmarks.md and its charts.

use core::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use super::chart::{self, Bar, number};
use super::raw::{ASKS, CARRIERS, RAILS, file_name};
use super::results::{Results, Row};
use super::targets::{self, share};
use crate::process::Program;
use crate::workspace::Workspace;

/// The page, and the marks around what is measured.
const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- measured: cargo xtask bench -->\n";
const END: &str = "<!-- end of what is measured -->\n";

/// The charts.
const RATIOS: &str = "docs/benchmarks-ratios.svg";
const SHARES: &str = "docs/benchmarks-shares.svg";

/// Boards in the order of the page, and their titles.
const BOARDS: [(&str, &str); 10] = [
    ("imm", "Immediate word"),
    ("idpool", "Id pool"),
    ("contention", "Ids by several threads"),
    ("slots", "Tables and freelists"),
    ("mrcache", "Registration cache"),
    ("plan", "Schedule"),
    ("window", "Window of sequence numbers"),
    ("engine", "Engine on a rail that takes everything"),
    ("threads", "Threads on one domain, and on one each"),
    ("memory", "Memory"),
];

/// Writes all of it.
pub(super) fn write(here: &Workspace, results: &Results, is_quick: bool) -> Result<()> {
    let path = here.root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
    let (before, rest) = page.split_once(BEGIN).context("the page has no mark")?;
    let (_, after) = rest
        .split_once(END)
        .context("the page has no second mark")?;
    let mut measured = measured(here, results)?;
    if is_quick {
        measured.insert_str(
            0,
            "Short rounds (`--quick`): to see that it works, not to be quoted.\n",
        );
    }
    fs::write(&path, format!("{before}{BEGIN}\n{measured}\n{END}{after}"))?;
    let ratios = chart::draw(
        "Contenders of the reference's algorithms and of others, over ours",
        "time of the contender / ours (logarithmic; right of 1: ours is faster)",
        &ratio_bars(results),
    );
    fs::write(here.root.join(RATIOS), ratios)?;
    let shares = chart::draw(
        "The plugin over the same operations on libfabric, with no engine",
        "plugin / raw: bandwidth and rate; raw / plugin: latency (right of 1: no cost)",
        &share_bars(results),
    );
    fs::write(here.root.join(SHARES), shares)?;
    println!("bench: {PAGE}, {RATIOS} and {SHARES} written");
    Ok(())
}

fn measured(here: &Workspace, results: &Results) -> Result<String> {
    let mut text = machine(here)?;
    text.push_str("\n## Targets\n\n| what | target | measured | met |\n|---|---|---|---|\n");
    for target in targets::all(here, results) {
        line(&mut text, &target.line());
    }
    end_to_end(&mut text, results);
    for (board, title) in BOARDS {
        let rows = results.rows(board);
        if !rows.is_empty() {
            table(&mut text, title, &rows);
        }
    }
    Ok(text)
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Where, when and with what.
fn machine(here: &Workspace) -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |m| {
        m.trim_start_matches([' ', '\t', ':'])
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let said = |name: &str, args: &[&str]| -> Result<String> {
        let program = Program::new(name).args(args).dir(&here.root);
        Ok(program.output()?.trim().to_owned())
    };
    // Without what its builder appended.
    let kernel = said("uname", &["-sr"])?;
    let kernel = kernel.split('-').next().unwrap_or("an unknown kernel");
    let rustc = said("rustc", &["--version"])?;
    let commit = said("git", &["rev-parse", "--short", "HEAD"])?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    Ok(format!(
        "{model}, {cores} cores, {kernel}; {rustc}; commit `{commit}`; load of the machine at the end: {load}.\n"
    ))
}

/// A table of a board.
fn table(text: &mut String, title: &str, rows: &[Row<'_>]) {
    // Writing to a string does not fail.
    let _infallible = writeln!(
        text,
        "\n## {title}\n\n| what | who | min ns | median ns | max ns | over ours |\n|---|---|---|---|---|---|"
    );
    for row in rows {
        let cold = if row.is_cold { ", cold" } else { "" };
        let ratio = row.ratio.map_or_else(String::new, number);
        let cells = [row.min, row.median, row.max].map(number).join(" | ");
        line(
            text,
            &format!("| {}{cold} | {} | {cells} | {ratio} |", row.group, row.name),
        );
    }
}

fn end_to_end(text: &mut String, results: &Results) {
    text.push_str(
        "\n## End to end\n\n| over | rails | what | bytes | unit | rendezvous | eager | write | plugin | plugin / rendezvous |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for carrier in &CARRIERS {
        for rails in RAILS {
            for ask in &ASKS {
                for point in results.points(&file_name(carrier, rails, ask)) {
                    let who = ["rendezvous", "eager", "write", "plugin"];
                    let cell = |who| point.of(who).map_or_else(|| "-".to_owned(), number);
                    let cells = who.map(cell).join(" | ");
                    let share = share(&point).map_or_else(String::new, number);
                    let comms = if ask.name == "rate8" {
                        ", 8 communicators"
                    } else {
                        ""
                    };
                    let (mode, size, unit) = (point.mode, point.size, point.unit);
                    let row = format!(
                        "| {} | {rails} | {mode}{comms} | {size} | {unit} | {cells} | {share} |",
                        carrier.name
                    );
                    line(text, &row);
                }
            }
        }
    }
}

/// The contenders with warm caches, but ours and what has no check at all.
fn ratio_bars(results: &Results) -> Vec<Bar> {
    let rows = BOARDS.iter().flat_map(|(board, _)| results.rows(board));
    let others = rows.filter(|row| !row.is_cold && !row.name.starts_with("ofi-"));
    others
        .filter_map(|row| {
            Some(Bar {
                label: format!("{}: {}", row.group, row.name),
                value: row.ratio?,
            })
        })
        .collect()
}

fn share_bars(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    for carrier in &CARRIERS {
        for rails in RAILS {
            for ask in &ASKS {
                for point in results.points(&file_name(carrier, rails, ask)) {
                    let Some(share) = share(&point) else { continue };
                    let value = if point.mode == "lat" {
                        share.recip()
                    } else {
                        share
                    };
                    let label = format!(
                        "{}, {rails} rails: {}, {} B",
                        carrier.name, ask.name, point.size
                    );
                    bars.push(Bar { label, value });
                }
            }
        }
    }
    bars
}
