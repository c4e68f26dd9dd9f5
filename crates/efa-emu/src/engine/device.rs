//! The thread that makes progress when nobody calls: a device works on while its owner computes.
//!
//! Calls make most of the progress, at once; the thread is for what they leave, so it looks every
//! few milliseconds only, and at once where peers need its help to copy (futex(2)). It ends with the last
//! endpoint.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::endpoint::Ep;
use super::locked;
use super::process::Process;
use crate::mem::{relay, wake};

/// Between two looks ..
const TICK: Duration = Duration::from_millis(2);
/// .. while it is the thread that takes copies through shared memory further ..
const NAP: Duration = Duration::from_micros(50);
/// .. and how long it stays awake for a peer's next one, others' work first.
const LINGER: Duration = Duration::from_micros(50);

/// How long the end of the thread is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The thread, and how it is told to end.
static THREAD: Mutex<Option<(JoinHandle<()>, Arc<AtomicBool>)>> = Mutex::new(None);

/// Makes the thread look after an endpoint.
pub(super) fn watch(process: &'static Process, endpoint: &Arc<Ep>) {
    let mut endpoints = locked(&process.endpoints);
    endpoints.push(Arc::clone(endpoint));
    if !process.config().device_thread {
        return;
    }
    let mut thread = locked(&THREAD);
    if thread.is_none() {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        // Without it, calls still make progress.
        let started = thread::Builder::new()
            .name("efa-emu".to_owned())
            .spawn(move || run(process, &told));
        *thread = started.ok().map(|handle| (handle, stop));
    }
}

/// The reverse; the last one takes the thread along.
pub(super) fn forget(process: &Process, endpoint: &Ep) {
    let mut endpoints = locked(&process.endpoints);
    endpoints.retain(|e| !core::ptr::eq(Arc::as_ptr(e), endpoint));
    let is_last = endpoints.is_empty();
    drop(endpoints);
    if is_last {
        stop();
    }
}

/// Ends the thread, and waits until it is gone, but not for long: a thread that starts needs the lock of
/// the dynamic loader, which whoever calls may hold (a library that closes its endpoints as it is
/// unloaded).
pub(crate) fn stop() {
    let Some((thread, stop)) = locked(&THREAD).take() else {
        return;
    };
    stop.store(true, Ordering::Relaxed);
    if let Some(process) = Process::existing() {
        wake::rouse(process.segment());
    }
    let since = Instant::now();
    while !thread.is_finished() {
        if since.elapsed() > PATIENCE {
            // It ends by itself: its code is never unloaded, and it holds nothing.
            return;
        }
        thread::yield_now();
    }
    drop(thread.join());
}

fn run(process: &'static Process, stop: &AtomicBool) {
    let mut due = Instant::now();
    let mut linger = due;
    while !stop.load(Ordering::Relaxed) {
        let mut now = Instant::now();
        if now >= due {
            let moves = tick(process);
            now = Instant::now();
            due = now + if moves { NAP } else { TICK };
        }
        if process.serve_some() {
            linger = Instant::now() + LINGER;
        } else if now >= linger {
            wake::sleep(process.segment(), due - now);
        } else if !wake::is_wanted_soon(process.segment()) {
            thread::yield_now();
        }
    }
}

/// Looks after all endpoints. Whether copies went on that way, so that there is more to come soon.
fn tick(process: &Process) -> bool {
    let before = relay::steps_of_this_thread();
    let endpoints: Vec<Arc<Ep>> = locked(&process.endpoints).clone();
    for endpoint in endpoints {
        endpoint.progress();
        if let Some(bound) = endpoint.bound() {
            bound.rx.relieve();
        }
    }
    process.count_traffic();
    relay::steps_of_this_thread() != before
}
