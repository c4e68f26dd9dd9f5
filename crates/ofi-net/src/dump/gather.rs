//! From the engines to what a dump says. Under the domain's lock, so nothing is written here.

use super::{COMMS_MAX, Comm, Domain, Endpoint, Kind, Request, Stage};
use crate::error::NetError;
use crate::peers::Peers;
use crate::report::request_name;
use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{CommKind, CommView, Counters, PeerAddr, RequestView};
use std::collections::HashMap;

/// What both protocols say of a domain beside its communicators.
pub(crate) struct DomainFacts<'a> {
    /// Sequence numbers there are.
    pub(crate) seq_modulus: u32,
    /// What happened.
    pub(crate) counters: Counters,
    /// Operations that the provider was too busy for.
    pub(crate) posts_waiting: usize,
    /// What makes it unusable.
    pub(crate) poison: Option<&'a NetError>,
    /// Its endpoints, by the name of their lane.
    pub(crate) endpoints: Vec<(String, &'a Peers)>,
}

impl DomainFacts<'_> {
    /// With no communicators yet.
    pub(crate) fn domain(&self) -> Domain {
        let endpoint = |(lane, peers): &(String, &Peers)| Endpoint {
            lane: lane.clone(),
            address: peers.own_text(),
        };
        Domain {
            seq_modulus: self.seq_modulus,
            poison: self.poison.map(ToString::to_string),
            endpoints: self.endpoints.iter().map(endpoint).collect(),
            posts_waiting: self.posts_waiting as u64,
            eagain: self.counters.busy,
            sends: self.counters.sends,
            recvs: self.counters.recvs,
            failures: self.counters.failures,
            strays: self.counters.strays,
            ..Domain::default()
        }
    }
}

/// The communicators, those that wait or failed first, at most [`COMMS_MAX`]; and how many are left out.
pub(crate) fn comms(
    views: impl Iterator<Item = CommView>,
    names: &HashMap<PeerAddr, String>,
) -> (Vec<Comm>, u64) {
    let mut all: Vec<CommView> = views.collect();
    // Stable: those alike stay in the order of their numbers.
    all.sort_by_key(|view| (view.failure.is_none(), view.stage.is_none()));
    let omitted = all.len().saturating_sub(COMMS_MAX) as u64;
    all.truncate(COMMS_MAX);
    (all.iter().map(|view| comm(view, names)).collect(), omitted)
}

fn comm(view: &CommView, names: &HashMap<PeerAddr, String>) -> Comm {
    let peer = view.peer.and_then(|peer| names.get(&peer));
    Comm {
        kind: match view.kind {
            CommKind::Listener => Kind::Listener,
            CommKind::Send => Kind::Send,
            CommKind::Recv => Kind::Recv,
        },
        id: view.local_id,
        peer_id: view.remote_id,
        peer: peer.cloned(),
        state: view.state.to_owned(),
        closed: view.closed,
        stage: view.stage.or_else(|| view.failure?.why.stage()).map(stage),
        idle_ms: view.idle_ms,
        away_ms: view.away_ms,
        next_seq: view.next_seq.into(),
        oldest_seq: view.oldest_seq.into(),
        outstanding: view.outstanding.into(),
        done: view.done.into(),
        early: view.early.into(),
        ctrls: view.ctrls,
        posts_waiting: view.queued,
        flying: view.flying,
        eagain: view.busy,
        asked: view.asked,
        answered: view.answered,
        oldest: view.oldest.map(|oldest| request(&oldest)),
        failure: view
            .failure
            .map(|failure| NetError::from(failure).to_string()),
    }
}

fn request(view: &RequestView) -> Request {
    let pair = |(a, b): (u8, u8)| (u32::from(a), u32::from(b));
    Request {
        request: view.request.to_string(),
        kind: request_name(view.kind).to_owned(),
        seq: view.seq.map(u32::from),
        bytes: view.len.into(),
        moved: view.bytes.into(),
        age_ms: view.age_ms,
        completions: pair((view.have, view.need)),
        segments: pair(view.segments),
        ctrl_seen: view.ctrl_seen,
        posts_waiting: view.queued.into(),
        flying: lanes(view.flying),
    }
}

/// The names of the lanes whose bits are set: data rails, then control rails.
fn lanes(bits: u8) -> Vec<String> {
    let set = (0..u8::BITS as usize).filter(|index| bits & (1 << index) != 0);
    set.map(|index| match index.checked_sub(MAX_RAILS) {
        None => format!("data{index}"),
        Some(rail) => format!("ctl{rail}"),
    })
    .collect()
}

const fn stage(stage: ofi_rdma::Stage) -> Stage {
    match stage {
        ofi_rdma::Stage::SendConn => Stage::SendConn,
        ofi_rdma::Stage::AwaitConnResp => Stage::AwaitConnResp,
        ofi_rdma::Stage::SendConnResp => Stage::SendConnResp,
        ofi_rdma::Stage::AwaitConn => Stage::AwaitConn,
        ofi_rdma::Stage::Posting => Stage::Posting,
        ofi_rdma::Stage::Completions => Stage::Completions,
        ofi_rdma::Stage::AwaitCtrl => Stage::AwaitCtrl,
        ofi_rdma::Stage::AwaitData => Stage::AwaitData,
        ofi_rdma::Stage::AwaitClose => Stage::AwaitClose,
    }
}
