//! Results of all rounds, and the plugin's share of what raw operations do.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::plan::Wire;
use crate::bench::plan::Mode;
use crate::report::out;
use crate::report::row::Row;
use crate::size::human;

/// Who moved the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Raw(Wire),
    Plugin,
}

impl Engine {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Raw(wire) => wire.name(),
            Self::Plugin => "plugin",
        }
    }

    /// Its column.
    const fn index(self) -> usize {
        match self {
            Self::Raw(Wire::Rendezvous) => 0,
            Self::Raw(Wire::Eager) => 1,
            Self::Raw(Wire::Write) => 2,
            Self::Plugin => PLUGIN,
        }
    }

    const ALL: [Self; 4] = [
        Self::Raw(Wire::Rendezvous),
        Self::Raw(Wire::Eager),
        Self::Raw(Wire::Write),
        Self::Plugin,
    ];
}

const PLUGIN: usize = 3;

/// Mode, size, window.
type Point = (Mode, usize, usize);

/// One value for each round.
type Values = [Vec<f64>; 4];

/// What all rounds measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    points: BTreeMap<Point, Values>,
    /// Largest resident memory of a rank, KiB.
    memory: Values,
}

impl Results {
    /// Adds the rows of one run.
    pub(crate) fn add(&mut self, engine: Engine, rows: Vec<Row>, memory_kib: u64) {
        for row in rows {
            let point = (row.mode, row.size, row.window);
            let values = self.points.entry(point).or_default();
            values[engine.index()].push(value(&row));
        }
        self.memory[engine.index()].push(memory_kib as f64);
    }

    /// Prints the table, or writes JSON.
    ///
    /// # Errors
    /// Text for the user: the file cannot be written.
    pub(crate) fn tell(&self, json: Option<&Path>) -> Result<(), String> {
        match json {
            Some(path) if path == Path::new("-") => out::line(&self.json().to_string()),
            Some(path) => {
                let written = std::fs::write(path, self.json().to_string() + "\n");
                written.map_err(|e| format!("cannot write {} (--json): {e}", path.display()))?;
                self.print();
            }
            None => self.print(),
        }
        Ok(())
    }

    fn print(&self) {
        for line in self.lines() {
            out::line(&line);
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{:<6}{:>8}{:>7}  {:<6}{:>12}{:>12}{:>12}{:>12}   plugin / raw: rendezvous, eager, write",
            "mode", "size", "window", "unit", "rendezvous", "eager", "write", "plugin"
        )];
        for (&(mode, size, window), values) in &self.points {
            let medians: Vec<Option<f64>> = values.iter().map(|v| median(v)).collect();
            let shown = |m: &Option<f64>| m.map_or_else(|| "-".to_owned(), |m| format!("{m:.4}"));
            let cells: Vec<String> = medians.iter().map(shown).collect();
            lines.push(format!(
                "{:<6}{:>8}{:>7}  {:<6}{:>12}{:>12}{:>12}{:>12}   {}",
                mode.name(),
                human(size),
                window,
                unit(mode),
                cells[0],
                cells[1],
                cells[2],
                cells[PLUGIN],
                shares(&medians)
            ));
        }
        let memory: Vec<String> = Engine::ALL
            .iter()
            .filter_map(|e| {
                let kib = median(&self.memory[e.index()])?;
                Some(format!("{} {:.1}", e.name(), kib / 1024.0))
            })
            .collect();
        lines.push(format!(
            "largest resident memory of a rank, MiB: {}",
            memory.join(", ")
        ));
        lines
    }

    fn json(&self) -> Value {
        let by_name = |values: &Values| -> Value {
            let each = Engine::ALL.iter().map(|e| {
                let values = &values[e.index()];
                let cell = json!({"rounds": values, "median": median(values)});
                (e.name().to_owned(), cell)
            });
            Value::Object(each.collect())
        };
        let points: Vec<Value> = self
            .points
            .iter()
            .map(|(&(mode, size, window), values)| {
                json!({
                    "mode": mode.name(),
                    "size": size,
                    "window": window,
                    "unit": unit(mode),
                    "results": by_name(values),
                })
            })
            .collect();
        json!({"format": 1, "points": points, "memory_kib": by_name(&self.memory)})
    }
}

/// What counts of a row: microseconds, GB/s, or millions of messages a second.
fn value(row: &Row) -> f64 {
    match row.mode {
        Mode::Lat => row.latency_us.map_or(0.0, |l| l.median),
        Mode::Rate => row.messages_per_s / 1e6,
        _ => row.algorithm_gbps,
    }
}

const fn unit(mode: Mode) -> &'static str {
    match mode {
        Mode::Lat => "us",
        Mode::Rate => "M/s",
        _ => "GB/s",
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The plugin's value over each raw one.
fn shares(medians: &[Option<f64>]) -> String {
    let plugin = medians.get(PLUGIN).copied().flatten();
    let each = medians.iter().take(PLUGIN).map(|raw| match (plugin, raw) {
        (Some(plugin), Some(raw)) if *raw > 0.0 => format!("{:.3}", plugin / raw),
        _ => "-".to_owned(),
    });
    each.collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Latency;

    fn row(us: f64) -> Row {
        Row {
            mode: Mode::Lat,
            size: 8,
            window: 1,
            window_asked: 2,
            comms: 1,
            iterations: 10,
            messages: 20,
            latency_us: Some(Latency {
                min: us,
                median: us,
                p99: us,
            }),
            algorithm_gbps: 0.0,
            bus_gbps: 0.0,
            messages_per_s: 0.0,
            verified: false,
        }
    }

    #[test]
    fn the_plugins_share_is_of_the_medians() {
        let mut results = Results::default();
        for us in [10.0, 30.0, 20.0] {
            results.add(Engine::Raw(Wire::Rendezvous), vec![row(us)], 1024);
            results.add(Engine::Plugin, vec![row(us * 1.1)], 2048);
        }
        let lines = results.lines();
        assert!(lines[1].ends_with("1.100  -  -"), "{}", lines[1]);
        assert!(lines[1].contains("20.0000"), "{}", lines[1]);
        assert!(lines[2].ends_with("rendezvous 1.0, plugin 2.0"));
        let json = results.json();
        assert_eq!(json["points"][0]["results"]["plugin"]["rounds"][1], 33.0);
    }
}
