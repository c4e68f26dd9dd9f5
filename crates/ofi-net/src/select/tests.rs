//! The rules against lists as they were seen on real libfabrics (providers.md 1, 6).

use efa_fabric::{Caps, Mode, MrMode, PciAddress, Version, consts};

use super::ask::{Ask, Wanted};
use super::candidate::Candidate;
use super::{Found, QueryFailed, Rules, Source, choose};
use crate::config::Config;
use crate::error::{Code, NetError};
use crate::params::Flavour;

mod addresses;

fn entry(provider: &str, domain: &str) -> Candidate {
    Candidate {
        provider: provider.to_owned(),
        fabric: format!("net of {domain}"),
        domain: domain.to_owned(),
        name: domain.to_owned(),
        caps: Caps::MSG | Caps::RMA,
        mode: Mode::empty(),
        mr_mode: MrMode::BASIC,
        addr_format: consts::FI_SOCKADDR_IN,
        has_address: true,
        protocol: (1, 1),
        cq_data_bytes: 8,
        key_bytes: 8,
        message_bytes_max: usize::MAX,
        virtual_addresses: true,
        provider_keys: true,
        device_memory: false,
        pci: None,
    }
}

fn efa(domain: &str, fabric: &str) -> Candidate {
    Candidate {
        fabric: fabric.to_owned(),
        mr_mode: MrMode::VIRT_ADDR | MrMode::PROV_KEY | MrMode::LOCAL,
        addr_format: 12,
        protocol: (20, 4),
        cq_data_bytes: 4,
        key_bytes: 4,
        pci: Some(PciAddress {
            domain: 0,
            bus: 0xa0,
            device: 6,
            function: 0,
        }),
        ..entry("efa", domain)
    }
}

/// Answers each query in turn: `None` is `FI_ENODATA`.
struct Script(Vec<Option<Vec<Candidate>>>, Vec<String>);

impl Source for Script {
    type Entry = ();

    fn query(&mut self, ask: &Ask) -> Result<Vec<Found<()>>, QueryFailed> {
        self.1.push(ask.to_string());
        let answer = if self.0.is_empty() {
            None
        } else {
            self.0.remove(0)
        };
        let list = answer.ok_or_else(|| QueryFailed {
            no_data: true,
            errno: 61,
            text: "none".into(),
        })?;
        Ok(list
            .into_iter()
            .map(|candidate| Found {
                candidate,
                entry: (),
            })
            .collect())
    }

    fn with_modes(&self, mut found: Found<()>, modes: MrMode) -> Found<()> {
        let given = |mode: MrMode| modes.intersects(mode | MrMode::BASIC);
        found.candidate.mr_mode = modes;
        found.candidate.virtual_addresses = given(MrMode::VIRT_ADDR);
        found.candidate.provider_keys = given(MrMode::PROV_KEY);
        found
    }
}

struct Outcome {
    chosen: Result<Vec<Candidate>, NetError>,
    asked: Vec<String>,
    report: Vec<String>,
}

fn run(config: &Config, version: Version, answers: Vec<Option<Vec<Candidate>>>) -> Outcome {
    let mut script = Script(answers, Vec::new());
    let mut report = Vec::new();
    let rules = Rules {
        config,
        version,
        tagged: false,
    };
    let asks = Ask::ladder(config, DECIDED);
    let chosen = choose(&rules, asks, &mut script, &mut report);
    let chosen = chosen.map(|list| list.into_iter().map(|found| found.candidate).collect());
    Outcome {
        chosen,
        asked: script.1,
        report,
    }
}

fn config(provider: Option<&str>) -> Config {
    Config {
        fi_provider: provider.map(str::to_owned),
        ..Config::new(Flavour::Neuron)
    }
}

/// RDMA and nothing else.
const DECIDED: Wanted = Wanted {
    tagged: false,
    open: false,
    no_exact: false,
};

const V1_17: Version = Version::new(1, 17);
const V2_5: Version = Version::new(2, 5);

fn domains(outcome: &Outcome) -> Vec<&str> {
    match &outcome.chosen {
        Ok(list) => list.iter().map(|c| c.domain.as_str()).collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_exact_hints_come_first_and_are_relaxed_on_no_data_only() {
    let shm = Candidate {
        addr_format: consts::FI_ADDR_STR,
        ..entry("shm", "shm")
    };
    // A provider that nothing is known of.
    let outcome = run(
        &config(Some("other")),
        V1_17,
        vec![None, None, Some(vec![shm.clone()])],
    );
    assert_eq!(domains(&outcome), ["shm"]);
    let [exact, host, narrow] = &outcome.asked[..] else {
        panic!("{:?}", outcome.asked)
    };
    assert!(
        exact.contains("HMEM") && exact.contains("LOCAL_COMM"),
        "{exact}"
    );
    assert!(
        !host.contains("HMEM") && host.contains("REMOTE_COMM"),
        "{host}"
    );
    assert!(!narrow.contains("COMM"), "{narrow}");
    // shm is known to reach this host only.
    let outcome = run(
        &config(Some("shm")),
        V1_17,
        vec![None, Some(vec![shm.clone()])],
    );
    assert_eq!(domains(&outcome), ["shm"]);
    assert!(!outcome.asked[1].contains("COMM") && outcome.asked[1].contains("VIRT_ADDR"));
    // Nobody named a provider: none that reaches only half of the peers is taken.
    let outcome = run(&config(None), V1_17, vec![None, None, Some(vec![shm])]);
    assert_eq!(outcome.asked.len(), 2);
    assert_eq!(outcome.chosen.unwrap_err().code(), Code::NoProvider);
}

#[test]
fn efa_is_preferred_unless_the_user_names_another() {
    let list = || vec![entry("tcp", "eth0"), efa("rdmap0s6-rdm", "efa")];
    let outcome = run(&config(None), V2_5, vec![Some(list())]);
    assert_eq!(domains(&outcome), ["rdmap0s6-rdm"]);
    assert!(
        outcome
            .report
            .iter()
            .any(|line| line.contains("tcp eth0") && line.contains("EFA"))
    );
    let outcome = run(&config(Some("tcp")), V2_5, vec![Some(list())]);
    assert_eq!(domains(&outcome), ["eth0"]);
}

#[test]
fn the_fabric_listed_first_decides_between_efa_direct_and_efa() {
    let direct = |domain| Candidate {
        mode: Mode::CONTEXT2,
        ..efa(domain, "efa-direct")
    };
    let list = vec![
        direct("a-rdm"),
        direct("b-rdm"),
        efa("a-rdm", "efa"),
        efa("b-rdm", "efa"),
    ];
    let outcome = run(&config(None), V2_5, vec![Some(list)]);
    let chosen = outcome.chosen.unwrap();
    assert!(
        chosen.len() == 2 && chosen.iter().all(|c| c.fabric == "efa-direct"),
        "{chosen:?}"
    );
}

#[test]
fn old_efa_is_refused_and_the_refusal_can_be_overridden() {
    let list = || vec![Some(vec![efa("a-rdm", "efa")])];
    let outcome = run(&config(None), V1_17, list());
    let error = outcome.chosen.unwrap_err();
    assert_eq!(
        (error.code(), error.errno()),
        (Code::EfaTooOld, -libc::ENOTSUP)
    );
    assert!(
        error.what().contains("1.17") && error.what().contains("1.22"),
        "{error}"
    );
    run(&config(None), Version::new(1, 22), list())
        .chosen
        .unwrap();
    let allowed = Config {
        efa_version_check: false,
        ..config(None)
    };
    assert_eq!(domains(&run(&allowed, V1_17, list())), ["a-rdm"]);
}

#[test]
fn interfaces_are_filtered_by_name_and_family_and_taken_once() {
    let v6 = |domain| Candidate {
        addr_format: consts::FI_SOCKADDR_IN6,
        ..entry("tcp", domain)
    };
    let list = || {
        let mut list = vec![
            entry("tcp", "lo"),
            entry("tcp", "eth0"),
            v6("eth0"),
            v6("eth0"),
        ];
        list.extend([
            entry("tcp", "eth1"),
            entry("tcp", "eth0"),
            entry("tcp", "docker0"),
        ]);
        vec![None, Some(list)]
    };
    let outcome = run(&config(None), V2_5, list());
    assert_eq!(
        domains(&outcome),
        ["eth0", "eth1"],
        "two subnets are two rails"
    );
    let excluded = outcome
        .report
        .iter()
        .filter(|line| line.contains("EXCLUDE_TCP_IF"));
    assert_eq!(excluded.count(), 2, "{:?}", outcome.report);
    assert_eq!(
        outcome
            .report
            .iter()
            .filter(|line| line.contains("not IPv4"))
            .count(),
        1
    );

    let nothing_excluded = Config {
        exclude_tcp_if: Vec::new(),
        ..config(None)
    };
    assert_eq!(
        domains(&run(&nothing_excluded, V2_5, list())),
        ["lo", "eth0", "eth1", "docker0"]
    );
}

#[test]
fn an_error_says_each_reason_once_with_how_many_and_some_of_whom() {
    let mut list: Vec<Candidate> = ["tcp", "udp;ofi_rxd", "net", "net;ofi_rxm"]
        .iter()
        .map(|provider| entry(provider, "lo"))
        .collect();
    list.push(entry("net", "lo"));
    list.push(Candidate {
        cq_data_bytes: 0,
        ..entry("tcp", "eth0")
    });
    let outcome = run(&config(None), V1_17, vec![Some(list)]);
    let error = outcome.chosen.unwrap_err();
    assert_eq!(error.code(), Code::AllRejected);
    assert_eq!(
        error.what(),
        "none of 6 fits: 5 (tcp lo, udp;ofi_rxd lo, net lo, ..): excluded by \
         OFI_NCCL_EXCLUDE_TCP_IF; 1 (tcp eth0): 0 bytes of CQ data, 4 are needed"
    );
    // Who reads INFO has a line an entry as well; the repeated entry is not worth two.
    assert_eq!(outcome.report.len(), 1 + 5, "{:?}", outcome.report);
}

#[test]
fn an_ip_interface_without_an_address_is_called_that() {
    // What the net provider lists where no interface is up: no family either.
    let bare = |addr_format| Candidate {
        addr_format,
        has_address: false,
        ..entry("net", "net")
    };
    let ipv6_too = Config {
        use_ipv6_tcp: true,
        ..config(None)
    };
    for config in [config(None), ipv6_too] {
        for format in [consts::FI_SOCKADDR, consts::FI_SOCKADDR_IN] {
            let outcome = run(&config, V1_17, vec![Some(vec![bare(format)])]);
            let error = outcome.chosen.unwrap_err();
            assert_eq!(error.code(), Code::AllRejected);
            let line = error.to_string();
            assert!(
                line.contains("no IP address (is an interface up?)"),
                "{line}"
            );
            assert!(!line.contains("IPv4"), "{line}");
        }
    }
    // Others need not say where they will be: efa and shm know it when the endpoint is open.
    let device = Candidate {
        has_address: false,
        ..efa("rdmap0s6-rdm", "efa")
    };
    assert_eq!(
        domains(&run(&config(None), V2_5, vec![Some(vec![device])])),
        ["rdmap0s6-rdm"]
    );
}

#[test]
fn a_device_named_like_an_excluded_interface_is_kept() {
    let list = vec![Candidate {
        domain: "lo".into(),
        ..efa("lo", "efa")
    }];
    assert_eq!(domains(&run(&config(None), V2_5, vec![Some(list)])), ["lo"]);
}

#[test]
fn each_thing_that_is_lacking_has_its_reason() {
    let bad = [
        (
            Candidate {
                cq_data_bytes: 0,
                ..entry("a", "x")
            },
            "0 bytes of CQ data",
        ),
        (
            Candidate {
                mr_mode: MrMode::ENDPOINT,
                ..entry("b", "x")
            },
            "ENDPOINT",
        ),
        (
            Candidate {
                mode: Mode::MSG_PREFIX,
                ..entry("c", "x")
            },
            "MSG_PREFIX",
        ),
        (
            Candidate {
                provider_keys: false,
                key_bytes: 1,
                ..entry("d", "x")
            },
            "keys of 1 bytes",
        ),
        (
            Candidate {
                message_bytes_max: 100,
                ..entry("e", "x")
            },
            "messages of 100 bytes",
        ),
    ];
    let list = bad.iter().map(|(candidate, _)| candidate.clone()).collect();
    let outcome = run(&config(None), V2_5, vec![Some(list)]);
    assert_eq!(outcome.chosen.unwrap_err().code(), Code::AllRejected);
    for (line, (_, reason)) in outcome.report[1..].iter().zip(&bad) {
        assert!(line.contains(reason), "{line}");
    }
    assert_eq!(outcome.report.len(), 1 + bad.len());
}

#[test]
fn an_entry_unlike_the_first_is_named_with_the_difference() {
    let other = Candidate {
        protocol: (2, 1),
        ..entry("tcp", "eth1")
    };
    let outcome = run(
        &config(None),
        V2_5,
        vec![Some(vec![entry("tcp", "eth0"), other])],
    );
    assert_eq!(domains(&outcome), ["eth0"]);
    assert!(
        outcome.report[1].contains("another protocol than tcp eth0"),
        "{:?}",
        outcome.report
    );
}

#[test]
fn a_failed_query_that_is_not_no_data_ends_the_search() {
    struct Broken;
    impl Source for Broken {
        type Entry = ();

        fn query(&mut self, _: &Ask) -> Result<Vec<Found<()>>, QueryFailed> {
            Err(QueryFailed {
                no_data: false,
                errno: 38,
                text: "fi_getinfo failed".into(),
            })
        }

        fn with_modes(&self, found: Found<()>, _: MrMode) -> Found<()> {
            found
        }
    }
    let config = config(None);
    let rules = Rules {
        config: &config,
        version: V2_5,
        tagged: false,
    };
    let asks = Ask::ladder(&config, DECIDED);
    let chosen = choose(&rules, asks, &mut Broken, &mut Vec::new()).map(|list| list.len());
    let error = chosen.unwrap_err();
    assert_eq!((error.code(), error.errno()), (Code::Fabric, -38));
}

#[test]
fn an_error_stays_a_line_however_many_reasons_and_names_there_are() {
    let long = "x".repeat(10_000);
    let list = (0..100).map(|n| Candidate {
        message_bytes_max: n,
        ..entry("verbs", &format!("{long}{n}"))
    });
    let outcome = run(&config(None), V2_5, vec![Some(list.collect())]);
    let error = outcome.chosen.unwrap_err();
    assert!(error.what().ends_with("; and 94 more reasons"), "{error}");
    assert!(error.what().len() < 1024, "{}", error.what().len());
}
