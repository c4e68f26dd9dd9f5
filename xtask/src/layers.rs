//! The arrows of ARCHITECTURE.md, held against what cargo knows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::workspace::{Scope, Workspace};

/// What a crate of ours may depend on among our crates.
struct Arrows {
    name: &'static str,
    /// In what it ships.
    ships: &'static [&'static str],
    /// Besides, in its tests and benches.
    tests: &'static [&'static str],
}

const fn arrows(
    name: &'static str,
    ships: &'static [&'static str],
    tests: &'static [&'static str],
) -> Arrows {
    Arrows { name, ships, tests }
}

/// Every crate has a row; an arrow that is not here is forbidden.
const ALLOWED: &[Arrows] = &[
    arrows("ofi-bench", &[], &[]),
    arrows("ofi-imm", &[], &["ofi-bench"]),
    arrows("ofi-sched", &[], &["ofi-bench"]),
    arrows("ofi-pools", &[], &["ofi-bench"]),
    // Itself: its tests see all of its features.
    arrows("ofi-topo", &[], &["ofi-topo"]),
    arrows("ofi-hwloc", &["ofi-topo"], &["ofi-topo"]),
    arrows("ofi-trace", &[], &[]),
    arrows(
        "ofi-rdma",
        &["ofi-imm", "ofi-sched", "ofi-pools"],
        &["ofi-bench", "ofi-sim"],
    ),
    arrows(
        "ofi-sim",
        &[
            "ofi-rdma",
            "ofi-sendrecv",
            "ofi-imm",
            "ofi-sched",
            "ofi-pools",
        ],
        &[],
    ),
    arrows("ofi-sendrecv", &["ofi-rdma", "ofi-pools"], &[]),
    arrows("ofi-sys", &[], &[]),
    arrows("efa-fabric", &["ofi-sys"], &["efa-emu"]),
    arrows("efa-emu", &["ofi-sys", "ofi-topo"], &["efa-fabric"]),
    arrows(
        "ofi-net",
        &[
            "ofi-rdma",
            "ofi-sendrecv",
            "ofi-imm",
            "ofi-sched",
            "ofi-pools",
            "efa-fabric",
            "ofi-sys",
            "ofi-topo",
            "ofi-trace",
        ],
        &["ofi-bench", "ofi-sim", "efa-emu"],
    ),
    arrows("ofi-plugin-edge", &["ofi-net"], &[]),
    arrows(
        "ofi-plugin-neuron",
        &["ofi-plugin-edge", "ofi-net"],
        &["efa-emu"],
    ),
    arrows(
        "ofi-plugin-nccl",
        &["ofi-plugin-edge"],
        &["ofi-plugin-neuron", "efa-emu", "ofi-topo"],
    ),
    arrows(
        "ofi-tools",
        &[
            "efa-fabric",
            "ofi-net",
            "ofi-rdma",
            "ofi-sched",
            "ofi-sendrecv",
            "ofi-hwloc",
            "ofi-topo",
            "ofi-trace",
            "efa-emu",
        ],
        &["ofi-topo"],
    ),
    arrows(
        "examples",
        &["ofi-imm", "ofi-sched", "ofi-sim", "ofi-net"],
        &[],
    ),
    arrows("xtask", &[], &[]),
];

/// The crates without system calls, libfabric, threads and clocks.
const PURE: [&str; 8] = [
    "ofi-imm",
    "ofi-sched",
    "ofi-pools",
    "ofi-topo",
    "ofi-rdma",
    "ofi-sendrecv",
    "ofi-sim",
    "ofi-trace",
];

/// What no pure crate may reach in what it ships, however many steps away.
const IMPURE: [&str; 7] = [
    "libc",
    "rustix",
    "nix",
    "ofi-sys",
    "efa-fabric",
    "tokio",
    "parking_lot",
];

/// The command: fails on the first forbidden arrows, all of them named.
pub(crate) fn run(here: &Workspace) -> Result<()> {
    let graph = Graph::read(&here.metadata(Scope::Everything)?)?;
    let faults = faults(&graph);
    if faults.is_empty() {
        println!("layers: {} crates, every arrow allowed", graph.ours.len());
        return Ok(());
    }
    bail!("forbidden dependencies:\n  {}", faults.join("\n  "))
}

/// Who depends on whom, by name.
#[derive(Debug, Default)]
struct Graph {
    /// The crates of the workspace.
    ours: BTreeSet<String>,
    /// Dependencies of what ships: of the package and of its build script.
    ships: BTreeMap<String, BTreeSet<String>>,
    /// Dependencies of tests, examples and benches.
    tests: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads the output of `cargo metadata`.
    fn read(metadata: &Value) -> Result<Self> {
        let list = |value: &Value, what: &'static str| {
            value
                .as_array()
                .cloned()
                .with_context(|| format!("metadata has no {what}"))
        };
        let mut names = BTreeMap::new();
        for package in list(&metadata["packages"], "packages")? {
            names.insert(text(&package["id"])?, text(&package["name"])?);
        }
        let name = |id: &Value| -> Result<String> {
            names
                .get(&text(id)?)
                .cloned()
                .context("metadata names an unknown package")
        };
        let mut graph = Self::default();
        for id in list(&metadata["workspace_members"], "members")? {
            graph.ours.insert(name(&id)?);
        }
        for node in list(&metadata["resolve"]["nodes"], "dependency graph")? {
            let from = name(&node["id"])?;
            for dependency in list(&node["deps"], "dependencies")? {
                let to = name(&dependency["pkg"])?;
                for kind in list(&dependency["dep_kinds"], "kinds of dependency")? {
                    // A loom model is a test. Its crate is no dev-dependency only because the
                    // code under test must name it too, under cfg(loom).
                    let is_model = kind["target"].as_str() == Some("cfg(loom)");
                    let is_test = kind["kind"].as_str() == Some("dev") || is_model;
                    let edges = if is_test {
                        &mut graph.tests
                    } else {
                        &mut graph.ships
                    };
                    edges.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        Ok(graph)
    }

    /// A shortest way from one crate to another through what ships.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut paths = vec![vec![from.to_owned()]];
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            let last = path.last()?;
            if last == to {
                return Some(path);
            }
            for step in self.ships.get(last).into_iter().flatten() {
                if seen.insert(step.clone()) {
                    paths.push(path.iter().chain([step]).cloned().collect());
                }
            }
            next += 1;
        }
        None
    }
}

fn text(value: &Value) -> Result<String> {
    Ok(value
        .as_str()
        .context("metadata has a name that is no text")?
        .to_owned())
}

fn faults(graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for krate in &graph.ours {
        let Some(row) = ALLOWED.iter().find(|row| row.name == krate) else {
            faults.push(format!("{krate} has no row in xtask/src/layers.rs"));
            continue;
        };
        let ours = |edges: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> {
            let all = edges.get(krate).into_iter().flatten();
            all.filter(|to| graph.ours.contains(*to)).cloned().collect()
        };
        let ships = ours(&graph.ships);
        let forbidden = ships.iter().filter(|to| !row.ships.contains(&to.as_str()));
        faults.extend(forbidden.map(|to| format!("{krate} -> {to}")));
        let tests = ours(&graph.tests);
        let forbidden = tests
            .iter()
            .filter(|to| !row.ships.contains(&to.as_str()) && !row.tests.contains(&to.as_str()));
        faults.extend(forbidden.map(|to| format!("{krate} -> {to} (in its tests)")));
    }
    for krate in PURE.iter().filter(|name| graph.ours.contains(**name)) {
        let reached = IMPURE.iter().filter_map(|impure| graph.path(krate, impure));
        faults.extend(reached.map(|path| format!("{} (pure code must not)", path.join(" -> "))));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{Graph, faults};
    use serde_json::{Value, json};

    /// Metadata of crates with (name, [(dependency, kind)]); those called ofi-* are ours.
    fn metadata(crates: &[(&str, &[(&str, &str)])]) -> Value {
        let is_ours = |name: &str| name.starts_with("ofi-") || name.starts_with("efa-");
        let node = |(name, deps): &(&str, &[(&str, &str)])| {
            let dep = |(to, kind): &(&str, &str)| {
                let (kind, target) = match *kind {
                    "normal" => (Value::Null, Value::Null),
                    "loom" => (Value::Null, json!("cfg(loom)")),
                    kind => (json!(kind), Value::Null),
                };
                json!({ "pkg": to, "dep_kinds": [{ "kind": kind, "target": target }] })
            };
            json!({ "id": name, "deps": deps.iter().map(dep).collect::<Vec<_>>() })
        };
        let names: Vec<&str> = crates.iter().map(|(name, _)| *name).collect();
        let packages: Vec<Value> = names
            .iter()
            .map(|name| json!({ "id": name, "name": name }))
            .collect();
        json!({
            "packages": packages,
            "workspace_members": names.iter().filter(|n| is_ours(n)).collect::<Vec<_>>(),
            "resolve": { "nodes": crates.iter().map(node).collect::<Vec<_>>() },
        })
    }

    fn faults_of(crates: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        faults(&Graph::read(&metadata(crates)).unwrap())
    }

    #[test]
    fn allowed_arrows_pass() {
        let found = faults_of(&[
            ("ofi-imm", &[("proptest", "dev")]),
            ("ofi-sched", &[]),
            ("ofi-pools", &[("loom", "loom")]),
            ("loom", &[("libc", "normal")]),
            (
                "ofi-rdma",
                &[
                    ("ofi-imm", "normal"),
                    ("ofi-pools", "normal"),
                    ("ofi-sim", "dev"),
                ],
            ),
            ("ofi-sim", &[("ofi-rdma", "normal")]),
            ("proptest", &[("libc", "normal")]),
            ("libc", &[]),
        ]);
        assert_eq!(
            found,
            Vec::<String>::new(),
            "tests of a pure crate may reach libc"
        );
    }

    #[test]
    fn planted_arrows_are_named() {
        let found = faults_of(&[
            ("ofi-imm", &[("ofi-rdma", "dev")]),
            ("ofi-rdma", &[("efa-fabric", "normal"), ("thing", "normal")]),
            ("efa-fabric", &[("ofi-sys", "normal")]),
            ("ofi-sys", &[("libc", "normal")]),
            ("thing", &[("libc", "build")]),
            ("libc", &[]),
        ]);
        assert_eq!(
            found,
            [
                "ofi-imm -> ofi-rdma (in its tests)",
                "ofi-rdma -> efa-fabric",
                "ofi-rdma -> thing -> libc (pure code must not)",
                "ofi-rdma -> efa-fabric -> ofi-sys (pure code must not)",
                "ofi-rdma -> efa-fabric (pure code must not)",
            ]
        );
    }

    #[test]
    fn a_crate_nobody_placed_is_a_fault() {
        let found = faults_of(&[("ofi-new", &[])]);
        assert_eq!(found, ["ofi-new has no row in xtask/src/layers.rs"]);
    }
}
