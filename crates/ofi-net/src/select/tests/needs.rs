//! Two queries are enough: what the second list shows of each provider decides.

use super::*;

/// All of one kind in a list that shows all of each, and what else there is.
fn lists(entry: Candidate) -> Vec<Option<Vec<Candidate>>> {
    let other = Candidate {
        domain: "second".to_owned(),
        ..entry.clone()
    };
    vec![None, Some(vec![entry, other])]
}

fn without(caps: Caps, entry: Candidate) -> Candidate {
    Candidate {
        caps: entry.caps - caps,
        ..entry
    }
}

const REMOTE: Caps = Caps::REMOTE_COMM;

#[test]
fn the_exact_hints_come_first_and_all_is_asked_for_on_no_data_only() {
    for tagged in [false, true] {
        let first = look(
            &config(None),
            (V2_5, tagged),
            vec![Some(vec![efa("a-rdm", "efa")])],
        );
        assert_eq!(domains(&first), ["a-rdm"]);
        assert_eq!(first.asked.len(), 1, "{:?}", first.asked);
        assert!(first.asked[0].contains("FI_HMEM"), "{:?}", first.asked);
        let second = look(&config(None), (V2_5, tagged), lists(entry("tcp", "eth0")));
        assert_eq!(domains(&second), ["eth0", "second"]);
        assert!(second.asked[1].starts_with("any capabilities, "));
        let nothing = look(&config(Some("nosuch")), (V2_5, tagged), Vec::new());
        assert_eq!(nothing.chosen.unwrap_err().code(), Code::NoProvider);
        assert_eq!(nothing.asked.len(), 2, "{:?}", nothing.asked);
    }
}

#[test]
fn whatever_a_provider_lacks_two_queries_are_enough() {
    for lacking in [
        Caps::empty(),
        Caps::TAGGED,
        Caps::RMA,
        REMOTE,
        Caps::TAGGED | REMOTE,
        Caps::RMA | REMOTE,
    ] {
        for tagged in [false, true] {
            let device = without(lacking, efa("x", "y"));
            let other = Candidate {
                provider: "other".to_owned(),
                // Nothing is known of it, so that its answer to FI_MR_BASIC would be.
                mr_mode: MrMode::empty(),
                virtual_addresses: false,
                ..device
            };
            let outcome = look(&config(Some("other")), (V2_5, tagged), lists(other));
            assert_eq!(outcome.asked.len(), 2, "{:?}", outcome.asked);
            let needed = if tagged { Caps::TAGGED } else { Caps::RMA };
            let good = !lacking.intersects(needed);
            assert_eq!(outcome.chosen.is_ok(), good, "{lacking} {tagged}");
            if let Err(error) = outcome.chosen {
                assert_eq!(error.code(), Code::AllRejected);
                let why = format!("lacks {needed}");
                assert!(error.what().contains(&why), "{error}");
                let lines = outcome.report.iter().filter(|line| line.contains(&why));
                assert_eq!(lines.count(), 2, "{:?}", outcome.report);
            }
        }
    }
}

#[test]
fn only_who_is_named_may_reach_this_host_only() {
    let shm = || {
        let shm = Candidate {
            addr_format: consts::FI_ADDR_STR,
            device_memory: true,
            ..without(REMOTE, entry("shm", "shm"))
        };
        vec![None, Some(vec![shm])]
    };
    let named = run(&config(Some("shm")), V1_17, shm());
    // Not asked for, and so not there.
    assert!(!named.chosen.unwrap()[0].device_memory);
    let error = run(&config(None), V1_17, shm()).chosen.unwrap_err();
    assert_eq!(error.code(), Code::AllRejected);
    let what = error.what();
    assert!(
        what.contains("1 (shm shm): reaches this host only"),
        "{what}"
    );
    assert!(what.contains("this host shows no EFA on PCI"), "{what}");
    // Of a list of names the one that reaches others is taken, wherever it stands.
    let mut both = shm();
    let list = both[1].as_mut().unwrap();
    list.push(entry("tcp", "eth0"));
    let outcome = run(&config(Some("shm,tcp")), V1_17, both);
    assert_eq!(domains(&outcome), ["eth0"]);
}

#[test]
fn the_loopback_interface_serves_where_there_is_no_other() {
    let all = Config {
        exclude_tcp_if: Vec::new(),
        ..config(None)
    };
    let lo = || without(REMOTE, entry("tcp", "lo"));
    assert_eq!(
        domains(&run(&all, V2_5, vec![None, Some(vec![lo()])])),
        ["lo"]
    );
    let both = vec![lo(), entry("tcp", "eth0")];
    assert_eq!(domains(&run(&all, V2_5, vec![None, Some(both)])), ["eth0"]);
    // It is not the reach that is told of who is excluded.
    let error = run(&config(None), V2_5, vec![None, Some(vec![lo()])]);
    let error = error.chosen.unwrap_err();
    assert!(error.what().contains("OFI_NCCL_EXCLUDE_TCP_IF"), "{error}");
}

#[test]
fn each_protocol_finds_its_fabric_of_efa_in_one_list() {
    let list = || {
        let direct = |domain| without(Caps::TAGGED, efa(domain, "efa-direct"));
        let list = vec![direct("a"), direct("b"), efa("a", "efa"), efa("b", "efa")];
        vec![None, Some(list)]
    };
    for (tagged, fabric) in [(false, "efa-direct"), (true, "efa")] {
        let outcome = look(&config(None), (V2_5, tagged), list());
        let chosen = outcome.chosen.unwrap();
        assert_eq!(chosen.len(), 2);
        assert!(
            chosen.iter().all(|entry| entry.fabric == fabric),
            "{chosen:?}"
        );
    }
    // Of two that match tags the one that keeps their order.
    let unordered = Candidate {
        order: 0,
        ..efa("a", "efa-direct")
    };
    let list = vec![None, Some(vec![unordered, efa("b", "efa")])];
    let outcome = look(&config(None), (V2_5, true), list);
    assert_eq!(domains(&outcome), ["b"]);
    assert!(outcome.report[2].contains("no FI_ORDER_SAS"));
}

#[test]
fn efa_that_lacks_something_is_not_silently_another() {
    let list = vec![
        without(Caps::RMA, efa("a-rdm", "efa")),
        entry("tcp", "eth0"),
    ];
    let outcome = run(&config(None), V2_5, vec![None, Some(list)]);
    let error = outcome.chosen.unwrap_err();
    assert_eq!(
        error.what(),
        "none of 2 fits: 1 (efa a-rdm): lacks FI_RMA; 1 (tcp eth0): EFA is preferred and FI_PROVIDER \
         names no other"
    );
}

#[test]
fn a_protocol_that_is_looked_for_second_asks_for_one_list_at_most() {
    let config = config(Some("other"));
    let offsets = || {
        vec![Candidate {
            provider: "other".to_owned(),
            mr_mode: MrMode::empty(),
            virtual_addresses: false,
            ..efa("x", "y")
        }]
    };
    // Whether the exact sets bring something, and so whether SENDRECV can be had.
    for (answers, good) in [
        (vec![Some(offsets()), None], false),
        (vec![Some(offsets()), Some(offsets())], true),
        (vec![None, Some(offsets()), Some(offsets())], true),
    ] {
        let mut script = Script {
            answers,
            ..Script::default()
        };
        let found = [false, true].map(|tagged| {
            let rules = Rules {
                config: &config,
                version: V2_5,
                tagged,
                open: true,
                for_efa: None,
            };
            choose(&rules, &mut script, &mut Vec::new()).is_ok()
        });
        assert_eq!(found, [true, good]);
        let mut asked: Vec<String> = script
            .asked
            .iter()
            .map(|(ask, ..)| ask.to_string())
            .collect();
        // A list that is known is not asked for again, as in `lists.rs`.
        asked.dedup();
        assert_eq!(asked.len(), 2, "{asked:?}");
    }
}
