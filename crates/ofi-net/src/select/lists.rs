//! Answers of `fi_getinfo(3)`, asked for once a process: they do not change while it runs, and NCCL starts
//! a plugin several times.

use std::sync::{Mutex, MutexGuard, PoisonError};

use efa_fabric::{Caps, FabricError, Info, InfoBuf, InfoList, Library, MrMode};

use super::ask::Ask;
use super::candidate::Candidate;
use super::filter::EFA;
use super::{Found, QueryFailed, Source};
use crate::startup::{Phase, Startup};

/// What was asked and what came; nothing is "no data". libfabric is loaded once a process, so that there
/// is one that answers.
static LISTS: Mutex<Vec<(Ask, Vec<InfoBuf>)>> = Mutex::new(Vec::new());

fn lists() -> MutexGuard<'static, Vec<(Ask, Vec<InfoBuf>)>> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all: what was found did not do, and who tries again wants to know anew.
pub(super) fn forget() {
    lists().clear();
}

/// libfabric, asked or remembered.
pub(super) struct Libfabric<'a> {
    pub(super) library: &'static Library,
    pub(super) startup: &'a mut Startup,
}

impl Libfabric<'_> {
    fn ask(&mut self, ask: &Ask) -> Result<Vec<InfoBuf>, FabricError> {
        self.startup.queries += 1;
        let query = || ask.hints().query(self.library);
        let list: InfoList = match self.startup.time(Phase::Providers, query) {
            Err(error) if error.is_no_data() => return Ok(Vec::new()),
            other => other?,
        };
        list.iter().map(Info::dup).collect()
    }
}

impl Source for Libfabric<'_> {
    type Entry = InfoBuf;

    fn had_nothing(&self, ask: &Ask, of_efa: bool) -> bool {
        let known = lists();
        let mut known = known.iter();
        let counts = |info: &InfoBuf| !of_efa || info.provider_name() == EFA;
        known.any(|(asked, list)| asked == ask && !list.iter().any(counts))
    }

    fn query(&mut self, ask: &Ask) -> Result<Vec<Found<InfoBuf>>, QueryFailed> {
        let failed = |error: FabricError| QueryFailed {
            no_data: error.is_no_data(),
            errno: error.errno().code(),
            text: error.to_string(),
        };
        let mut known = lists();
        if !known.iter().any(|(asked, _)| asked == ask) {
            let list = self.ask(ask).map_err(failed)?;
            known.push((*ask, list));
        }
        let list = known.iter().find(|(asked, _)| asked == ask);
        let list = list.map(|(_, list)| list.as_slice()).unwrap_or_default();
        if list.is_empty() {
            return Err(QueryFailed {
                no_data: true,
                errno: -libc::ENODATA,
                text: "fi_getinfo: no data".to_owned(),
            });
        }
        let found = list.iter().map(|info| {
            let entry = info.dup().map_err(failed)?;
            Ok(Found {
                candidate: Candidate::of(info),
                entry,
            })
        });
        found.collect()
    }

    fn with_modes(&self, mut found: Found<InfoBuf>, modes: MrMode) -> Found<InfoBuf> {
        found.entry.set_mr_mode(modes);
        Found {
            candidate: Candidate::of(&found.entry),
            entry: found.entry,
        }
    }

    fn with_caps(&self, mut found: Found<InfoBuf>, caps: Caps) -> Found<InfoBuf> {
        found.entry.retain_caps(caps);
        Found {
            candidate: Candidate::of(&found.entry),
            entry: found.entry,
        }
    }
}
