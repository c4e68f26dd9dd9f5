//! The one transport of the process: made by init, used by calls, taken down by fini.
//!
//! All tables of a plugin share it. The states:
//!
//! ```text
//!            init ok                    fini ok
//!   Never ------------> Initialised --------------> Finalised
//!                          ^                            |
//!                          +----------- init -----------+
//! ```
//!
//! A call holds a read lock for its length, so that fini waits for calls on other threads instead of
//! pulling the transport from under them. The lock is striped: threads do not share its cache line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::Instant;

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;

use ofi_net::config::Config;
use ofi_net::error::{Code, NetError};
use ofi_net::log::{Log, NoLog, Subsys, info};
use ofi_net::params::{self, Flavour, Id};
use ofi_net::{Protocol, Transport};

use crate::abi::{self, LogFn};
use crate::logger::CLogger;
use crate::profiler::{Events, ProfilerFn};
use crate::translate::Fail;
use crate::{env, guard, topo_file};

/// What init was given of its caller.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    logger: CLogger,
    profiler: Option<ProfilerFn>,
    protocol: Option<Protocol>,
}

impl Caller {
    /// Wraps the caller's functions.
    ///
    /// # Safety
    /// `logger`, if not NULL, must be callable like printf(3), and `profiler`, if not NULL, as
    /// [`ProfilerFn`] with the parents that requests are given, both from any thread until the plugin
    /// is finalised.
    #[must_use]
    pub const unsafe fn new(logger: Option<LogFn>, profiler: Option<ProfilerFn>) -> Self {
        // SAFETY: the caller's contract.
        let logger = unsafe { CLogger::new(logger) };
        Self {
            logger,
            profiler,
            protocol: None,
        }
    }

    /// The protocol that the caller's table stands for, where the user asks for none.
    #[must_use]
    pub const fn speaking(self, protocol: Protocol) -> Self {
        Self {
            protocol: Some(protocol),
            ..self
        }
    }
}

/// What a call works with.
pub(crate) struct Instance {
    pub(crate) transport: Transport,
    pub(crate) flavour: Flavour,
    /// Where the starts and ends of requests are told; `None` unless init was given a callback.
    pub(crate) events: Option<Events>,
    log: Arc<dyn Log>,
}

const STRIPES: usize = 16;

/// 128 bytes: two cache lines, since the prefetcher takes lines in pairs.
#[repr(align(128))]
struct Stripe(RwLock<Option<Arc<Instance>>>);

static CURRENT: [Stripe; STRIPES] = [const { Stripe(RwLock::new(None)) }; STRIPES];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Never,
    Initialised,
    Finalised,
}

/// Taken by init and fini, in this order before any stripe.
static LIFE: Mutex<Life> = Mutex::new(Life::Never);

/// The logger of the current instance, and during init that of the coming one.
static LOG: RwLock<Option<CLogger>> = RwLock::new(None);

/// Set by each init, and in force until the next: also for calls after fini (protocol 2a.1).
static ABORT_ON_ERROR: AtomicBool = AtomicBool::new(false);

/// The process that initialised; 0 before. A fork inherits locks that nobody will release, so this is
/// looked at before any of them (decision 22).
static OWNER: AtomicU32 = AtomicU32::new(0);

/// fini waits for the calls that run; new ones are answered as after it. Without this, threads that
/// poll would take their stripes again faster than fini gets them.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// How long fini waits for calls on other threads.
const FINI_WAIT: Duration = Duration::from_secs(10);

/// Reads the parameters and opens the devices.
///
/// # Errors
/// [`Code::AlreadyInitialised`]; [`Code::Forked`]; whatever the configuration or the devices say.
pub(crate) fn init(flavour: Flavour, caller: Caller) -> Result<(), Fail> {
    refuse_change("init")?;
    let Caller {
        logger,
        profiler,
        protocol,
    } = caller;
    let mut life = lock(&LIFE);
    if *life == Life::Initialised {
        let what = "init while initialised";
        return Err(NetError::new(Code::AlreadyInitialised, what).into());
    }
    guard::install_hook();
    set_log(Some(logger));
    let mut config = configure(flavour, &logger)?;
    config.protocol = config.protocol.or(protocol);
    if let Some(dump) = &mut config.dump {
        (dump.rank, dump.world) = env::rank();
    }
    let log: Arc<dyn Log> = Arc::new(logger);
    let transport = Transport::init(config, Arc::clone(&log))?;
    if let Some(text) = transport.nccl_topology() {
        topo_file::publish(text, &*log);
    }
    // SAFETY: the contract of `Caller::new`.
    let events = profiler.map(|callback| unsafe { Events::new(callback) });
    publish(&Arc::new(Instance {
        transport,
        flavour,
        events,
        log,
    }));
    OWNER.store(std::process::id(), Ordering::Release);
    *life = Life::Initialised;
    Ok(())
}

fn configure(flavour: Flavour, log: &dyn Log) -> Result<Config, NetError> {
    let (values, mut notes) = params::parse(flavour, env::pairs());
    // First, so that it holds for what is wrong with the other parameters too.
    ABORT_ON_ERROR.store(values.flag(Id::AbortOnError), Ordering::Relaxed);
    let config = Config::from_values(&values, &mut notes);
    for note in notes {
        note.tell(log);
    }
    let version = env!("CARGO_PKG_VERSION");
    info(log, Subsys::Init, || format!("ofi-collectives {version}"));
    config
}

/// Takes the transport down. Bounded.
///
/// # Errors
/// Not initialised; [`Code::Forked`]; calls that are still running after ten seconds.
pub(crate) fn fini() -> Result<(), Fail> {
    refuse_change("fini")?;
    let mut life = lock(&LIFE);
    if *life != Life::Initialised {
        let what = "fini without a successful init before it";
        return Err(Fail::fixed(abi::SYSTEM_ERROR, Code::NotInitialised, what));
    }
    LEAVING.store(true, Ordering::Release);
    let retracted = retract();
    if retracted.is_ok() {
        *life = Life::Finalised;
    }
    LEAVING.store(false, Ordering::Release);
    let retracted = retracted?;
    if let Some(events) = retracted.as_ref().and_then(|past| past.events.as_ref()) {
        events.stop_all();
    }
    drop(retracted);
    guard::tell_the_rest(&*log());
    set_log(None);
    OWNER.store(0, Ordering::Release);
    Ok(())
}

/// Runs a call against the transport.
///
/// # Errors
/// Not initialised (result 4); those of the call.
pub(crate) fn with<R>(call: impl FnOnce(&Instance) -> Result<R, Fail>) -> Result<R, Fail> {
    if LEAVING.load(Ordering::Acquire) {
        return Err(not_initialised());
    }
    let stripe = &CURRENT[my_stripe()].0;
    let current = stripe.read().unwrap_or_else(PoisonError::into_inner);
    match current.as_deref() {
        Some(instance) => call(instance),
        None => Err(not_initialised()),
    }
}

#[cold]
fn not_initialised() -> Fail {
    NetError::new(Code::NotInitialised, "no successful init before this call").into()
}

/// Whether fini has run since the last init, or is waiting to: a close then is answered quietly (protocol 2a.1).
pub(crate) fn is_finalised() -> bool {
    // A fork never gets here with the lock held by another thread: `with` found no instance, and
    // while there is one, nobody holds LIFE for long.
    LEAVING.load(Ordering::Acquire) || LIFE.try_lock().is_ok_and(|life| *life == Life::Finalised)
}

/// Whether every failing call aborts the process.
pub(crate) fn abort_on_error() -> bool {
    ABORT_ON_ERROR.load(Ordering::Relaxed)
}

/// Where errors are written now.
pub(crate) fn log() -> Box<dyn Log> {
    match *LOG.read().unwrap_or_else(PoisonError::into_inner) {
        Some(logger) => Box::new(logger),
        None => Box::new(NoLog),
    }
}

/// Whether this process may take the transport down at exit.
pub(crate) fn is_owner() -> bool {
    OWNER.load(Ordering::Acquire) == std::process::id()
}

fn set_log(logger: Option<CLogger>) {
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = logger;
}

/// What init and fini look at before they wait for anything: a fork inherits locks that nobody will
/// release, and a logger must not end what is writing to it.
pub(crate) fn refuse_change(call: &'static str) -> Result<(), Fail> {
    refuse_fork()?;
    refuse_nested(call)
}

fn refuse_fork() -> Result<(), NetError> {
    match OWNER.load(Ordering::Acquire) {
        0 => Ok(()),
        owner if owner == std::process::id() => Ok(()),
        owner => {
            let what = format!(
                "process {owner} initialised, process {} calls",
                std::process::id()
            );
            Err(NetError::new(Code::Forked, what))
        }
    }
}

/// The caller's logger may call us, but not to begin or end what is writing to it.
fn refuse_nested(call: &'static str) -> Result<(), Fail> {
    if guard::is_nested() {
        let what = format!("{call} from inside another call, by the logger");
        // Not written to the logger now: it would call again.
        guard::refused(call);
        return Err(Fail::fixed(abi::SYSTEM_ERROR, Code::Nested, what).quiet());
    }
    Ok(())
}

fn publish(instance: &Arc<Instance>) {
    for stripe in &CURRENT {
        *stripe.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(instance));
    }
}

/// Takes the instance out of every stripe, waiting for calls that run; all or nothing.
fn retract() -> Result<Option<Arc<Instance>>, NetError> {
    let deadline = Instant::now() + FINI_WAIT;
    let mut last = None;
    for stripe in &CURRENT {
        match take_by(stripe, deadline) {
            Some(instance) => last = instance.or(last),
            None => {
                if let Some(instance) = &last {
                    publish_missing(instance);
                }
                let what = format!(
                    "fini: calls are still running after {} s",
                    FINI_WAIT.as_secs()
                );
                return Err(NetError::new(Code::Internal, what));
            }
        }
    }
    Ok(last)
}

fn take_by(stripe: &Stripe, deadline: Instant) -> Option<Option<Arc<Instance>>> {
    loop {
        match stripe.0.try_write() {
            Ok(mut current) => return Some(current.take()),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner().take()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// Fills the stripes that are empty; never waits for one that is in use, since such a one is not.
fn publish_missing(instance: &Arc<Instance>) {
    for stripe in &CURRENT {
        if let Ok(mut current) = stripe.0.try_write() {
            let _ = current.get_or_insert_with(|| Arc::clone(instance));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's stripe: threads are dealt out in turn.
fn my_stripe() -> usize {
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

impl core::fmt::Debug for Instance {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Instance")
            .field("flavour", &self.flavour)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}
