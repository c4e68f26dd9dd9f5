//! The boundary that every C entry goes through: no panic leaves it, an error is logged once and
//! becomes a result code.

use core::any::Any;
use core::cell::Cell;
use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::{Mutex, Once, PoisonError};

use ofi_net::error::{Code, NetError};
use ofi_net::log::{Log, PerCode, Repeats, Subsys, warn};

use crate::abi;
use crate::instance;
use crate::translate::Fail;

/// Runs one entry point: its result code.
///
/// An error is written to the caller's logger unless it was written when it happened; the same kind
/// of error a thousand times is some ten lines. With `OFI_NCCL_ABORT_ON_ERROR=1` it aborts the
/// process, but for a close after fini (protocol 2a.1).
pub fn guard(call: &'static str, body: impl FnOnce() -> Result<(), Fail>) -> c_int {
    // Until the error is written as well: the logger may call us.
    let _inside = Inside::enter();
    // A panic may leave the transport's own state half-changed: its locks are poisoned by it, and it
    // refuses further work. Nothing else is shared with the body.
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "panic-probe")]
        probe::panic_if_armed();
        body()
    }));
    let result = match result {
        Ok(Ok(())) => abi::SUCCESS,
        Ok(Err(fail)) => failed(call, &fail),
        Err(payload) => panicked(call, payload),
    };
    if !is_nested() {
        tell_refused(call);
    }
    result
}

/// Of what the logger was refused while `call` ran: one warning, now that nothing is being written. What the
/// logger is refused while this one is written is not told of again.
fn tell_refused(call: &'static str) {
    if let Some(refused) = REFUSED.with(Cell::get) {
        let what = format!("called by the logger, from inside {call}");
        report(refused, &NetError::new(Code::Nested, what));
        REFUSED.with(|last| last.set(None));
    }
}

/// Panics on demand, for the test that every entry point is behind [`guard`].
#[cfg(feature = "panic-probe")]
pub mod probe {
    use core::sync::atomic::{AtomicBool, Ordering};

    static ARMED: AtomicBool = AtomicBool::new(false);

    /// From now on every entry point panics, or none.
    pub fn arm(armed: bool) {
        ARMED.store(armed, Ordering::Relaxed);
    }

    #[expect(clippy::panic, reason = "this is what it is for")]
    pub(super) fn panic_if_armed() {
        if ARMED.load(Ordering::Relaxed) {
            panic!("the probe");
        }
    }
}

#[cold]
fn failed(call: &'static str, fail: &Fail) -> c_int {
    if fail.quiet {
        return fail.result;
    }
    if !fail.error.is_reported() {
        report(call, &fail.error);
    }
    if instance::abort_on_error() {
        warn(&*instance::log(), Subsys::Net, || {
            NetError::new(Code::Aborting, call)
        });
        std::process::abort();
    }
    fail.result
}

#[cold]
fn panicked(call: &'static str, payload: Box<dyn Any + Send>) -> c_int {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Dropping the payload could panic as well; it is small, and this happens once or never.
    let payload = ManuallyDrop::new(payload);
    let what = format!("panic at {place}: {}", message_of(&**payload));
    failed(call, &Fail::from(NetError::new(Code::Panicked, what)))
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// What was written of each kind.
static SAID: PerCode = PerCode::new();

/// What was counted and not written, in a line of each kind: for the end.
pub(crate) fn tell_the_rest(log: &dyn Log) {
    SAID.close(log, "calls");
}

/// Calls inside calls that still write to the logger: one that calls us with something wrong would
/// otherwise never come back.
const NESTED_MAX: u32 = 4;

fn report(call: &'static str, error: &NetError) {
    if DEPTH.with(Cell::get) >= NESTED_MAX {
        return;
    }
    let Some(n) = SAID.permit(error.code()) else {
        return;
    };
    let counted = if n > Repeats::PLAIN { n } else { 1 };
    warn(&*instance::log(), Subsys::Net, || {
        error.clone().context(call).counted(counted)
    });
}

thread_local! {
    // Const and without a destructor: nothing to run at thread exit, so that the library can be
    // unloaded while threads that called it live on.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What the logger called last and must not, while the outermost call runs.
    static REFUSED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A call was refused because it came from the logger: told of when the outermost call ends, for the logger
/// would call again if it were written now.
pub(crate) fn refused(call: &'static str) {
    REFUSED.with(|last| last.set(Some(call)));
}

/// Whether the entry point that runs was called by another one, through the caller's logger.
pub(crate) fn is_nested() -> bool {
    DEPTH.with(Cell::get) > 1
}

struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get().saturating_add(1)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Where the last panic was, for its log line.
static PLACE: Mutex<String> = Mutex::new(String::new());

/// Keeps panics inside an entry point off stderr: they go to the caller's logger. Panics elsewhere
/// (a Rust program that links this crate) are shown as before.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if DEPTH.with(Cell::get) == 0 {
                return previous(info);
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::{Code, Fail, NetError, guard, install_hook};

    #[test]
    fn a_panic_becomes_an_internal_error() {
        install_hook();
        assert_eq!(guard("test", || panic!("text {}", 1)), 3);
        assert_eq!(guard("test", || std::panic::panic_any(17_u8)), 3);
        assert_eq!(guard("test", || Ok(())), 0);
    }

    #[test]
    fn an_error_becomes_its_result() {
        let fail = || Fail::from(NetError::new(Code::Operation, "x").with_errno(107));
        assert_eq!(guard("test", || Err(fail())), 6);
        assert_eq!(guard("test", || Err(fail().with_result(2))), 2);
    }
}
