//! What a process has one of: its segment, its NICs, the peers it knows.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};
use std::time::Instant;

use super::address::Address;
use super::breakage;
use super::endpoint::Ep;
use super::locked;
use super::nic::Nic;
use super::peer::Peer;
use crate::config::Config;
use crate::generation::Generation;
use crate::mem::layout::{ENDPOINTS, QUEUES, Segment};
use crate::mem::mapping::{self, Mapping};
use crate::mem::regions::Keys;
use crate::mem::{presence, serve};
use crate::plan::NicPlan;
use crate::stats::Stats;

/// What a process has one of. Made at the first look for NICs, and there until the process ends.
#[derive(Debug)]
pub(crate) struct Process {
    config: Config,
    generation: Generation,
    id: u64,
    path: PathBuf,
    pid: u32,
    /// As others know it ([`presence`]).
    user: u32,
    segment: Mapping,
    started: Instant,
    keys: Keys,
    nics: Vec<Nic>,
    stats: Stats,
    own: Arc<Peer>,
    peers: Mutex<HashMap<u64, Weak<Peer>>>,
    /// Numbers of queue pairs that are free, least recently used first.
    slots: Mutex<VecDeque<usize>>,
    /// Numbers of rings of completion queues that are free.
    rings: Mutex<VecDeque<usize>>,
    serving: Mutex<()>,
    /// Counts domains and address vectors.
    next: AtomicU32,
    /// Endpoints that are enabled, for the device thread.
    pub(super) endpoints: Mutex<Vec<Arc<Ep>>>,
}

static PROCESS: OnceLock<Result<Process, String>> = OnceLock::new();

impl Process {
    /// The one there is; made if there is none yet.
    ///
    /// # Errors
    /// What of the environment is wrong, or why there is no shared memory. It stays so.
    pub(crate) fn get(
        loaded_by: impl FnOnce() -> Generation,
    ) -> Result<&'static Self, &'static str> {
        let made = PROCESS.get_or_init(|| Self::new(loaded_by()));
        made.as_ref().map_err(String::as_str)
    }

    /// The one there is, if it was made.
    pub(crate) fn existing() -> Option<&'static Self> {
        PROCESS.get()?.as_ref().ok()
    }

    fn new(loaded_by: Generation) -> Result<Self, String> {
        let config = Config::from_environment()?;
        let dir = config.dir.display().to_string();
        let shared = mapping::random()
            .and_then(|random| presence::enter(&config.dir, random))
            .and_then(|user| mapping::create(&config.dir, user).map(|made| (user, made)));
        let (user, (id, path, segment)) =
            shared.map_err(|error| format!("cannot share memory in {dir}: {error}"))?;
        if config.direct_copies {
            let_peers_in();
        }
        let specs = config.shape.nics();
        let stats = Stats::create(
            config.stats.as_deref(),
            &config.process,
            config.seed,
            (specs.len(), config.plan.written().count()),
        )
        .map_err(|error| format!("EFA_EMU_STATS: {error}"))?;
        let plans = (config.plan).nics(config.seed, &config.process, specs.len());
        let nic = |(index, (spec, mut plan)): (usize, (&crate::shape::NicSpec, NicPlan))| {
            if config.stats.is_some() {
                plan.keep_digest();
            }
            Nic::new(index, spec.clone(), plan)
        };
        Ok(Self {
            generation: config
                .generation
                .unwrap_or_else(|| loaded_by.max(Generation::OLDEST_IN_USE)),
            nics: specs.iter().zip(plans).enumerate().map(nic).collect(),
            keys: Keys::new(id),
            // Number 0 names a NIC only.
            slots: Mutex::new((1..ENDPOINTS).collect()),
            // And here none.
            rings: Mutex::new((1..QUEUES).collect()),
            own: Arc::new(Peer::own()),
            peers: Mutex::default(),
            serving: Mutex::default(),
            pid: std::process::id(),
            user,
            started: Instant::now(),
            next: AtomicU32::new(1),
            endpoints: Mutex::default(),
            config,
            id,
            path,
            segment,
            stats,
        })
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) const fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// How it signs what it uses of others' segments.
    pub(crate) const fn user(&self) -> u32 {
        self.user
    }

    pub(crate) fn nics(&self) -> &[Nic] {
        &self.nics
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Nanoseconds since the process began with EFA.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A number that no other domain or vector of this process has.
    pub(crate) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of a queue pair that rested longest.
    pub(crate) fn take_slot(&self) -> Option<usize> {
        locked(&self.slots).pop_front()
    }

    pub(crate) fn return_slot(&self, slot: usize) {
        locked(&self.slots).push_back(slot);
    }

    /// The number of a ring that rested longest.
    pub(super) fn take_ring(&self) -> Option<usize> {
        locked(&self.rings).pop_front()
    }

    pub(super) fn return_ring(&self, ring: usize) {
        locked(&self.rings).push_back(ring);
    }

    /// The address of a NIC, or of an endpoint on it.
    pub(crate) fn address(&self, nic: &Nic, qpn: usize, qkey: u32) -> Address {
        Address {
            segment: self.id,
            nic: nic.number(),
            qpn: u16::try_from(qpn).unwrap_or(0),
            qkey,
        }
    }

    /// The process of an address. `None` if there is no such process (any more).
    pub(crate) fn peer(&self, segment: u64) -> Option<Arc<Peer>> {
        if segment == self.id {
            return Some(Arc::clone(&self.own));
        }
        let mut peers = locked(&self.peers);
        if let Some(peer) = peers.get(&segment).and_then(Weak::upgrade) {
            return Some(peer);
        }
        peers.retain(|_, peer| peer.strong_count() > 0);
        let mapping = mapping::open(&self.config.dir, segment)?;
        let peer = Arc::new(Peer::other(mapping, self.config.direct_copies));
        peers.insert(segment, Arc::downgrade(&peer));
        Some(peer)
    }

    /// Counts what peers wrote and read by its NICs.
    pub(crate) fn count_traffic(&self) {
        self.nics.iter().for_each(|nic| nic.count_traffic(self));
    }

    /// Helps peers that may not copy by themselves, in a call of the program's.
    pub(crate) fn serve(&self) {
        serve::look(&self.segment);
        self.serve_some();
    }

    /// The same, without a claim that somebody looks. Whether there was anything to do.
    pub(super) fn serve_some(&self) -> bool {
        let _only_one = match self.serving.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let served = breakage::caught(|| serve::serve(&self.segment, self.user));
        served.unwrap_or_else(|| {
            static TOLD: OnceLock<()> = OnceLock::new();
            TOLD.get_or_init(|| {
                breakage::tell("copies for peers", "a peer's operation may not end");
            });
            false
        })
    }

    /// The plan says that the process dies now, as by SIGKILL.
    pub(super) fn die(&self) -> ! {
        self.count_traffic();
        // Whether it could be written down makes no difference any more.
        drop(self.stats.mark_killed());
        // SAFETY: raise(3): no memory is involved.
        unsafe { libc::raise(libc::SIGKILL) };
        // Not reached: the signal cannot be held off.
        std::process::abort()
    }

    /// Removes the segment's file; those who mapped it keep it. A child of fork(2) removes nothing.
    pub(crate) fn remove_file(&self) {
        if self.pid == std::process::id() {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Where Yama (ptrace_scope 1) lets no process into another one's memory but its parent's, the process says
/// itself who may: whoever may by the other rules of ptrace(2), which are those of its user.
fn let_peers_in() {
    // SAFETY: prctl(2): a number. Without Yama it is refused, and nothing is needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}
