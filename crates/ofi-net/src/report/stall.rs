//! The line of a communicator that makes no progress: who, with whom, at which stage, since when, and
//! who is waited for.

use super::{Note, name};
use ofi_rdma::{CommKind, Event, Lane, RequestKind, RequestView, Stage};

/// What to call a communicator of that kind.
const fn kind_name(kind: CommKind) -> &'static str {
    match kind {
        CommKind::Listener => "listener",
        CommKind::Send => "send communicator",
        CommKind::Recv => "receive communicator",
    }
}

/// What to call a request of that kind.
pub(crate) const fn request_name(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Send => "send",
        RequestKind::EagerSend => "eager send",
        RequestKind::Recv => "receive",
        RequestKind::Flush => "flush",
        RequestKind::Put => "one-sided write",
        RequestKind::Get => "one-sided read",
    }
}

/// Who can end a stage.
const fn waits_for(stage: Stage) -> &'static str {
    match stage {
        Stage::SendConn | Stage::SendConnResp | Stage::Posting => {
            "the provider here, or the peer's that takes nothing"
        }
        Stage::Completions => "the network, or the peer's process if it is gone or stopped",
        Stage::AwaitConn => "whoever was given this listener's handle",
        Stage::AwaitConnResp | Stage::AwaitCtrl | Stage::AwaitData | Stage::AwaitClose => {
            "the peer"
        }
    }
}

/// The stage that a note says somebody is stuck in.
pub(super) const fn stage_of(note: &Note) -> Option<Stage> {
    match note {
        Note::Event(Event::Stalled { stage, .. })
        | Note::About {
            event: Event::Stalled { stage, .. },
            ..
        } => Some(*stage),
        _ => None,
    }
}

/// How many of `notes` are about that stage.
pub(super) fn count(notes: &[Note], stage: Stage) -> usize {
    let alike = |note: &&Note| stage_of(note) == Some(stage);
    notes.iter().filter(alike).count()
}

/// What [`Event::Stalled`] says; nothing for any other event.
pub(super) fn what(event: Event) -> String {
    let Event::Stalled {
        kind,
        local_id,
        remote_id,
        stage,
        outstanding,
        idle_ms,
        away_ms,
        queued,
        busy,
        oldest,
        ..
    } = event
    else {
        return String::new();
    };
    let mut text = format!("{} {local_id}", kind_name(kind));
    if kind != CommKind::Listener {
        text += &format!(" ({remote_id} at the peer)");
    }
    text += &format!(", for {idle_ms} ms: {stage}");
    if away_ms > 0 {
        text += &format!("; not counted: {away_ms} ms in which nobody called");
    }
    if let Some(oldest) = oldest {
        let request = request_text(&oldest);
        text += &format!("; oldest request: {request}; {outstanding} outstanding");
    }
    if queued > 0 {
        text += &format!("; {queued} operations wait for the provider");
    }
    let for_whom = waits_for(stage);
    text + &format!("; EAGAIN {busy} times to its operations so far; waited for: {for_whom}")
}

/// What [`Note::Bare`] says.
pub(crate) fn bare(lane: Lane, ms: u64) -> String {
    let name = name(lane);
    format!("{name}: no receive could be posted for {ms} ms, so that nothing can come in there")
}

fn request_text(request: &RequestView) -> String {
    let mut text = request_name(request.kind).to_owned();
    if let Some(seq) = request.seq {
        text += &format!(" number {seq}");
    }
    let (name, len, age) = (request.request, request.len, request.age_ms);
    text += &format!(" of {len} bytes (request {name}, {age} ms old)");
    let (have, want) = request.segments;
    if want > 0 {
        text += &format!(", {have} of {want} segments came");
    }
    if request.need > 0 {
        text += &format!(", {} of {} completions", request.have, request.need);
    }
    let rails = (0..8).filter(|index| request.flying & (1 << index) != 0);
    for (nth, index) in rails.enumerate() {
        let before = if nth == 0 {
            ", at the provider: "
        } else {
            ", "
        };
        let (kind, rail) = lane(index);
        text += &format!("{before}{kind} rail {rail}");
    }
    text
}

/// A bit of [`RequestView::flying`]: data rails, then control rails.
const fn lane(index: usize) -> (&'static str, usize) {
    const RAILS: usize = ofi_rdma::limits::MAX_RAILS;
    if index < RAILS {
        ("data", index)
    } else {
        ("control", index - RAILS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use ofi_rdma::{CommKey, ReqKey};

    /// What is not connected is waiting for no message: each stage has the causes that are its own.
    #[test]
    fn a_stage_has_the_code_of_its_causes() {
        for (stage, code) in [
            (Stage::SendConn, Code::NotConnected),
            (Stage::AwaitConnResp, Code::NotConnected),
            (Stage::SendConnResp, Code::NotConnected),
            (Stage::AwaitConn, Code::NobodyConnects),
            (Stage::Posting, Code::NoProgress),
            (Stage::Completions, Code::NoProgress),
            (Stage::AwaitCtrl, Code::NoProgress),
            (Stage::AwaitData, Code::NoProgress),
            (Stage::AwaitClose, Code::NoProgress),
        ] {
            let event = Event::Stalled {
                comm: CommKey::from_bits(0),
                kind: CommKind::Send,
                local_id: 1,
                remote_id: 0,
                stage,
                oldest_seq: 0,
                outstanding: 0,
                idle_ms: 60_000,
                away_ms: 0,
                queued: 0,
                busy: 0,
                oldest: None,
                peer: None,
            };
            let error = super::super::of_event(event).unwrap();
            assert_eq!(error.code(), code, "{stage}");
        }
    }

    /// A send that waits: the line has all that a person asks for.
    #[test]
    fn the_line_has_who_what_and_whom() {
        let event = Event::Stalled {
            comm: CommKey::from_bits(0),
            kind: CommKind::Send,
            local_id: 9,
            remote_id: 12,
            stage: Stage::Completions,
            oldest_seq: 412,
            outstanding: 3,
            idle_ms: 60_000,
            away_ms: 5000,
            queued: 2,
            busy: 17,
            oldest: Some(RequestView {
                request: ReqKey::from_bits(3 << 32 | 12),
                kind: RequestKind::Send,
                seq: Some(412),
                len: 1 << 20,
                bytes: 0,
                need: 2,
                have: 1,
                queued: 0,
                flying: 0b1_0010,
                segments: (0, 0),
                ctrl_seen: true,
                age_ms: 70_000,
            }),
            peer: None,
        };
        let text = Note::Event(event).to_string();
        for part in [
            "send communicator 9 (12 at the peer), for 60000 ms: waiting for completions",
            "not counted: 5000 ms in which nobody called",
            "oldest request: send number 412 of 1048576 bytes (request 12.3, 70000 ms old), 1 of 2 completions, at the provider: data \
             rail 1, control rail 0; 3 outstanding",
            "2 operations wait",
            "EAGAIN 17 times",
            "waited for: the network",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
