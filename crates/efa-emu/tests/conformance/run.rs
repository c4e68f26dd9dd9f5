//! Running rules: this binary again, with the environment of the case, as one process or two.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use crate::link::{self, Link};
use crate::rules::{ALL, EXTRA, Rule};
use crate::side::Actor;

/// Which fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fabric {
    Rdm,
    Direct,
}

impl Fabric {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rdm => "efa",
            Self::Direct => "efa-direct",
        }
    }
}

/// Where the two sides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Threads,
    Processes,
}

/// How bytes get to the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    Direct,
    Relayed,
}

/// Every rule in one case.
pub(crate) fn all(fabric: Fabric, place: Place, copies: Copies) {
    let cma = if copies == Copies::Direct { "1" } else { "0" };
    run("all", fabric, place, &[("EFA_EMU_CMA", cma)]);
}

/// One of the rules that need a case of their own, between processes.
pub(crate) fn with(rule: &str, fabric: Fabric, set: &[(&str, &str)]) {
    run(rule, fabric, Place::Processes, set);
}

fn run(rules: &str, fabric: Fabric, place: Place, set: &[(&str, &str)]) {
    let dir = tempfile::tempdir().expect("a directory");
    let start = |side: &str| -> Child {
        let this = std::env::current_exe().expect("this binary");
        let mut command = Command::new(&this);
        command
            .args(["--exact", "child", "--nocapture"])
            .env("FI_PROVIDER_PATH", this.parent().expect("its directory"))
            // Without these the psm providers of some libfabrics take over signals.
            .env("HFI_NO_BACKTRACE", "1")
            .env("IPATH_NO_BACKTRACE", "1")
            .env("EFA_EMU_GENERATION", "2.5")
            .env("EFA_EMU_SEED", "7")
            .env("EFA_EMU_NAME", side)
            .env("EFA_TEST_RULES", rules)
            .env("EFA_TEST_FABRIC", fabric.name())
            .env("EFA_TEST_SIDE", side)
            .env("EFA_TEST_DIR", dir.path())
            .envs(set.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("a child")
    };
    let sides: &[&str] = match place {
        Place::Threads => &["both"],
        Place::Processes => &["0", "1"],
    };
    let children: Vec<(&str, Child)> = sides.iter().map(|side| (*side, start(side))).collect();
    let mut failures = Vec::new();
    for (side, mut child) in children {
        let mut text = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut text).expect("text");
        }
        let output = child.wait_with_output().expect("the child");
        // A side that kills itself for its rule says so before.
        let is_meant = text.contains(link::GOODBYE);
        if !output.status.success() && !is_meant {
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            failures.push(format!("side {side}: {}\n{out}\n{text}", output.status));
        }
    }
    assert!(failures.is_empty(), "{set:?}\n{}", failures.join("\n"));
}

/// The child: plays its side of the rules that the environment names.
pub(crate) fn child() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(wanted) = variable("EFA_TEST_RULES") else {
        return;
    };
    let fabric = match variable("EFA_TEST_FABRIC").as_deref() {
        Some("efa") => Fabric::Rdm,
        _ => Fabric::Direct,
    };
    let rules: Vec<&Rule> = match wanted.as_str() {
        "all" => ALL.iter().collect(),
        name => EXTRA.iter().filter(|rule| rule.0 == name).collect(),
    };
    assert!(!rules.is_empty(), "no rule {wanted}");
    match variable("EFA_TEST_SIDE").as_deref() {
        Some("both") => {
            let (a, b) = Link::channels();
            std::thread::scope(|scope| {
                let first = &rules;
                scope.spawn(move || play(fabric, 0, &a, first));
                play(fabric, 1, &b, &rules);
            });
        }
        Some(side) => {
            let dir = variable("EFA_TEST_DIR").expect("a directory");
            let side = usize::from(side == "1");
            play(fabric, side, &Link::socket(side, dir.as_ref()), &rules);
        }
        None => panic!("no side"),
    }
}

/// Plays one side. Who fails takes the other one along: the link breaks.
fn play(fabric: Fabric, side: usize, link: &Link, rules: &[&Rule]) {
    for (name, rule) in rules {
        link.tell(name);
        let theirs = link.hear();
        assert_eq!(theirs, *name, "the other side plays something else");
        println!("side {side}: {name}");
        rule(&Actor { fabric, side, link });
    }
}
