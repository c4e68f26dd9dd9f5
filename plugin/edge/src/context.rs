//! Contexts of NCCL v11 and later: each init gives one, each finalize takes one back; the first brings
//! the transport up and the last takes it down (protocol 2a.3).
//!
//! Differently from the reference, a failed init leaves nothing behind: no context, and no count that
//! would let the next one succeed without a transport.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ofi_net::error::{Code, NetError};

use crate::abi;
use crate::instance::{self, Caller};
use crate::life::Flavour;
use crate::pointer::{Out, carried, word};
use crate::translate::Fail;

/// What a context was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The library's number of its communicator.
    pub comm_id: u64,
    /// The traffic class asked for; `None`: whatever there is.
    pub traffic_class: Option<u32>,
}

/// The words of contexts begin with this: no communicator, request or memory handle does, and neither
/// does an address of a process.
const MARK: u64 = 0x2c7e << 48;

/// Held by init and finalize for their length: one at a time. The table is locked for moments only,
/// so that a logger may call.
static TURN: Mutex<()> = Mutex::new(());
static TABLE: Mutex<Table> = Mutex::new(Table {
    live: BTreeMap::new(),
    made: 0,
});

#[derive(Debug)]
struct Table {
    live: BTreeMap<u64, Settings>,
    /// How many were made; words are never used again.
    made: u64,
}

/// init of v11 and later.
///
/// # Safety
/// `context`, if not NULL, must be valid for writes; the caller's functions as [`Caller::new`] says.
///
/// # Errors
/// NULL (4); a plugin that another table initialised (2); those of the transport.
pub unsafe fn open(
    flavour: Flavour,
    settings: Settings,
    caller: Caller,
    context: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let context = unsafe { Out::new(context, abi::INVALID_ARGUMENT, "ctx") }?;
    context.set(core::ptr::null_mut());
    instance::refuse_change("init")?;
    let _turn = lock(&TURN);
    if lock(&TABLE).live.is_empty() {
        instance::init(flavour, caller)?;
    }
    check_class(settings.traffic_class);
    let mut table = lock(&TABLE);
    table.made += 1;
    let word = MARK | table.made;
    table.live.insert(word, settings);
    context.set(carried(word)?);
    Ok(())
}

/// What a context was made with.
///
/// # Errors
/// NULL, and words of no context (4).
pub fn settings(context: *mut c_void) -> Result<Settings, Fail> {
    let word = word(context).ok_or_else(|| Fail::null(abi::INVALID_ARGUMENT, "ctx"))?;
    let found = lock(&TABLE).live.get(&word).copied();
    found.ok_or_else(|| stale(word))
}

/// finalize: gives a context back; the last one takes the transport down.
///
/// # Errors
/// NULL, and words of no context (4); what the end of the transport says, in which case the context
/// stays.
pub fn close(context: *mut c_void) -> Result<(), Fail> {
    let word = word(context).ok_or_else(|| Fail::null(abi::INVALID_ARGUMENT, "ctx"))?;
    instance::refuse_change("finalize")?;
    let _turn = lock(&TURN);
    let (settings, is_last) = {
        let mut table = lock(&TABLE);
        let settings = table.live.remove(&word).ok_or_else(|| stale(word))?;
        (settings, table.live.is_empty())
    };
    if is_last {
        instance::fini().inspect_err(|_| {
            lock(&TABLE).live.insert(word, settings);
        })?;
    }
    Ok(())
}

/// A number that is no class is told at once, and not only when something is sent.
fn check_class(number: Option<u32>) {
    // Not initialised: the call that comes next says so.
    drop(instance::with(|instance| {
        let _class = instance.transport.traffic_class(number);
        Ok(())
    }));
}

#[cold]
fn stale(word: u64) -> Fail {
    let what = format!("context {word:#x}");
    Fail::from(NetError::new(Code::StaleContext, what)).with_result(abi::INVALID_ARGUMENT)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
