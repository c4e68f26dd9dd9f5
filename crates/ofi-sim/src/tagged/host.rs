//! A host: its engine, what completes there, and what has to be true of it after every turn.

use std::collections::BTreeMap;

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, CommKey, EpName, Event, RegionId};
use ofi_sendrecv::{Config, Engine, Op, Rest, TagSpace};

use super::net::{Completion, End, Net, Port};
use super::setup::Fault;

/// Bounds of the engines, milliseconds of virtual time.
pub(super) const STALL_FAIL_MS: u64 = 5_000;
const CONNECT_MS: u64 = 5_000;
const NAME_LEN: usize = 16;

pub(super) struct Host {
    pub(super) number: u8,
    pub(super) engine: Engine,
    /// By address of a buffer: life and number of the message in it.
    pub(super) contents: BTreeMap<u64, (u64, u64)>,
    /// Lives by communicator: whose failure is whose.
    pub(super) lives: BTreeMap<u64, u64>,
    /// Until when its program calls nothing.
    pub(super) away_until_ms: u64,
    pub(super) connected: u64,
}

/// The name of a host's endpoint.
pub(super) fn name_of(host: u8) -> [u8; EP_NAME_BYTES] {
    let mut name = [0; EP_NAME_BYTES];
    name[..NAME_LEN].fill(host + 1);
    name
}

impl Host {
    pub(super) fn new(number: u8, max_bytes: u64) -> Self {
        let name = name_of(number);
        let config = Config {
            name: EpName::new(&name[..NAME_LEN]).unwrap_or(EpName::EMPTY),
            tags: TagSpace::of(u64::MAX).expect("64 bits are enough"),
            message_bytes_max: max_bytes,
            connect_timeout_ms: CONNECT_MS,
            stall_warn_ms: Some(STALL_FAIL_MS / 2),
            stall_fail_ms: Some(STALL_FAIL_MS),
        };
        Self {
            number,
            engine: Engine::new(config),
            contents: BTreeMap::new(),
            lives: BTreeMap::new(),
            away_until_ms: 0,
            connected: 0,
        }
    }

    /// A progress pass: what completed, in any order, and what is to be posted.
    pub(super) fn turn(&mut self, net: &mut Net) -> Result<(), String> {
        let now_ms = net.now_ms;
        let all = &mut net.inboxes[usize::from(self.number)].completions;
        let (mut due, later): (Vec<_>, Vec<_>) = core::mem::take(all)
            .into_iter()
            .partition(|completion| completion.at_ms <= now_ms);
        *all = later;
        while !due.is_empty() {
            let at = net.rng.below(due.len() as u64);
            let completion = due.swap_remove(usize::try_from(at).unwrap_or(0));
            self.take(net, &completion)?;
        }
        self.engine.tick(now_ms);
        self.pump(net)
    }

    fn take(&mut self, net: &mut Net, completion: &Completion) -> Result<(), String> {
        let Completion { token, ref end, .. } = *completion;
        let under_way = &mut net.inboxes[usize::from(self.number)].under_way;
        let Some((op, _)) = under_way.remove(&token.0) else {
            return Err(format!("the simulation completed {token:?} twice"));
        };
        let strays = self.engine.counters().strays;
        match end {
            End::Done => self.engine.on_local(token, 0),
            End::Got(len) => self.engine.on_local(token, *len),
            End::Cut if net.drawn.drops_rest => self.engine.on_truncated(token, Rest::Dropped),
            End::Cut => self.engine.on_truncated(token, Rest::Unknown),
            End::Connect(bytes) => self.engine.on_connect(token, bytes),
            End::Failed(errno) => self.engine.on_failed(token, Cause::errno(*errno)),
        }
        let is_own = matches!(op, Op::Connect | Op::Await);
        if !is_own && self.engine.counters().strays != strays {
            return Err(format!(
                "{op:?} {token:?} was accepted, and its completion is a stray"
            ));
        }
        // Names of a communicator's own operations are those of the next one too.
        if !is_own && net.strikes(Fault::Repeated) {
            let strays = self.engine.counters().strays;
            self.engine.on_local(token, 3);
            if self.engine.counters().strays != strays + 1 {
                return Err(format!(
                    "a second completion of {op:?} {token:?} had an effect"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn pump(&mut self, net: &mut Net) -> Result<(), String> {
        let (host, contents) = (self.number, &self.contents);
        self.engine.pump(&mut Port {
            net,
            host,
            contents,
        });
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Failed(comm, failure) => self.may_fail(net, comm, &failure)?,
                Event::Connected { .. } => self.connected += 1,
                _ => {}
            }
        }
        self.regions_are_held(net)
    }

    /// Only what something happened to may fail.
    fn may_fail(
        &self,
        net: &Net,
        comm: CommKey,
        failure: &ofi_rdma::Failure,
    ) -> Result<(), String> {
        let life = self.lives.get(&comm.to_bits());
        match life.filter(|life| !net.touched.contains(life)) {
            Some(life) => Err(format!(
                "life {life} failed, and nothing happened to it: {failure:?}"
            )),
            None => Ok(()),
        }
    }

    /// While the provider has an operation on a region, the region counts as used.
    fn regions_are_held(&self, net: &Net) -> Result<(), String> {
        let mut used = BTreeMap::<u32, u32>::new();
        let under_way = &net.inboxes[usize::from(self.number)].under_way;
        for region in under_way.values().filter_map(|(_, region)| *region) {
            *used.entry(region.0).or_default() += 1;
        }
        for (region, operations) in used {
            let refs = self.engine.region_refs(RegionId(region));
            if refs < operations {
                return Err(format!(
                    "region {region}: {operations} operations, {refs} references"
                ));
            }
        }
        Ok(())
    }

    /// Once everything is closed nothing is left.
    pub(super) fn left(&self, net: &Net) -> Option<String> {
        let (comms, requests) = (self.engine.live_comms(), self.engine.live_requests());
        let posts = self.engine.posts_waiting();
        let inbox = &net.inboxes[usize::from(self.number)];
        let at_provider = inbox.under_way.len();
        (comms + requests + posts + at_provider != 0).then(|| {
            format!(
                "host {}: {comms} communicators, {requests} requests, {posts} posts, {at_provider} operations at the provider",
                self.number
            )
        })
    }
}
