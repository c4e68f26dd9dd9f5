//! What the parts left: files of boards (see ofi-bench) and of `ofi raw` (see docs/json.md).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// All files, by their names without the extension.
#[derive(Debug, Default)]
pub(super) struct Results {
    files: BTreeMap<String, Value>,
}

/// One contender of a group.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) group: &'a str,
    pub(super) is_cold: bool,
    pub(super) name: &'a str,
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
    /// Its time over ours.
    pub(super) ratio: Option<f64>,
    /// Whether it is ours.
    pub(super) is_ours: bool,
}

/// One point of `ofi raw`.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) mode: &'a str,
    pub(super) size: u64,
    pub(super) unit: &'a str,
    value: &'a Value,
}

impl Point<'_> {
    /// The median of who moved the bytes.
    pub(super) fn of(&self, who: &str) -> Option<f64> {
        self.value["results"][who]["median"].as_f64()
    }
}

impl Results {
    /// Reads a directory.
    pub(super) fn read(dir: &Path) -> Result<Self> {
        let mut results = Self::default();
        let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") {
                let text = fs::read_to_string(&path)?;
                let name = path.file_stem().unwrap_or_default();
                let value = serde_json::from_str(&text);
                let value = value.with_context(|| path.display().to_string())?;
                results.add(&name.to_string_lossy(), value);
            }
        }
        Ok(results)
    }

    pub(super) fn add(&mut self, name: &str, value: Value) {
        self.files.insert(name.to_owned(), value);
    }

    /// The contenders of a board, in their order.
    pub(super) fn rows(&self, board: &str) -> Vec<Row<'_>> {
        let groups = self.files.get(board).and_then(|f| f["groups"].as_array());
        groups.into_iter().flatten().flat_map(rows_of).collect()
    }

    /// A contender of a group with warm caches.
    pub(super) fn row(&self, board: &str, group: &str, name: &str) -> Option<Row<'_>> {
        let rows = self.rows(board).into_iter();
        rows.filter(|row| !row.is_cold)
            .find(|row| row.group == group && row.name == name)
    }

    /// A contender's time over ours.
    pub(super) fn ratio(&self, board: &str, group: &str, name: &str) -> Option<f64> {
        self.row(board, group, name)?.ratio
    }

    /// Our median in a group, in nanoseconds.
    pub(super) fn ours(&self, board: &str, group: &str) -> Option<f64> {
        let mut rows = self.rows(board).into_iter().filter(|row| !row.is_cold);
        rows.find(|row| row.group == group && row.is_ours)
            .map(|row| row.median)
    }

    /// The points of a file of `ofi raw`.
    pub(super) fn points(&self, file: &str) -> Vec<Point<'_>> {
        let name = file.trim_end_matches(".json");
        let points = self.files.get(name).and_then(|f| f["points"].as_array());
        points
            .into_iter()
            .flatten()
            .filter_map(|value| {
                Some(Point {
                    mode: value["mode"].as_str()?,
                    size: value["size"].as_u64()?,
                    unit: value["unit"].as_str()?,
                    value,
                })
            })
            .collect()
    }

    /// Largest resident memory of a rank, KiB, of who moved the bytes.
    pub(super) fn memory(&self, file: &str, who: &str) -> Option<f64> {
        let file = self.files.get(file.trim_end_matches(".json"))?;
        file["memory_kib"][who]["median"].as_f64()
    }

    /// A number of a board that is no time.
    pub(super) fn fact(&self, board: &str, name: &str) -> Option<f64> {
        let facts = self.files.get(board)?["facts"].as_array()?;
        let fact = facts.iter().find(|fact| fact["name"] == name)?;
        fact["value"].as_f64()
    }
}

fn rows_of(group: &Value) -> Vec<Row<'_>> {
    let contenders = group["contenders"].as_array().into_iter().flatten();
    contenders
        .enumerate()
        .filter_map(|(at, contender)| {
            Some(Row {
                group: group["group"].as_str()?,
                is_cold: group["cold"].as_bool()?,
                name: contender["name"].as_str()?,
                min: contender["min"].as_f64()?,
                median: contender["median"].as_f64()?,
                max: contender["max"].as_f64()?,
                ratio: contender["ratio"].as_f64(),
                is_ours: at == 0,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Results;
    use serde_json::json;

    pub(crate) fn some() -> Results {
        let mut results = Results::default();
        let contender = |name: &str, ns: f64, ratio: f64| json!({"name": name, "rounds": 20, "min": ns, "median": ns, "max": ns, "ratio": ratio});
        let group = |cold: bool, theirs: f64| {
            let both = [
                contender("ours", 2.0, 1.0),
                contender("b", theirs, theirs / 2.0),
            ];
            json!({"group": "g", "cold": cold, "contenders": both})
        };
        let facts = json!([{"name": "f", "value": 7.0, "unit": "B"}]);
        let board =
            json!({"board": "x", "groups": [group(true, 9.0), group(false, 8.0)], "facts": facts});
        results.add("x", board);
        results
    }

    #[test]
    fn a_group_is_found_warm() {
        let results = some();
        assert_eq!(results.rows("x").len(), 4);
        assert_eq!(results.ratio("x", "g", "b"), Some(4.0));
        assert_eq!(results.ours("x", "g"), Some(2.0));
        assert_eq!(results.ratio("x", "g", "c"), None);
        assert_eq!(results.ratio("y", "g", "b"), None);
        assert_eq!(results.fact("x", "f"), Some(7.0));
    }

    #[test]
    fn points_have_a_value_for_each_engine() {
        let mut results = Results::default();
        let both = json!({"plugin": {"median": 2.0}, "eager": {"median": null}});
        let point = json!({"mode": "lat", "size": 8, "window": 1, "unit": "us", "results": both});
        let memory = json!({"plugin": {"median": 1024.0}});
        results.add("raw-a", json!({"points": [point], "memory_kib": memory}));
        let points = results.points("raw-a.json");
        assert_eq!(
            (points[0].of("plugin"), points[0].of("eager")),
            (Some(2.0), None)
        );
        assert_eq!(results.memory("raw-a.json", "plugin"), Some(1024.0));
    }
}
