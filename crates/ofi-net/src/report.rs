//! What the log is told: typed events and notes, collected under the domain's lock and written after
//! it was left, so that a slow logger holds up nobody.

use crate::error::NetError;
use crate::log::{self, Log, Repeats, Subsys};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use ofi_rdma::{Event, Lane, Stray};

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
    /// An error for no operation of ours, such as a failed write of a peer.
    Unowned {
        /// On which rail.
        rail: u8,
        /// The provider's words.
        text: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => write_event(f, *event),
            Self::About { event, peer } => {
                write!(f, "peer {peer}: ")?;
                write_event(f, *event)
            }
            // Some providers do not say by how much (0).
            Self::Truncated { lane, lost: _ } if lane.is_control() => write!(
                f,
                "{}: a message longer than any control message was dropped; likely: what sent it is no \
                 peer of ours",
                name(*lane)
            ),
            Self::Truncated { lane, lost } => {
                write!(f, "{}: a message of a peer is ", name(*lane))?;
                if *lost > 0 {
                    write!(f, "{lost} bytes ")?;
                }
                f.write_str(
                    "longer than the receive buffers; likely: OFI_NCCL_EAGER_MAX_SIZE differs between \
                     ranks; do: set it alike on all ranks",
                )
            }
            Self::Receive { lane, text } => {
                write!(f, "{}: a posted receive failed: {text}", name(*lane))
            }
            Self::Refused { lane, text } => {
                write!(
                    f,
                    "{}: not taken by this host's provider: {text}",
                    name(*lane)
                )
            }
            Self::Peer { lane, text } => write!(
                f,
                "{}: the provider does not take the address of a peer: {text}; likely: the ranks have \
                 different providers or libfabrics, or a resource of the provider ran out; do: compare \
                 FI_PROVIDER and the libfabric of the ranks, and see libfabric's log (FI_LOG_LEVEL=warn)",
                name(*lane)
            ),
            Self::Unowned { rail, text } => {
                write!(f, "rail {rail}: an error for no operation of ours: {text}")
            }
        }
    }
}

fn write_event(f: &mut fmt::Formatter<'_>, event: Event) -> fmt::Result {
    match event {
        Event::Connected {
            local_id,
            remote_id,
            ..
        } => write!(
            f,
            "communicator {local_id} connected, {remote_id} at the peer"
        ),
        Event::EagerCapped { ours, theirs, .. } => {
            let shown = |max: Option<u32>| max.map_or(-1, i64::from);
            let (ours, theirs) = (shown(ours), shown(theirs));
            write!(
                f,
                "OFI_NCCL_EAGER_MAX_SIZE is {ours} here and {theirs} at a peer: longer messages to it wait \
                 for its receive; set it alike on all ranks"
            )
        }
        Event::Failed(_, failure) => write!(f, "{}", NetError::from(failure)),
        Event::Stalled {
            local_id,
            stage,
            oldest_seq,
            outstanding,
            idle_ms,
            ..
        } => write!(
            f,
            "communicator {local_id} without progress for {idle_ms} ms: {stage}; {outstanding} requests \
             outstanding, oldest message {oldest_seq}; see the peer's log; OFI_NCCL_STALL_WARN is this \
             bound in seconds"
        ),
        Event::Stray(stray) => write!(f, "dropped {stray:?}"),
    }
}

/// Thins out what can repeat.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    strays: Repeats,
    receives: Repeats,
    unowned: Repeats,
    /// Different limits of eager messages were told.
    capped: AtomicBool,
}

impl Reporter {
    /// Writes `notes` of the domain called `label`.
    #[cold]
    pub(crate) fn write(&self, log: &dyn Log, label: &str, notes: &[Note]) {
        for note in notes {
            match note {
                Note::Event(event) => self.event(log, label, *event),
                Note::About { .. } => {
                    log::warn(log, Subsys::Net, || format!("{label}: {note}"));
                }
                Note::Truncated { .. }
                | Note::Receive { .. }
                | Note::Refused { .. }
                | Note::Peer { .. } => {
                    self.thinned(log, &self.receives, || format!("{label} {note}"));
                }
                Note::Unowned { .. } => {
                    self.thinned(log, &self.unowned, || format!("{label} {note}"));
                }
            }
        }
    }

    fn event(&self, log: &dyn Log, label: &str, event: Event) {
        let text = || format!("{label}: {}", Note::Event(event));
        match event {
            Event::EagerCapped { .. } => self.capped(log, text),
            Event::Connected { .. } => log::info(log, Subsys::Net, text),
            Event::Failed(..) | Event::Stalled { .. } => log::warn(log, Subsys::Net, text),
            Event::Stray(stray) => self.stray(log, label, stray),
        }
    }

    /// Once: it is the same for all communicators to a peer, and likely to all peers.
    /// Once: it is the same for every connection to hosts with that setting.
    fn capped(&self, log: &dyn Log, text: impl FnOnce() -> String) {
        if !self.capped.swap(true, Ordering::Relaxed) {
            log::warn(log, Subsys::Net, text);
        }
    }

    fn stray(&self, log: &dyn Log, label: &str, stray: Stray) {
        if let Some(n) = self.strays.permit() {
            log::trace(log, Subsys::Net, || {
                format!("{label}: {}, number {n}", Note::Event(Event::Stray(stray)))
            });
        }
    }

    fn thinned(&self, log: &dyn Log, repeats: &Repeats, text: impl FnOnce() -> String) {
        if let Some(n) = repeats.permit() {
            log::warn(log, Subsys::Net, || {
                let text = text();
                if n > Repeats::PLAIN {
                    format!("{text} (number {n})")
                } else {
                    text
                }
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
    use crate::log::Level;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<(Level, String)>>);

    impl Log for Lines {
        fn enabled(&self, _: Level) -> bool {
            true
        }

        fn log(&self, level: Level, _: Subsys, _: &'static str, _: u32, text: &str) {
            self.0.lock().unwrap().push((level, text.to_owned()));
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
            known.contains("9 bytes longer") && known.contains("EAGER_MAX_SIZE"),
            "{known}"
        );
        let unknown = said(Lane::data(0), 0);
        assert!(
            unknown.contains("is longer") && !unknown.contains("0 bytes"),
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
                .starts_with("eth0 data rail 1: a message of a peer is 9 bytes")
        );
        assert!(lines.last().unwrap().1.ends_with("(number 8192)"));
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
