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
    /// As relayed, and within the process neither: seccomp(2) forbids the calls.
    Forbidden,
}

/// Every rule in one case.
pub(crate) fn all(fabric: Fabric, place: Place, copies: Copies) {
    let set: &[_] = match copies {
        Copies::Direct => &[],
        Copies::Relayed => &[("EFA_EMU_CMA", "0")],
        Copies::Forbidden => &[("EFA_TEST_FORBID", "1")],
    };
    let said = run("all", fabric, place, set);
    // Once a process, and only where it is so.
    let is_detour = place == Place::Processes && copies != Copies::Direct;
    for text in said {
        let times = text
            .matches("efa-emu: bytes go through shared memory")
            .count();
        assert_eq!(times, usize::from(is_detour), "{text}");
    }
}

/// One of the rules that need a case of their own, between processes.
pub(crate) fn with(rule: &str, fabric: Fabric, set: &[(&str, &str)]) {
    let _said = run(rule, fabric, Place::Processes, set);
}

/// What each side said on standard error.
fn run(rules: &str, fabric: Fabric, place: Place, set: &[(&str, &str)]) -> Vec<String> {
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
    let (mut failures, mut said) = (Vec::new(), Vec::new());
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
        said.push(text);
    }
    assert!(failures.is_empty(), "{set:?}\n{}", failures.join("\n"));
    said
}

/// The child: plays its side of the rules that the environment names.
pub(crate) fn child() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(wanted) = variable("EFA_TEST_RULES") else {
        return;
    };
    if variable("EFA_TEST_FORBID").is_some() {
        forbid_copies();
    }
    let fabric = match variable("EFA_TEST_FABRIC").as_deref() {
        Some("efa") => Fabric::Rdm,
        _ => Fabric::Direct,
    };
    let rules: Vec<&Rule> = match wanted.as_str() {
        "all" => ALL.iter().collect(),
        name => {
            let every = ALL.iter().chain(EXTRA);
            every.filter(|rule| rule.0 == name).collect()
        }
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

/// Has the system refuse process_vm_readv(2) and process_vm_writev(2), as containers do: for this thread,
/// and for those that it starts.
fn forbid_copies() {
    let code = |code: u32| u16::try_from(code).expect("a code");
    let (load, equal, answer) = (
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
        code(libc::BPF_RET | libc::BPF_K),
    );
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let call = |number: libc::c_long| u32::try_from(number).expect("a number");
    let refused = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).expect("a number");
    let mut filter = [
        // seccomp(2): the number of the call is the first word.
        step(load, 0, 0, 0),
        step(equal, call(libc::SYS_process_vm_readv), 2, 0),
        step(equal, call(libc::SYS_process_vm_writev), 1, 0),
        step(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(answer, refused, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).expect("a length"),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: prctl(2), PR_SET_NO_NEW_PRIVS: numbers only.
    let code = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(code, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: prctl(2), PR_SET_SECCOMP: a filter of that length.
    let code = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(code, 0);
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
