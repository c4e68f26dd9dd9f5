//! What is written down of a transport's domains, and where it goes.

use super::{Trace, TraceFile};
use crate::config::Config;
use crate::log::{self, Log, Subsys};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// From when the times of records count: the same for all domains of a transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_unix_ns: u64,
}

impl Clock {
    /// From now on.
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            started: Instant::now(),
            started_unix_ns: since.map_or(0, |s| u64::try_from(s.as_nanos()).unwrap_or(0)),
        }
    }

    /// Nanoseconds since then.
    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// When that was, nanoseconds since 1970.
    pub(super) const fn started_unix_ns(&self) -> u64 {
        self.started_unix_ns
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Tracing {
    pub(super) clock: Clock,
    /// The file, where there is one.
    pub(super) file: Option<Arc<TraceFile>>,
    /// Records that each domain keeps for dumps; 0: none.
    pub(super) ring: usize,
}

impl Tracing {
    /// As `config` wants it. A file that cannot be made is a warning: a job is not lost for want of a trace.
    pub(crate) fn open(config: &Config, log: &Arc<dyn Log>) -> Self {
        let clock = Clock::start();
        let file = config.trace.as_ref().and_then(|wanted| {
            let opened = TraceFile::create(wanted, &config.fs_root, clock, Arc::clone(log));
            opened
                .map_err(|error| log::warn(&**log, Subsys::Init, || error))
                .ok()
        });
        // Nobody could see it without dumps.
        let ring = config.dump.as_ref().map_or(0, |_| config.trace_ring);
        Self { clock, file, ring }
    }

    /// What a domain that is opened now writes to; `None`: nothing is to be written down.
    pub(crate) fn of_domain(&self) -> Option<Box<Trace>> {
        (self.file.is_some() || self.ring > 0).then(|| Box::new(Trace::new(self)))
    }
}
