//! What the log is told: typed events and notes, collected under the domain's lock and written after
//! it was left, so that a slow logger holds up nobody.

use crate::error::{Code, NetError};
use crate::log::{self, Log, PerCode, Repeats, Subsys};
use crate::stats;
use core::fmt;
use ofi_rdma::{CommCounters, CommKind, Counters, Event, Lane, Stage};

mod stall;
mod told;

pub(crate) use stall::{bare, request_name};
use told::Told;

/// Something noticed by harvest that is no event of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// From the engine.
    Event(Event),
    /// The same, about a peer whose address is known.
    About {
        /// What.
        event: Event,
        /// The peer's address, as people read it.
        peer: Box<str>,
    },
    /// A message did not fit the receive buffer: the peer's limit of eager messages is above ours.
    Truncated {
        /// Where it arrived.
        lane: Lane,
        /// Bytes that did not fit, where the provider says.
        lost: usize,
    },
    /// A receive buffer came back with an error.
    Receive {
        /// Where it was posted.
        lane: Lane,
        /// The provider's words.
        text: String,
    },
    /// No receive could be posted for so long.
    Bare {
        /// Where.
        lane: Lane,
        /// Milliseconds.
        ms: u64,
    },
    /// So many receives in a row failed that none is posted any more.
    GivenUp(Lane),
    /// The provider refused a post, or memory that it needs: its communicator fails, and says with what.
    Refused {
        /// Where it was to go.
        lane: Lane,
        /// The call, in the provider's words.
        text: String,
    },
    /// The provider did not take the address of a peer: the one that connects is told by its error, the
    /// one that accepts goes on and would wonder.
    Peer {
        /// For which endpoint.
        lane: Lane,
        /// The provider's words, and the address.
        text: String,
    },
    /// SENDRECV: a handle is none of ours, so that it may be one of RDMA.
    Foreign {
        /// The number in it.
        tag: u32,
        /// The address in it, as people read it.
        peer: Box<str>,
    },
    /// A communicator was closed: what it did.
    Closed {
        /// Its wire id.
        id: u32,
        /// Which way its messages went.
        kind: CommKind,
        /// How many.
        counted: CommCounters,
    },
    /// An error for no operation of ours, such as a failed write of a peer.
    Unowned {
        /// On which rail.
        rail: u8,
        /// The provider's words.
        text: String,
    },
}

impl Note {
    /// What somebody has to do something about; `None` for what is only good to know.
    fn warning(&self) -> Option<NetError> {
        Some(match self {
            Self::Event(event) => of_event(*event)?,
            Self::About { event, peer } => of_event(*event)?.context(format_args!("peer {peer}")),
            // Some providers do not say by how much (0).
            Self::Truncated { lane, lost } => {
                let code = if lane.is_control() {
                    Code::StrangeMessage
                } else {
                    Code::EagerTooLong
                };
                let what = match lost {
                    0 => name(*lane),
                    lost => format!("{}: by {lost} bytes", name(*lane)),
                };
                NetError::new(code, what)
            }
            Self::Receive { lane, text } => on_lane(Code::ReceiveFailed, *lane, text),
            Self::Bare { lane, ms } => NetError::new(Code::NoReceives, bare(*lane, *ms)),
            Self::GivenUp(lane) => NetError::new(Code::LaneGivenUp, name(*lane)),
            Self::Refused { lane, text } => on_lane(Code::PostRefused, *lane, text),
            Self::Peer { lane, text } => on_lane(Code::PeerAddress, *lane, text),
            Self::Foreign { tag, peer } => {
                let what = format!("peer {peer}: its number is {tag}");
                NetError::new(Code::ForeignListener, what)
            }
            Self::Closed { .. } => return None,
            Self::Unowned { rail, text } => {
                NetError::new(Code::Unowned, format!("rail {rail}: {text}"))
            }
        })
    }

    /// Whom it is about.
    fn peer(&self) -> Option<&str> {
        match self {
            Self::About { peer, .. } => Some(peer),
            _ => None,
        }
    }
}

/// As it is written, but for the name of the domain.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.warning() {
            return write!(f, "{error}");
        }
        if let Self::About { peer, .. } = self {
            write!(f, "peer {peer}: ")?;
        }
        match self {
            Self::Event(event) | Self::About { event, .. } => write_remark(f, *event),
            Self::Closed { id, kind, counted } => {
                f.write_str(&stats::comm_line(*id, *kind, counted))
            }
            _ => Ok(()),
        }
    }
}

fn write_remark(f: &mut fmt::Formatter<'_>, event: Event) -> fmt::Result {
    match event {
        Event::Connected {
            local_id,
            remote_id,
            ..
        } => write!(
            f,
            "communicator {local_id} connected, {remote_id} at the peer"
        ),
        Event::Stray(stray) => write!(f, "dropped {stray:?}"),
        _ => Ok(()),
    }
}

fn on_lane(code: Code, lane: Lane, text: &str) -> NetError {
    NetError::new(code, format!("{}: {text}", name(lane)))
}

fn of_event(event: Event) -> Option<NetError> {
    Some(match event {
        Event::EagerCapped { ours, theirs, .. } => {
            let shown = |max: Option<u32>| max.map_or(-1, i64::from);
            let (ours, theirs) = (shown(ours), shown(theirs));
            let what = format!("OFI_NCCL_EAGER_MAX_SIZE is {ours} here and {theirs} at a peer");
            NetError::new(Code::EagerDiffers, what)
        }
        Event::Failed(_, failure) => failure.into(),
        Event::Stalled { stage, .. } => {
            let code = match stage {
                Stage::AwaitConn => Code::NobodyConnects,
                Stage::SendConn | Stage::AwaitConnResp | Stage::SendConnResp => Code::NotConnected,
                _ => Code::NoProgress,
            };
            NetError::new(code, stall::what(event))
        }
        Event::Connected { .. } | Event::Stray(_) => return None,
    })
}

/// Thins out what can repeat.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    strays: Repeats,
    said: PerCode,
    told: Told,
}

impl Reporter {
    /// Writes `notes` of the domain called `label`.
    #[cold]
    pub(crate) fn write(&self, log: &dyn Log, label: &str, notes: &[Note]) {
        for (at, note) in notes.iter().enumerate() {
            let (before, after) = notes.split_at(at);
            let more = match stall::stage_of(note) {
                // Told with an earlier one.
                Some(stage) if stall::count(before, stage) > 0 => continue,
                Some(stage) => stall::count(after, stage) - 1,
                None => 0,
            };
            match note.warning() {
                Some(error) if more > 0 => {
                    let what = format_args!("{more} more communicators at this stage, and");
                    self.warn(log, label, error.context(what), note.peer());
                }
                Some(error) => self.warn(log, label, error, note.peer()),
                None => self.remark(log, label, note),
            }
        }
    }

    /// The first few of each kind, the first of each peer, and then fewer and fewer.
    fn warn(&self, log: &dyn Log, label: &str, error: NetError, peer: Option<&str>) {
        let code = error.code();
        if peer.is_some_and(|peer| self.told.is_known(code, peer)) {
            return;
        }
        let permitted = self.said.permit(code);
        // It is the same for all communicators to a peer, and likely for all peers.
        let is_of_job = matches!(code, Code::EagerDiffers | Code::ForeignListener);
        if is_of_job && permitted != Some(1) {
            return;
        }
        let is_new = peer.is_some_and(|peer| self.told.is_new(code, peer));
        let number = match permitted {
            Some(n) if n > Repeats::PLAIN => n,
            None if !is_new => return,
            _ => 1,
        };
        log::warn(log, Subsys::Net, || error.context(label).counted(number));
    }

    fn remark(&self, log: &dyn Log, label: &str, note: &Note) {
        match note {
            Note::Event(Event::Stray(_))
            | Note::About {
                event: Event::Stray(_),
                ..
            } => {
                if let Some(n) = self.strays.permit() {
                    log::trace(log, Subsys::Net, || format!("{label}: {note}, number {n}"));
                }
            }
            _ => log::info(log, Subsys::Net, || format!("{label}: {note}")),
        }
    }

    /// The end of the domain called `label`: what was counted and not written.
    #[cold]
    pub(crate) fn close(&self, log: &dyn Log, label: &str, counters: &Counters) {
        self.said.close(log, label);
        self.told.close(log, label);
        let (after, comms) = (counters.followers, counters.failures);
        if after > 0 {
            log::warn(log, Subsys::Net, || {
                let what = format!("{label}: {after} operations of {comms} failed communicators");
                NetError::new(Code::Followers, what)
            });
        }
    }
}

fn name(lane: Lane) -> String {
    format!(
        "{} rail {}",
        if lane.is_control() { "control" } else { "data" },
        lane.rail()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Level, Line};
    use ofi_rdma::{CommKey, CommKind, Stray};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<(Level, String)>>);

    impl Log for Lines {
        fn enabled(&self, _: Level) -> bool {
            true
        }

        fn log(&self, line: &Line) {
            let line = (line.level(), line.text().to_owned());
            self.0.lock().unwrap().push(line);
        }
    }

    /// Each says what can be the cause on its kind of rail, and no number that nobody knows.
    #[test]
    fn a_message_that_is_too_long_is_told_by_its_rail() {
        let said = |lane, lost| {
            let (lines, reporter) = (Lines::default(), Reporter::default());
            reporter.write(&lines, "x", &[Note::Truncated { lane, lost }]);
            lines.0.into_inner().unwrap().remove(0).1
        };
        let known = said(Lane::data(0), 9);
        assert!(
            known.contains("by 9 bytes") && known.contains("EAGER_MAX_SIZE"),
            "{known}"
        );
        let unknown = said(Lane::data(0), 0);
        assert!(
            unknown.contains("is longer") && !unknown.contains("by 0 bytes"),
            "{unknown}"
        );
        let control = said(Lane::control(0), 0);
        assert!(
            control.contains("control message") && !control.contains("EAGER"),
            "{control}"
        );
    }

    #[test]
    fn a_flood_of_bad_messages_is_few_lines() {
        let (lines, reporter) = (Lines::default(), Reporter::default());
        let note = Note::Truncated {
            lane: Lane::data(1),
            lost: 9,
        };
        for _ in 0..10_000 {
            reporter.write(&lines, "eth0", core::slice::from_ref(&note));
        }
        let lines = lines.0.into_inner().unwrap();
        assert!(lines.len() < 20, "{}", lines.len());
        assert_eq!(lines[0].0, Level::Warn);
        assert!(
            lines[0]
                .1
                .starts_with("OFI-W0412 a message of a peer is longer than the receive buffers: eth0: data rail 1: by 9 bytes")
        );
        let last = &lines.last().unwrap().1;
        assert!(last.contains("(number 8192 of this kind)"), "{last}");
    }

    fn stalled(stage: Stage, local_id: u32) -> Event {
        Event::Stalled {
            comm: CommKey::from_bits(1),
            kind: CommKind::Recv,
            local_id,
            remote_id: 0,
            stage,
            oldest_seq: 0,
            outstanding: 1,
            idle_ms: 9,
            away_ms: 0,
            queued: 0,
            busy: 0,
            oldest: None,
            peer: None,
        }
    }

    /// A peer that died takes all its communicators along: one is told of as any other.
    #[test]
    fn each_peer_is_named_and_what_follows_is_counted_and_told_at_the_end() {
        let (lines, reporter) = (Lines::default(), Reporter::default());
        for n in 0..90 {
            let peer: Box<str> = if n == 70 { "b".into() } else { "a".into() };
            let event = stalled(Stage::AwaitCtrl, n);
            reporter.write(&lines, "eth0", &[Note::About { event, peer }]);
        }
        let counters = Counters {
            followers: 127,
            failures: 2,
            ..Counters::default()
        };
        reporter.close(&lines, "eth0", &counters);
        let lines = lines.0.into_inner().unwrap();
        let text: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        // 1, 2, 3, 4, 8, 16, 32, 64, the other peer, and two at the end.
        assert_eq!(text.len(), 11, "{text:#?}");
        assert!(text.iter().all(|line| line.starts_with("OFI-W06")));
        assert!(
            text[8].contains("peer b: receive communicator 70"),
            "{}",
            text[8]
        );
        assert!(
            text[9].contains("eth0: 90 of this kind in all"),
            "{}",
            text[9]
        );
        assert!(
            text[10].contains("127 operations of 2 failed"),
            "{}",
            text[10]
        );
    }

    /// What two hosts were given is the same for all their communicators: one line for each host.
    #[test]
    fn a_mismatch_is_told_once_a_peer_and_the_others_are_counted() {
        let (lines, reporter) = (Lines::default(), Reporter::default());
        for n in 0..40 {
            let peer: Box<str> = if n % 4 == 3 { "b".into() } else { "a".into() };
            let failure = ofi_rdma::Failure {
                comm_id: n,
                seq: None,
                request: None,
                why: ofi_rdma::Why::Mismatch {
                    what: ofi_rdma::Mismatch::Rails,
                    ours: 4,
                    theirs: 1,
                },
                peer: None,
            };
            let event = Event::Failed(CommKey::from_bits(1), failure);
            reporter.write(&lines, "eth0", &[Note::About { event, peer }]);
        }
        reporter.close(&lines, "eth0", &Counters::default());
        let lines = lines.0.into_inner().unwrap();
        let (told, lines): (Vec<_>, Vec<_>) = (lines.into_iter()).partition(|l| l.0 == Level::Warn);
        let told: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
        assert_eq!(told.len(), 2, "{told:#?}");
        for (text, peer, id) in [(&told[0], "a", 0), (&told[1], "b", 3)] {
            assert!(text.starts_with("OFI-E0403"), "{text}");
            assert!(
                text.contains(&format!("peer {peer}: communicator {id}: ")),
                "{text}"
            );
        }
        let mut counted: Vec<String> = lines.into_iter().map(|(_, text)| text).collect();
        counted.sort();
        let wanted = [
            "eth0: peer a: OFI-E0403 of 29 more communicators",
            "eth0: peer b: OFI-E0403 of 9 more communicators",
        ];
        assert_eq!(counted, wanted);
    }

    #[test]
    fn a_connection_names_device_and_peer() {
        let (lines, reporter) = (Lines::default(), Reporter::default());
        let event = Event::Connected {
            comm: CommKey::from_bits(1),
            local_id: 1,
            remote_id: 2,
            peer: None,
        };
        let peer = "192.0.2.2:34803".into();
        reporter.write(&lines, "device 0 (eth0)", &[Note::About { event, peer }]);
        let line = "device 0 (eth0): peer 192.0.2.2:34803: communicator 1 connected, 2 at the peer";
        assert_eq!(
            lines.0.into_inner().unwrap(),
            [(Level::Info, line.to_owned())]
        );
    }

    #[test]
    fn a_thousand_communicators_at_one_stage_are_one_line() {
        let about = |stage, local_id| Note::About {
            event: stalled(stage, local_id),
            peer: "10.0.0.7:5".into(),
        };
        let (lines, reporter) = (Lines::default(), Reporter::default());
        let mut notes: Vec<_> = (0..1000).map(|id| about(Stage::AwaitData, id)).collect();
        notes.push(about(Stage::AwaitClose, 7));
        reporter.write(&lines, "x", &notes);
        let lines = lines.0.into_inner().unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (_, first) = &lines[0];
        for part in [
            "OFI-W0609",
            "peer 10.0.0.7:5: receive communicator 0 ",
            "999 more communicators at this stage",
        ] {
            assert!(first.contains(part), "{part:?} is not in {first}");
        }
    }

    #[test]
    fn strays_are_no_warnings() {
        let (lines, reporter) = (Lines::default(), Reporter::default());
        reporter.write(&lines, "eth0", &[Note::Event(Event::Stray(Stray::Conn(3)))]);
        let lines = lines.0.into_inner().unwrap();
        assert_eq!(
            lines,
            [(Level::Trace, "eth0: dropped Conn(3), number 1".to_owned())]
        );
    }
}
