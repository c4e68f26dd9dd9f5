//! Whichever ranks' dumps there are, what is said of them holds together.

use super::*;

/// A dump that was written before the others were asked, for that reason.
fn silent(dump: &Dump, reason: Reason) -> Dump {
    Dump {
        reason,
        answers_ns: None,
        at_unix_ms: 4000,
        ..dump.clone()
    }
}

/// 0 waits for 1, which waits for 2, which waits for 3.
fn chain() -> Vec<Dump> {
    vec![
        rank(0, vec![stuck(Kind::Recv, (0, 1), 9)]),
        rank(
            1,
            vec![comm(Kind::Send, (1, 0), 8), stuck(Kind::Send, (1, 2), 0)],
        ),
        rank(
            2,
            vec![comm(Kind::Recv, (2, 1), 1023), stuck(Kind::Recv, (2, 3), 4)],
        ),
        rank(3, vec![comm(Kind::Send, (3, 2), 3)]),
    ]
}

fn circle() -> Vec<Dump> {
    let one = |own: u32| {
        let (next, before) = ((own + 1) % 4, (own + 3) % 4);
        let send = stuck(Kind::Send, (own, next), 5);
        rank(own, vec![send, comm(Kind::Recv, (own, before), 4)])
    };
    (0..4).map(one).collect()
}

/// The communicator from 0 to 1 failed, in these words.
fn failing(words: &str) -> Vec<Dump> {
    let failed = Comm {
        failure: Some(words.to_owned()),
        ..comm(Kind::Send, (0, 1), 3)
    };
    vec![
        rank(0, vec![failed, stuck(Kind::Recv, (0, 3), 9)]),
        rank(
            1,
            vec![comm(Kind::Recv, (1, 0), 3), stuck(Kind::Send, (1, 2), 7)],
        ),
        rank(2, vec![comm(Kind::Recv, (2, 1), 6)]),
        rank(3, vec![comm(Kind::Send, (3, 0), 8)]),
    ]
}

fn gone() -> Vec<Dump> {
    failing("OFI-E0601 an operation failed: errno 103, provider error 13")
}

fn stalled() -> Vec<Dump> {
    failing("OFI-E0602 no progress")
}

fn under_way() -> Vec<Dump> {
    let sends = Comm {
        stage: Some(Stage::Completions),
        ..stuck(Kind::Send, (1, 0), 9)
    };
    vec![
        rank(0, vec![stuck(Kind::Recv, (0, 1), 9)]),
        rank(1, vec![sends]),
        rank(2, vec![stuck(Kind::Recv, (2, 1), 3)]),
        rank(3, vec![]),
    ]
}

/// Two listen and two connect, one of them to one that does not listen yet.
fn connects() -> Vec<Dump> {
    let connects = |ends| Comm {
        stage: Some(Stage::AwaitConnResp),
        state: "connecting".to_owned(),
        ..comm(Kind::Send, ends, 0)
    };
    let listens = |own| Comm {
        peer: None,
        stage: Some(Stage::AwaitConn),
        ..comm(Kind::Listener, (own, 0), 0)
    };
    vec![
        rank(0, vec![connects((0, 1)), listens(0)]),
        rank(1, vec![listens(1)]),
        rank(2, vec![connects((2, 3))]),
        rank(3, vec![]),
    ]
}

/// What each rank of four does, in ways that hang.
fn jobs() -> Vec<(&'static str, Vec<Dump>)> {
    let error = || failing("OFI-E0601 an operation failed: errno 22, provider error 6");
    let of = |mut dumps: Vec<Dump>, who: usize, reason| {
        dumps[who] = silent(&dumps[who], reason);
        dumps
    };
    let all = |dumps: Vec<Dump>, reason| dumps.iter().map(|dump| silent(dump, reason)).collect();
    vec![
        ("chain", chain()),
        ("chain with a start", of(chain(), 3, Reason::Start)),
        ("chain with an error", of(chain(), 1, Reason::Error)),
        ("stall of all", all(chain(), Reason::Stall)),
        ("start of all", all(chain(), Reason::Start)),
        ("circle", circle()),
        ("circle, stall of all", all(circle(), Reason::Stall)),
        ("error", error()),
        ("error of all", all(error(), Reason::Error)),
        ("silent since the error", of(error(), 0, Reason::Error)),
        ("stalled", stalled()),
        ("stalled, all", all(stalled(), Reason::Error)),
        ("stalled, silent", of(stalled(), 0, Reason::Error)),
        ("gone", gone()),
        ("gone, silent", of(gone(), 1, Reason::Start)),
        ("under way", under_way()),
        ("connects", connects()),
    ]
}

/// What was said of some dumps, as lines and as JSON.
struct Said {
    page: String,
    json: Value,
    dumps: Vec<Dump>,
}

impl Said {
    fn of(dumps: Vec<Dump>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &dumps);
        let page = ofi(&[], dir.path()).stdout;
        let json = serde_json::from_slice(&ofi(&["--json"], dir.path()).stdout).unwrap();
        Self {
            page: String::from_utf8(page).unwrap(),
            json,
            dumps,
        }
    }

    fn list(&self, name: &str) -> &[Value] {
        self.json[name].as_array().unwrap()
    }

    /// Whether who has that address wrote one of the dumps.
    fn is_known(&self, address: &str) -> bool {
        let domains = self.dumps.iter().flat_map(|dump| &dump.domains);
        let mut ends = domains.flat_map(|domain| &domain.endpoints);
        ends.any(|end| end.address == address)
    }

    fn waits(&self, who: &str) -> bool {
        self.list("waits").iter().any(|wait| wait["who"] == who)
    }

    /// What contradicts itself.
    fn faults(&self) -> Vec<String> {
        let (page, waits) = (&self.page, self.list("waits"));
        let mut faults = Vec::new();
        let mut unless = |is_good: bool, what: String| faults.extend((!is_good).then_some(what));
        let who: std::collections::BTreeSet<&str> =
            waits.iter().filter_map(|w| w["who"].as_str()).collect();
        unless(
            page.contains(&format!(" processes: {} wait, ", who.len())),
            format!("{} wait", who.len()),
        );
        for words in ["nobody waits for anybody", "nobody has said that it waits"] {
            unless(!page.contains(words) || waits.is_empty(), words.to_owned());
        }
        let absent = waits
            .iter()
            .any(|wait| wait["on"].as_str().is_some_and(|on| on.contains(':')));
        unless(
            !(absent && page.contains("has not called connect;")),
            "who connects is not known".to_owned(),
        );
        let nobody = page.contains("nobody connects to listeners");
        unless(
            !nobody || waits.iter().any(|wait| wait["missing"] == "connect"),
            "no listener waits".to_owned(),
        );
        faults.extend(self.faults_of_verdicts());
        faults.extend(self.faults_of_processes());
        faults
    }

    fn faults_of_verdicts(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut unless = |is_good: bool, what: String| faults.extend((!is_good).then_some(what));
        for verdict in self.list("verdicts") {
            let culprit = verdict["who"][0].as_str().unwrap_or_default();
            let text = verdict["text"].as_str().unwrap();
            let waiting = verdict["waiting"].as_array().unwrap();
            match verdict["kind"].as_str().unwrap() {
                "address" => unless(!self.is_known(culprit), format!("{culprit} wrote a dump")),
                "process" => unless(!waiting.contains(&culprit.into()), text.to_owned()),
                _ => {}
            }
            unless(
                !waiting
                    .iter()
                    .any(|who| text.contains(&format!("perhaps {}:", who.as_str().unwrap()))),
                text.to_owned(),
            );
        }
        faults
    }

    fn faults_of_processes(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut unless = |is_good: bool, what: String| faults.extend((!is_good).then_some(what));
        // Lines about a process follow the one that begins with its name.
        let mut about = "";
        for line in self.page.lines() {
            let head = line
                .trim_start_matches("also: ")
                .trim_start_matches("the network of ");
            let found = self
                .list("processes")
                .iter()
                .filter_map(|process| process["name"].as_str());
            about = found
                .into_iter()
                .find(|name| head.trim_start().starts_with(name))
                .unwrap_or(about);
            let process = self
                .list("processes")
                .iter()
                .find(|process| process["name"] == about);
            let reason = process.map_or(&Value::Null, |process| &process["reason"]);
            unless(
                !line.contains("waits for no peer there") || !self.waits(about),
                format!("{about} waits"),
            );
            unless(
                !line.contains("it has answered") || reason == "trigger",
                format!("{about}: {reason}"),
            );
        }
        faults
    }
}

/// Of each job every set of its dumps; with and without a launcher that says how many ranks there are.
#[test]
fn every_subset_of_dumps_is_told_without_contradiction() {
    let mut faults = Vec::new();
    for (name, dumps) in jobs() {
        for (world, set) in [None, Some(4)]
            .iter()
            .flat_map(|world| (1..16_u32).map(move |set| (world, set)))
        {
            let ranks: Vec<usize> = (0..4).filter(|at| set & 1 << at != 0).collect();
            let some = ranks.iter().map(|&at| {
                let mut dump = dumps[at].clone();
                dump.process.world = *world;
                dump
            });
            let said = Said::of(some.collect());
            let of_it = said.faults();
            if !of_it.is_empty() {
                faults.push(format!(
                    "{name}, {ranks:?} of {world:?}: {of_it:?}\n{}",
                    said.page
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} sets:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// An error that says that the peer does not answer points to the peer, whether its dump is there or not.
#[test]
fn who_does_not_answer_is_suspected_with_its_dump_and_without() {
    let gone = gone();
    let first = |dumps: &[Dump]| {
        let (kind, who, ..) = verdict(dumps);
        (kind, who)
    };
    assert_eq!(
        first(&gone),
        ("network".to_owned(), vec!["rank 1".to_owned()])
    );
    assert_eq!(first(&gone[..1]), ("address".to_owned(), vec![address(1)]));
}

/// A dump that is damaged, of the one that waits: it does not wait for itself.
#[test]
fn nobody_waits_for_itself() {
    let stalled = stalled();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &stalled[..1]);
    std::fs::write(dir.path().join("ofi-dump-n0-100-7.json"), "{").unwrap();
    let page = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
    assert!(page.contains("who has the address"), "{page}");
    assert!(!page.contains("perhaps rank 0"), "{page}");
}

/// What a communicator waited for when it failed of that is what is told, with the message that it was.
#[test]
fn a_failed_wait_is_told_with_its_stage_and_number() {
    let mut dumps =
        failing("OFI-E0602 no progress: communicator 1, message 578, request 2.1 (send)");
    let failed = &mut dumps[0].domains[0].comms[0];
    failed.stage = Some(Stage::Posting);
    failed.oldest = stuck(Kind::Send, (0, 1), 580).oldest;
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &dumps);
    let page = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
    assert!(page.contains("the provider takes no operations"), "{page}");
    assert!(page.contains("578") && !page.contains("580"), "{page}");
}
