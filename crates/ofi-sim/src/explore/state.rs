//! One state of everything: the two engines, the network, the two callers. It is cloned at each
//! branch, and two states are one when they cannot be told apart from now on.

use core::hash::{Hash, Hasher};

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{CommKey, ConfigError, Dialect, Engine, Lane, RegionId, ReqKey, Target};

use super::hasher::Mixer;
use super::net::{Fortune, Net, RECV, SEND, buffer, key};
use super::port::Port;
use super::scene::{Scene, engine_config};
use crate::ops::{NAME_BYTES, endpoint_name};

/// Where a caller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Sender: has the handle, and has not connected. Receiver: listens from the start.
    Idle,
    /// Connects, or accepts.
    Opening,
    /// Messages flow.
    Open,
    /// Closed.
    Closed,
}

/// A request that is not done, with the number of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) k: u8,
    pub(super) req: ReqKey,
    pub(super) is_flush: bool,
}

/// The caller of one side.
#[derive(Clone, Debug, Hash)]
pub(super) struct Side {
    pub(super) phase: Phase,
    pub(super) comm: Option<CommKey>,
    /// The next message to ask for.
    pub(super) next: u8,
    pub(super) pending: Vec<Asked>,
    /// A call said that the connection failed.
    pub(super) failed: bool,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct State<D: Dialect> {
    pub(super) engines: [Engine<D>; 2],
    pub(super) net: Net,
    pub(super) sides: [Side; 2],
    pub(super) listener: u32,
    pub(super) now_ms: u64,
    pub(super) waits: u8,
}

impl<D: Dialect> State<D> {
    /// The first state: the receiver listens, the sender has the handle.
    pub(super) fn new(scene: &Scene) -> Result<Self, ConfigError> {
        let engine = |host| Engine::new(engine_config(scene, host));
        let mut engines = [engine(0)?, engine(1)?];
        let side = Side {
            phase: Phase::Idle,
            comm: None,
            next: 0,
            pending: Vec::new(),
            failed: false,
        };
        let mut sides = [side.clone(), side];
        let mut net = Net::new(scene);
        let mut listener = 0;
        match engines[RECV].listen() {
            Ok((comm, id)) => {
                sides[RECV].comm = Some(comm);
                sides[RECV].phase = Phase::Opening;
                listener = id;
            }
            Err(error) => net.violation(format!("listen: {error}")),
        }
        Ok(Self {
            engines,
            net,
            sides,
            listener,
            now_ms: 0,
            waits: 0,
        })
    }

    /// A number that tells this state from others.
    pub(super) fn digest(&self) -> u64 {
        let mut mixer = Mixer::default();
        for engine in &self.engines {
            engine.hash_state(&mut mixer);
        }
        self.net.hash(&mut mixer);
        self.sides.hash(&mut mixer);
        (self.now_ms, self.waits).hash(&mut mixer);
        mixer.finish()
    }

    /// The engine of a host, with its port.
    pub(super) fn at<'a>(
        &'a mut self,
        scene: &'a Scene,
        host: usize,
    ) -> (&'a mut Engine<D>, Port<'a>) {
        let Self { engines, net, .. } = self;
        (&mut engines[host], Port { scene, net, host })
    }

    /// Takes what an engine puts out, as `ofi-net` does after every call.
    pub(super) fn drain(&mut self, scene: &Scene, host: usize) {
        let (engine, mut port) = self.at(scene, host);
        engine.pump(&mut port);
        while let Some(rx) = engine.take_released() {
            if !port.net.release(rx) {
                port.net
                    .violation(format!("{rx:?} comes back, and nobody held it"));
            }
        }
        while engine.poll_event().is_some() {}
        self.net.sweep();
        let refs = self.engines[RECV].region_refs(region(RECV));
        // From here on the caller may do as it likes with the memory (decision 13).
        self.net.gone |= self.net.closed[RECV] && refs == 0;
    }

    /// What the sender was given as a handle.
    pub(super) fn target(&self) -> Target {
        let name = endpoint_name(1, Lane::control(0));
        let mut control_name = [0; EP_NAME_BYTES];
        control_name[..NAME_BYTES].copy_from_slice(&name);
        Target {
            control_name,
            listener_id: self.listener,
        }
    }

    /// Whether a side has done all that it came for. Who asked for optional receives looks for their
    /// data itself.
    pub(super) fn has_finished(&self, side: usize) -> bool {
        let caller = &self.sides[side];
        let all = usize::from(caller.next) == self.net.fortunes.len();
        let come = |fortune: &Fortune| !fortune.done[RECV] || fortune.places != 0;
        let come = side == SEND || !self.net.optional || self.net.fortunes.iter().all(come);
        caller.phase == Phase::Open && all && caller.pending.is_empty() && come
    }

    /// Whether nothing is left: both closed, nothing under way, everything given back.
    ///
    /// # Errors
    /// What is left, in words.
    pub(super) fn judge_end(&self, scene: &Scene) -> Result<(), String> {
        for (host, engine) in self.engines.iter().enumerate() {
            let left = [
                ("communicators", engine.live_comms()),
                ("requests", engine.live_requests()),
                ("posts waiting", engine.posts_waiting()),
                ("messages kept", engine.early_messages()),
                (
                    "references",
                    usize::try_from(engine.region_refs(region(host))).unwrap_or(0),
                ),
            ];
            if let Some((what, count)) = left.into_iter().find(|(_, count)| *count > 0) {
                return Err(format!("host {host}: {count} {what} left at the end"));
            }
        }
        if self.net.bounce.iter().any(Option::is_some) {
            return Err("a receive buffer is held at the end".into());
        }
        let complete = |k: u8| {
            let fortune = self.net.fortunes[usize::from(k)];
            fortune.done == [true; 2] && fortune.landed == scene.moved(k)
        };
        let count = u8::try_from(self.net.fortunes.len()).unwrap_or(u8::MAX);
        match (0..count)
            .find(|&k| !complete(k))
            .filter(|_| !self.net.tainted)
        {
            Some(k) => Err(format!(
                "message {k} was not carried, and nothing went wrong"
            )),
            None => Ok(()),
        }
    }
}

/// The region of a side.
pub(super) const fn region(side: usize) -> RegionId {
    RegionId(if side == SEND { 1 } else { 2 })
}

/// Keys of the receiver's region.
pub(super) fn keys(scene: &Scene) -> [u64; MAX_RAILS] {
    let mut keys = [0; MAX_RAILS];
    for (rail, slot) in (0..scene.rails).zip(&mut keys) {
        *slot = key(rail);
    }
    keys
}

/// Address and length of the buffer of message `k` of a side.
pub(super) fn place(scene: &Scene, side: usize, k: u8) -> (u64, u64) {
    let (send, recv) = scene
        .messages
        .get(usize::from(k))
        .copied()
        .unwrap_or_default();
    let len = if side == SEND { send } else { recv };
    (buffer(side, k), len.into())
}
