//! What failed where, and the ranked causes: those of the error's own code, then rows of `data/causes.csv`.

use core::fmt;

use ofi_net::Code;

use crate::doctor::rows::rows;
use crate::explain::nearer;

const TABLE: &str = include_str!("data/causes.csv");

/// How far two hosts came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The control connection: nobody came to the listener.
    Nobody,
    /// Nobody listens there.
    Refused,
    /// No answer from there.
    Unreached,
    /// The name has no address.
    Name,
    /// Whoever is there is no `ofi pair`, or says nothing.
    Stranger,
    /// What both are.
    Agree,
    /// The transport of this host.
    Start,
    /// Communicators over libfabric.
    Connect,
    /// Messages.
    Data,
    /// Messages came, with other bytes.
    Bytes,
    /// The control connection ended.
    Peer,
}

impl Stage {
    #[cfg(test)]
    const ALL: [Self; 11] = [
        Self::Nobody,
        Self::Refused,
        Self::Unreached,
        Self::Name,
        Self::Stranger,
        Self::Agree,
        Self::Start,
        Self::Connect,
        Self::Data,
        Self::Bytes,
        Self::Peer,
    ];

    /// The name of its rows.
    const fn row(self) -> &'static str {
        match self {
            Self::Nobody => "meet-nobody",
            Self::Refused => "meet-refused",
            Self::Unreached => "meet-unreached",
            Self::Name => "meet-name",
            Self::Stranger => "meet-stranger",
            Self::Agree => "agree",
            Self::Start => "start",
            Self::Connect => "connect",
            Self::Data => "data",
            Self::Bytes => "bytes",
            Self::Peer => "peer",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // How they did not meet is in the text that follows.
        f.write_str(self.row().split('-').next().unwrap_or_default())
    }
}

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) stage: Stage,
    pub(super) what: String,
}

impl Failure {
    pub(super) fn new(stage: Stage, what: impl fmt::Display) -> Self {
        let what = what.to_string();
        Self { stage, what }
    }
}

/// What is known when it fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Of libfabric; empty before there is one.
    pub(super) provider: String,
    /// Whether both ends are on one host; `None` before they have met.
    pub(super) is_same_host: Option<bool>,
    /// Versions that differ; `None` before they have met.
    pub(super) differ: Option<String>,
    /// What is known of the versions of the two together, with its source.
    pub(super) bad_pair: Option<String>,
}

/// What the code of an error says more nearly than how far the two came: its likely causes, and what to do. That time
/// ran out says nothing more.
fn of_code(failure: &Failure) -> Vec<String> {
    let untold = [Code::ConnectTimeout, Code::Stalled];
    let Some(code) = Code::find(&failure.what).filter(|code| !untold.contains(code)) else {
        return Vec::new();
    };
    let info = code.info();
    let at = match failure.stage {
        Stage::Peer => "on the other side: ",
        _ => "",
    };
    let near = nearer(&failure.what);
    let near = near.filter(|(_, likely)| !likely.is_empty());
    let near = near.map(|(what, likely)| format!("{what}: {likely}"));
    let likely = info.likely.iter().enumerate();
    // What to do stands in the table once for all of them.
    let likely = likely.map(|(nth, likely)| match nth {
        0 => format!("{likely}; do: {}", info.fix),
        _ => (*likely).to_owned(),
    });
    let all = near.into_iter().chain(likely);
    all.map(|text| format!("{at}{text} [{code}]")).collect()
}

/// Causes of a failure, the likeliest first.
pub(super) fn ranked(failure: &Failure, place: &Place) -> Vec<String> {
    let kind = match place.provider.split([';', '-']).next().unwrap_or_default() {
        "efa" => "efa",
        "tcp" | "net" | "sockets" | "udp" => "tcp",
        "shm" | "sm2" => "shm",
        _ => "any",
    };
    let fits_place = |at: &str| match (at, place.is_same_host) {
        ("same", known) => known == Some(true),
        ("other", known) => known != Some(true),
        ("differ", _) => place.differ.as_deref() != Some(""),
        _ => true,
    };
    let of = rows::<5>(TABLE).filter(|[stage, provider, at, ..]| {
        let is_provider = *provider == "any" || *provider == kind;
        *stage == failure.stage.row() && is_provider && fits_place(at)
    });
    let of = of.map(|[_, _, at, text, source]| match (at, &place.differ) {
        ("differ", Some(differ)) => format!("{text}: {differ} [{source}]"),
        _ => format!("{text} [{source}]"),
    });
    // Who cannot start, or whom nobody meets, has no pair.
    let is_pair = !matches!(
        failure.stage.row().split('-').next(),
        Some("meet" | "start")
    );
    let bad_pair = place.bad_pair.clone().filter(|_| is_pair);
    let causes = of_code(failure).into_iter().chain(bad_pair);
    causes.chain(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{Code, Failure, Place, Stage, TABLE, ranked};
    use crate::doctor::rows::{lines, rows};

    #[test]
    fn every_line_is_a_row_of_a_stage() {
        let stages = Stage::ALL.map(Stage::row);
        let rows: Vec<[&str; 5]> = rows(TABLE).collect();
        assert_eq!(lines(TABLE).count(), rows.len());
        for [stage, provider, place, text, source] in rows {
            assert!(
                stages.contains(&stage) && ["efa", "tcp", "shm", "any"].contains(&provider),
                "{text}"
            );
            assert!(
                ["same", "other", "any", "differ"].contains(&place) && !source.is_empty(),
                "{text}"
            );
        }
    }

    /// What one side is told is about that side, and about how it failed.
    #[test]
    fn each_way_not_to_meet_has_causes_of_its_own() {
        let first = |stage| {
            let causes = ranked(&Failure::new(stage, ""), &Place::default());
            causes.into_iter().next().unwrap_or_default()
        };
        let firsts = Stage::ALL.map(first);
        assert!(firsts.iter().all(|cause| !cause.is_empty()), "{firsts:?}");
        assert!(first(Stage::Refused).contains("start `ofi pair listen`"));
        assert!(first(Stage::Nobody).contains("ofi pair connect"));
        assert!(first(Stage::Name).contains("name"));
        assert!(first(Stage::Stranger).contains("another program"));
        assert!(first(Stage::Unreached).contains("firewall"));
        assert_eq!(Stage::Name.to_string(), "meet");
    }

    /// Whoever fails with a code is not told of security groups first.
    #[test]
    fn the_code_of_an_error_says_more_than_how_far_it_came() {
        let place = Place {
            provider: "efa".to_owned(),
            is_same_host: Some(false),
            ..Place::default()
        };
        for code in Code::ALL {
            for stage in [Stage::Start, Stage::Connect, Stage::Data] {
                let failure = Failure::new(stage, format_args!("device 0: {code} words: more"));
                let (causes, of_stage) = (ranked(&failure, &place), failure_without(stage, &place));
                if [Code::ConnectTimeout, Code::Stalled].contains(code) {
                    assert_eq!(causes, of_stage, "{code}");
                    continue;
                }
                let first = code.info().likely.first().copied();
                let first = first.unwrap_or_else(|| code.info().fix);
                assert!(causes[0].contains(first), "{code}: {causes:?}");
                assert!(causes.ends_with(&of_stage), "{code}: {causes:?}");
            }
        }
        let number = "OFI-E0601 an operation failed: errno 12, provider error 4112 (FI_ENOMEM (12), x; EFA: \
                      a; likely: locked memory); likely: b";
        let causes = ranked(&Failure::new(Stage::Data, number), &place);
        assert_eq!(causes[0], "EFA: a: locked memory [OFI-E0601]");
        let theirs = ranked(
            &Failure::new(Stage::Peer, "the other side: OFI-E0110 x"),
            &place,
        );
        assert!(theirs[0].starts_with("on the other side: "), "{theirs:?}");
    }

    /// Of versions that are known to be the same nobody is told that they differ; where they do, which.
    #[test]
    fn versions_are_a_cause_unless_they_are_the_same() {
        let place = |differ: Option<&str>| Place {
            differ: differ.map(str::to_owned),
            ..Place::default()
        };
        for stage in [Stage::Agree, Stage::Connect, Stage::Data, Stage::Peer] {
            let causes = |differ| ranked(&Failure::new(stage, "x"), &place(differ)).join("\n");
            assert!(!causes(Some("")).contains("versions"), "{stage}");
            assert!(causes(None).contains("versions"), "{stage}");
            let told = causes(Some("libfabric 1.17 here, 2.5 on b"));
            assert!(
                told.contains("same on both: libfabric 1.17 here, 2.5 on b ["),
                "{told}"
            );
        }
        let known = Place {
            bad_pair: Some("known".to_owned()),
            ..place(Some("libfabric 1.17 here, 2.5 on b"))
        };
        for stage in Stage::ALL {
            let causes = ranked(&Failure::new(stage, "x"), &known);
            let is_pair = !["meet", "start"].contains(&stage.to_string().as_str());
            assert_eq!(causes[0] == "known", is_pair, "{stage}: {causes:?}");
        }
    }

    fn failure_without(stage: Stage, place: &Place) -> Vec<String> {
        ranked(&Failure::new(stage, "no answer in 10 s"), place)
    }

    #[test]
    fn the_security_group_comes_first_between_hosts_with_efa() {
        let failure = Failure::new(Stage::Connect, "no answer");
        let place = |provider: &str, same| Place {
            provider: provider.to_owned(),
            is_same_host: Some(same),
            ..Place::default()
        };
        let first = |place: &Place| ranked(&failure, place)[0].clone();
        assert!(first(&place("efa", false)).contains("security group"));
        assert!(first(&place("efa", true)).contains("its own NIC"));
        assert!(first(&place("tcp;ofi_rxm", false)).contains("docker0"));
        assert!(first(&place("shm", false)).contains("another host"));
        assert!(!ranked(&failure, &Place::default()).is_empty());
    }
}
