//! Ends the process when a call into libfabric does not come back: no deadline inside it can.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::cause::{Failure, Place, Stage, ranked};
use crate::abi::process;
use crate::report::out;

/// Every step has deadlines of its own; a step that takes so many of them hangs in a call.
const DEADLINES: u32 = 6;
const TICK: Duration = Duration::from_millis(200);

/// What is going on, and since when; nothing while people are waited for.
type Doing = Option<(Stage, String, Instant)>;

/// A thread that looks on.
#[derive(Debug)]
pub(super) struct Watch(Arc<Mutex<Doing>>);

impl Watch {
    pub(super) fn start(deadline: Duration) -> Self {
        let doing: Arc<Mutex<Doing>> = Arc::default();
        let seen = Arc::clone(&doing);
        let thread = std::thread::Builder::new().name("watch".to_owned());
        // Without it everything works but for a provider that hangs.
        drop(thread.spawn(move || look_on(&seen, deadline * DEADLINES + Duration::from_secs(20))));
        Self(doing)
    }

    pub(super) fn at(&self, stage: Stage, what: &str) {
        self.set(Some((stage, what.to_owned(), Instant::now())));
    }

    pub(super) fn idle(&self) {
        self.set(None);
    }

    pub(super) fn end(&self) {
        self.set(None);
    }

    fn set(&self, doing: Doing) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }
}

fn look_on(doing: &Mutex<Doing>, bound: Duration) {
    loop {
        std::thread::sleep(TICK);
        let now = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((stage, what, since)) = now.filter(|(.., since)| since.elapsed() > bound) {
            let seconds = since.elapsed().as_secs();
            out::error_line(&format!(
                "ofi pair: failed ({stage}): {what} has not come back for {seconds} s"
            ));
            for cause in ranked(&Failure::new(stage, what), &Place::default()) {
                out::error_line(&format!("  likely: {cause}"));
            }
            process::exit_now(1);
        }
    }
}
