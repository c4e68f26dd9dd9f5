//! `cargo xtask hangs`: sixteen ranks, one of which hangs in one way after the other; `ofi dump` has to
//! name it, and what it has not done, and `ofi trace` has to show what went over the rails of those that answer.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use crate::artifacts::{self, Built, Profile};
use crate::libfabric::Libfabric;
use crate::process::{Ended, Program};
use crate::programs;
use crate::settings;
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

const RANKS: &str = "16";
const CULPRIT: u32 = 5;

/// Cases at once: part of their time they wait.
const AT_ONCE: usize = 3;

/// No verdict takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// One way to hang.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// What `plugin/tests/hang.c` calls it.
    kind: &'static str,
    provider: &'static str,
    protocol: &'static str,
    /// Rules for the emulated NICs.
    plan: &'static str,
    /// What kind of verdict there has to be: `process`, `network`, `circle`.
    verdict: &'static str,
    /// What the verdict has to say is missing: one of these.
    missing: &'static [&'static str],
    /// Whether the culprit answers when it is asked for a dump.
    silent: bool,
}

const fn case(kind: &'static str, missing: &'static [&'static str]) -> Case {
    Case {
        kind,
        provider: "efa",
        protocol: "RDMA",
        plan: "",
        verdict: "process",
        missing,
        silent: false,
    }
}

impl Case {
    const fn silent(self) -> Self {
        Self {
            silent: true,
            ..self
        }
    }

    const fn tcp(self) -> Self {
        Self {
            provider: "tcp",
            ..self
        }
    }

    const fn sendrecv(self) -> Self {
        Self {
            protocol: "SENDRECV",
            ..self
        }
    }

    /// Something with the network of the culprit.
    const fn nic(plan: &'static str, missing: &'static [&'static str]) -> Self {
        Self {
            plan,
            verdict: "network",
            ..case("none", missing)
        }
    }
}

const MESSAGE: &[&str] = &["receive", "send"];

const CASES: [Case; 20] = [
    case("accept", &["accept"]),
    case("connect", &["connect"]),
    case("answer", &["connect-again"]),
    case("receive", &["receive"]),
    case("send", &["send"]),
    case("test", MESSAGE).silent(),
    case("outside", MESSAGE).silent(),
    case("stop", MESSAGE).silent(),
    case("kill", MESSAGE).silent(),
    case("close", &["close"]),
    Case {
        verdict: "circle",
        ..case("circle", &["receive"])
    },
    Case::nic(
        "nic-lost process=5 nic=0 at=12 code=flushed refuse=EIO",
        &["failure"],
    ),
    Case::nic("error on=imm process=5 at=3 code=bad-rkey", &["failure"]),
    Case::nic("lose on=imm process=5 from=3", &["arrival"]),
    Case::nic("mute process=5 at=12", &["arrival", "failure"]),
    Case::nic("stop-polling process=5 at=12 polls=100000000", &["arrival"]),
    case("receive", &["receive"]).tcp(),
    case("kill", &["receive", "send", "failure", "arrival"])
        .silent()
        .tcp(),
    case("receive", &["receive"]).sendrecv(),
    case("send", &["send"]).sendrecv(),
];

/// Runs the cases; fails if a verdict is not as it has to be, and quotes it.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let (profile, wanted) = match *options {
        [] => (Profile::Release, ""),
        ["--dev"] => (Profile::Dev, ""),
        ["--dev", kind] => (Profile::Dev, kind),
        [kind] => (Profile::Release, kind),
        _ => bail!("hangs takes --dev, and the name of one way to hang, such as receive"),
    };
    let report = setup::prepare(here, Extent::System);
    let libfabric = report.any()?;
    let built = artifacts::build(here, profile)?;
    let program = programs::compile(here, "hang", &[])?;
    let logs = here.target.join("hangs");
    fs::create_dir_all(&logs)?;
    let cases: Vec<Run<'_>> = CASES
        .iter()
        .filter(|case| wanted.is_empty() || case.kind == wanted || case.plan.starts_with(wanted))
        .map(|case| Run {
            case: *case,
            built: &built,
            program: &program,
            libfabric,
        })
        .collect();
    let bad = all(&cases, &logs)?;
    if bad > 0 {
        bail!("{bad} verdicts of `ofi dump` are wrong");
    }
    Ok(())
}

/// Some at a time; how many were wrong.
fn all(cases: &[Run<'_>], logs: &Path) -> Result<usize> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let worker = || -> Result<usize> {
            let mut bad = 0;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = cases.get(at) else {
                    return Ok(bad);
                };
                bad += usize::from(!run.tell(&logs.join(at.to_string()))?);
            }
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter().map(|worker| {
            let ended = worker.join();
            ended.map_err(|_| anyhow!("a thread that waited for ranks ended"))?
        });
        ends.sum()
    })
}

struct Run<'a> {
    case: Case,
    built: &'a Built,
    program: &'a Path,
    libfabric: &'a Libfabric,
}

impl Run<'_> {
    /// Says what the verdict was; whether it was right.
    fn tell(&self, logs: &Path) -> Result<bool> {
        let Case {
            kind,
            plan,
            provider,
            protocol,
            ..
        } = self.case;
        let began = Instant::now();
        let verdict = self.judge(logs)?;
        let took = began.elapsed().as_secs_f64();
        let what = format!("{kind} {plan} {provider} {protocol}");
        match &verdict {
            Ok(said) => println!("{what}: {said} ({took:.1} s)"),
            Err(said) => println!("--- {what} ({took:.1} s)\n{said}"),
        }
        Ok(verdict.is_ok())
    }

    /// What the verdict was: as it has to be, or what was said at last.
    fn judge(&self, logs: &Path) -> Result<core::result::Result<String, String>> {
        // What an earlier run left would be told as well.
        if logs.exists() {
            fs::remove_dir_all(logs)?;
        }
        let dir = logs.join("dumps");
        fs::create_dir_all(&dir)?;
        let log = File::create(logs.join("log"))?;
        std::thread::scope(|scope| {
            let program = self.command(&dir);
            let running = scope.spawn(move || program.run_into(&log));
            let verdict = self.verdict(&dir);
            fs::write(dir.join("enough"), b"")?;
            let ended = running.join();
            let ended = ended.map_err(|_| anyhow!("the thread that waited for it ended"))??;
            let verdict = verdict?;
            Ok(match ended {
                Ended::Well => verdict,
                other => Err(format!("the ranks ended: {other:?}; see target/hangs")),
            })
        })
    }

    fn command(&self, dumps: &Path) -> Program {
        let Case {
            kind,
            provider,
            protocol,
            plan,
            ..
        } = self.case;
        let culprit = CULPRIT.to_string();
        let args = [RANKS, &culprit, kind];
        let built = self.built.ofi.parent().unwrap_or_else(|| Path::new("."));
        let program = Program::new(self.program)
            .args([&self.built.neuron])
            .args(args)
            .env("OFI_NCCL_DUMP_DIR", dumps)
            .env("OFI_NCCL_STALL_WARN", "1")
            .env("OFI_NCCL_TRACE_RING", "200")
            // Senders wait for CLOSE.
            .env("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "0")
            .env("OFI_NCCL_PROTOCOL", protocol)
            .env("FI_PROVIDER", self.provider(provider))
            .limit(PATIENCE * 2);
        let environment = settings::environment(self.libfabric).into_iter();
        let program = environment.fold(program, |program, (name, value)| program.env(name, value));
        if provider != "efa" {
            return program;
        }
        let program = program
            .env("FI_PROVIDER_PATH", built)
            .env("EFA_EMU_NICS", "1")
            .env("EFA_EMU_SEED", "1")
            .env("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "1");
        match plan {
            "" => program,
            plan => program.env("EFA_EMU_PLAN", plan),
        }
    }

    /// Before 1.18 the TCP provider that takes little memory is called `net`.
    fn provider(&self, provider: &'static str) -> &'static str {
        match provider {
            "tcp" if settings::is_old(self.libfabric) => "net",
            other => other,
        }
    }

    /// What is wrong with the records in the dumps, if anything is.
    fn traced(&self, dumps: &Path) -> Result<Option<String>> {
        let output = Command::new(&self.built.ofi)
            .args(["trace", "--json"])
            .arg(dumps)
            .output()
            .context("ofi trace")?;
        let error = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Ok(Some(format!("ofi trace: {}: {error}", output.status)));
        }
        Ok(untraced(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Asks until the verdict is as it has to be, which it stays, or until the patience is over.
    fn verdict(&self, dumps: &Path) -> Result<core::result::Result<String, String>> {
        let end = Instant::now() + PATIENCE;
        let mut right = 0;
        loop {
            std::thread::sleep(Duration::from_millis(250));
            let output = Command::new(&self.built.ofi)
                .args(["dump", "--json"])
                .arg(dumps)
                .output()
                .context("ofi dump")?;
            let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // An error is dumped at once, and what the others remember when they stall or are asked.
            let fault = match fault(&self.case, &said) {
                None if right > 0 => self.traced(dumps)?,
                fault => fault,
            };
            right = if fault.is_none() { right + 1 } else { 0 };
            match fault {
                None if right > 1 => return Ok(Ok(headline(&said))),
                Some(fault) if Instant::now() > end => {
                    let error = String::from_utf8_lossy(&output.stderr);
                    return Ok(Err(format!("{fault}: {said:#}\n{error}")));
                }
                _ => {}
            }
        }
    }
}

/// What is wrong with what `ofi trace --json` printed: all ranks but one have records at least, and there is
/// more than the names of endpoints.
fn untraced(lines: &str) -> Option<String> {
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_default())
        .collect();
    let text = |line: &Value, field: &str| {
        let text = line.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let who: BTreeSet<String> = lines.iter().map(|line| text(line, "who")).collect();
    let ranks: usize = RANKS.parse().unwrap_or(0);
    let posted = lines.iter().filter(|line| line.get("op").is_some()).count();
    if who.len() + 1 < ranks {
        Some(format!("records of {} ranks: {who:?}", who.len()))
    } else if posted < ranks {
        Some(format!("{posted} records of operations"))
    } else {
        None
    }
}

fn headline(said: &Value) -> String {
    let text = said.pointer("/verdicts/0/text").and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// What is wrong with a verdict.
fn fault(case: &Case, said: &Value) -> Option<String> {
    let culprit = format!("rank {CULPRIT}");
    let Some(verdict) = said.pointer("/verdicts/0") else {
        return Some("no verdict".to_owned());
    };
    let text = |pointer: &str| verdict.pointer(pointer).and_then(Value::as_str);
    let missing = text("/because/0/missing").unwrap_or_default();
    let who = verdict.get("who").and_then(Value::as_array);
    let named = who.is_some_and(|who| match case.verdict {
        "circle" => who.len().to_string() == RANKS,
        _ => who.first().and_then(Value::as_str) == Some(&culprit),
    });
    let processes = said.get("processes").and_then(Value::as_array);
    let process = processes.and_then(|all| {
        all.iter()
            .find(|one| one.get("name") == Some(&Value::from(&*culprit)))
    });
    let silent = process
        .and_then(|one| one.get("silent"))
        .and_then(Value::as_bool);
    if text("/kind") != Some(case.verdict) {
        Some(format!("a verdict of kind {:?}", text("/kind")))
    } else if !named {
        Some(format!("it names {who:?}"))
    } else if !case.missing.contains(&missing) {
        Some(format!("{missing} is missing"))
    } else if silent != Some(case.silent) {
        Some(format!("silent: {silent:?}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{CASES, fault, untraced};
    use serde_json::json;

    #[test]
    fn a_verdict_is_judged_by_whom_it_names_and_why() {
        let case = CASES.iter().find(|case| case.kind == "receive").unwrap();
        let said = |who: &str, missing: &str, silent: bool| {
            json!({
                "verdicts": [{"kind": "process", "who": [who], "because": [{"missing": missing}]}],
                "processes": [{"name": "rank 5", "silent": silent}],
            })
        };
        assert_eq!(fault(case, &said("rank 5", "receive", false)), None);
        for bad in [
            said("rank 4", "receive", false),
            said("rank 5", "send", false),
            said("rank 5", "receive", true),
            json!({"verdicts": []}),
        ] {
            assert!(fault(case, &bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn records_are_those_of_nearly_all_ranks() {
        let of = |ranks: usize, op: &str| -> String {
            let line = |rank| format!("{{\"who\": \"n1:{rank}\", \"what\": \"CTRL\"{op}}}\n");
            (0..ranks).map(line).collect()
        };
        let op = ", \"op\": 1";
        assert_eq!(untraced(&of(16, op)), None);
        assert!(untraced(&of(14, op)).is_some());
        assert!(untraced(&of(16, "")).is_some());
        assert!(untraced("").is_some());
    }

    #[test]
    fn there_are_more_than_twelve_ways() {
        let mut ways: Vec<_> = CASES.iter().map(|case| (case.kind, case.plan)).collect();
        ways.sort_unstable();
        ways.dedup();
        assert!(ways.len() > 12, "{ways:?}");
    }
}
