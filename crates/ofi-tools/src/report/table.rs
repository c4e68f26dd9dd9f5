//! The table at the end of a run.

use super::out;
use super::row::{Row, Summary};
use crate::coord::hub::Outcome;
use crate::size::{human, rounded};

/// Prints everything but the verdict.
pub(crate) fn print(outcome: &Outcome) {
    for note in &outcome.notes {
        out::line(note);
    }
    if !outcome.rows.is_empty() {
        out::line("");
        for line in lines(&outcome.rows) {
            out::line(&line);
        }
    }
    for line in memory(&outcome.summaries) {
        out::line(&line);
    }
}

const HEADER: &str = concat!(
    "mode           size window comms iterations   messages",
    "    min us    med us    p99 us  alg GB/s  bus GB/s       msg/s"
);

fn lines(rows: &[Row]) -> Vec<String> {
    let mut out = vec![HEADER.to_owned()];
    out.extend(rows.iter().map(line));
    if rows.iter().any(|r| r.verified) {
        out.push(
            "* bytes verified; the times of such rows include it, but for collectives".to_owned(),
        );
    }
    out
}

fn line(r: &Row) -> String {
    let us = |pick: fn(&super::row::Latency) -> f64| {
        r.latency_us
            .as_ref()
            .map_or_else(|| "-".to_owned(), |l| short(pick(l)))
    };
    format!(
        "{:<9}{:>10} {:>6} {:>5} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}{}",
        r.mode.name(),
        human(r.size),
        r.window,
        r.comms,
        r.iterations,
        r.messages,
        us(|l| l.min),
        us(|l| l.median),
        us(|l| l.p99),
        short(r.algorithm_gbps),
        short(r.bus_gbps),
        format!("{:.0}", r.messages_per_s),
        if r.verified { " *" } else { "" },
    )
}

/// Three or four significant digits, however small; at most nine characters up to 10^9.
fn short(x: f64) -> String {
    if x >= 1000.0 {
        format!("{x:.0}")
    } else if x >= 100.0 {
        format!("{x:.1}")
    } else if x >= 1.0 {
        format!("{x:.2}")
    } else if x >= 0.01 {
        format!("{x:.4}")
    } else if x >= 0.0001 {
        format!("{x:.6}")
    } else if x > 0.0 {
        format!("{x:.2e}")
    } else {
        "0".to_owned()
    }
}

fn memory(summaries: &[Option<Summary>]) -> Vec<String> {
    let known: Vec<&Summary> = summaries.iter().flatten().collect();
    if known.is_empty() {
        return Vec::new();
    }
    let each: Vec<String> = known
        .iter()
        .map(|s| format!("{:.1}", s.memory_kib as f64 / 1024.0))
        .collect();
    let total: u64 = known.iter().map(|s| s.memory_kib).sum();
    let setup = known.iter().map(|s| s.init_ms).fold(0.0, f64::max);
    let connects: u64 = known.iter().map(|s| s.connections).sum();
    let connect = known.iter().map(|s| s.connect_ms).fold(0.0, f64::max);
    let retries: u64 = known.iter().map(|s| s.retries).sum();
    let warnings: u64 = known.iter().map(|s| s.warnings).sum();
    vec![
        String::new(),
        format!(
            "resident memory (largest, MiB by rank): {}; all ranks {}",
            each.join(" "),
            rounded(total * 1024)
        ),
        format!(
            "init {setup:.1} ms, {connects} ends of connections in {connect:.1} ms; {retries} posts asked to come again; {warnings} warnings of the plugin"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Mode;
    use crate::report::row::Latency;

    #[test]
    fn small_figures_keep_their_digits_and_fit_their_column() {
        for (x, text) in [
            (0.0, "0"),
            (0.000_012_34, "1.23e-5"),
            (0.000_123_4, "0.000123"),
            (0.009_876, "0.009876"),
            (0.123_4, "0.1234"),
            (12.345, "12.35"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(short(x), text);
        }
    }

    #[test]
    fn header_and_rows_line_up() {
        let row = Row {
            mode: Mode::Allreduce,
            size: 1 << 20,
            window: 8,
            window_asked: 8,
            comms: 2,
            iterations: 100,
            messages: 4800,
            latency_us: Some(Latency {
                min: 812.3,
                median: 1034.9,
                p99: 2000.0,
            }),
            algorithm_gbps: 1.013,
            bus_gbps: 1.52,
            messages_per_s: 46_380.0,
            verified: false,
        };
        let all = lines(&[row]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].len(), all[1].len());
        assert!(
            all[1].contains(" 1M ") && all[1].contains(" 1035 "),
            "{}",
            all[1]
        );
    }
}
