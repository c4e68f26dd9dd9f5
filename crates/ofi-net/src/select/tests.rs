//! The rules against lists as they were seen on real libfabrics (providers.md 1, 6).

use efa_fabric::{Caps, Mode, MrMode, PciAddress, Version, consts};

use super::ask::Ask;
use super::candidate::Candidate;
use super::{Found, QueryFailed, Rules, Source, choose};
use crate::config::Config;
use crate::error::{Code, NetError};
use crate::params::Flavour;

mod addresses;
mod efa_hosts;
mod needs;

/// What tcp has.
const CAPS: Caps = Caps::MSG
    .union(Caps::RMA)
    .union(Caps::TAGGED)
    .union(Caps::LOCAL_COMM)
    .union(Caps::REMOTE_COMM);

fn entry(provider: &str, domain: &str) -> Candidate {
    Candidate {
        provider: provider.to_owned(),
        fabric: format!("net of {domain}"),
        domain: domain.to_owned(),
        name: domain.to_owned(),
        caps: CAPS,
        mode: Mode::empty(),
        mr_mode: MrMode::BASIC,
        order: consts::FI_ORDER_SAS,
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
#[derive(Default)]
struct Script {
    answers: Vec<Option<Vec<Candidate>>>,
    /// What was asked, and whether something came, and an EFA.
    asked: Vec<(Ask, bool, bool)>,
}

impl Source for Script {
    type Entry = ();

    fn had_nothing(&self, ask: &Ask, of_efa: bool) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|(asked, came, has_efa)| asked == ask && !(if of_efa { *has_efa } else { *came }))
    }

    fn query(&mut self, ask: &Ask) -> Result<Vec<Found<()>>, QueryFailed> {
        let answer = if self.answers.is_empty() {
            None
        } else {
            self.answers.remove(0)
        };
        let mut all = answer.iter().flatten();
        let has_efa = all.any(|entry| entry.provider == "efa");
        self.asked.push((*ask, answer.is_some(), has_efa));
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

    fn with_caps(&self, mut found: Found<()>, caps: Caps) -> Found<()> {
        found.candidate.caps &= caps;
        found.candidate.device_memory &= caps.contains(Caps::HMEM);
        found
    }
}

struct Outcome {
    chosen: Result<Vec<Candidate>, NetError>,
    asked: Vec<String>,
    report: Vec<String>,
}

fn run(config: &Config, version: Version, answers: Vec<Option<Vec<Candidate>>>) -> Outcome {
    look(config, (version, false), answers)
}

/// For SENDRECV, or for RDMA.
fn look(
    config: &Config,
    (version, tagged): (Version, bool),
    answers: Vec<Option<Vec<Candidate>>>,
) -> Outcome {
    let mut script = Script {
        answers,
        ..Script::default()
    };
    let mut report = Vec::new();
    let for_efa = super::host::for_efa(config);
    let rules = Rules {
        config,
        version,
        tagged,
        open: false,
        for_efa: for_efa.as_deref().filter(|_| config.fi_provider.is_none()),
    };
    let chosen = choose(&rules, &mut script, &mut report);
    let chosen = chosen.map(|list| list.into_iter().map(|found| found.candidate).collect());
    let asked = script.asked.iter();
    Outcome {
        chosen,
        asked: asked.map(|(ask, ..)| ask.to_string()).collect(),
        report,
    }
}

fn config(provider: Option<&str>) -> Config {
    Config {
        fi_provider: provider.map(str::to_owned),
        // A host of which nothing can be seen.
        fs_root: "/nonexistent".into(),
        ..Config::new(Flavour::Neuron)
    }
}

const V1_17: Version = Version::new(1, 17);
const V2_5: Version = Version::new(2, 5);

fn domains(outcome: &Outcome) -> Vec<&str> {
    match &outcome.chosen {
        Ok(list) => list.iter().map(|c| c.domain.as_str()).collect(),
        Err(error) => panic!("{error}"),
    }
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
         OFI_NCCL_EXCLUDE_TCP_IF; 1 (tcp eth0): 0 bytes of CQ data, 4 are needed; this host shows no EFA on \
         PCI"
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
            "demands FI_MR_ENDPOINT of registrations",
        ),
        (
            Candidate {
                mode: Mode::MSG_PREFIX,
                ..entry("c", "x")
            },
            "demands FI_MSG_PREFIX",
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

        fn had_nothing(&self, _: &Ask, _: bool) -> bool {
            false
        }

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

        fn with_caps(&self, found: Found<()>, _: Caps) -> Found<()> {
            found
        }
    }
    let config = config(None);
    let rules = Rules {
        config: &config,
        version: V2_5,
        tagged: false,
        open: false,
        for_efa: None,
    };
    let chosen = choose(&rules, &mut Broken, &mut Vec::new()).map(|list| list.len());
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
    assert!(error.what().contains("; and 94 more reasons; "), "{error}");
    assert!(error.what().len() < 1024, "{}", error.what().len());
}
