//! The queue of a port: with tags where the endpoint has them.

use crate::completion::CompletionError;
use crate::cq::{Cq, CqEntry, CqPoll, TaggedEntry};
use crate::domain::Domain;
use crate::endpoint::EndpointSetup;
use crate::error::FabricError;
use crate::flags::{Caps, CompletionFlags, CqBind};
use crate::info::Info;

/// Completions taken at a time.
const BATCH: usize = 16;

/// What one look found.
pub(crate) enum Found {
    /// So many completions, each given to the visitor.
    Entries(usize),
    /// A failed operation.
    Failed(CompletionError),
    /// Nothing now.
    Nothing,
}

/// Not every provider has the longer entries for endpoints without tags.
#[derive(Debug)]
pub(crate) enum Queue {
    Plain(Cq),
    Tagged(Cq<TaggedEntry>),
}

impl Queue {
    /// Opens the one that endpoints of this entry need.
    pub(crate) fn open(domain: &Domain, info: &Info) -> Result<Self, FabricError> {
        Ok(if info.caps().contains(Caps::TAGGED) {
            Self::Tagged(Cq::open_tagged(domain, 0)?)
        } else {
            Self::Plain(Cq::open(domain, 0)?)
        })
    }

    /// Directs all completions of an endpoint here.
    pub(crate) fn bind(&self, setup: &mut EndpointSetup) -> Result<(), FabricError> {
        let all = CqBind::TRANSMIT | CqBind::RECV;
        match self {
            Self::Plain(cq) => setup.bind_cq(cq, all),
            Self::Tagged(cq) => setup.bind_cq(cq, all),
        }
    }

    /// Makes progress and takes up to a batch of completions, each with the tag of a tagged message
    /// that was received.
    pub(crate) fn take(
        &self,
        mut visit: impl FnMut(&CqEntry, Option<u64>),
    ) -> Result<Found, FabricError> {
        let polled = match self {
            Self::Plain(cq) => {
                let mut entries = [CqEntry::EMPTY; BATCH];
                let polled = cq.read_batch(&mut entries)?;
                let count = taken(polled);
                entries.iter().take(count).for_each(|e| visit(e, None));
                polled
            }
            Self::Tagged(cq) => {
                let mut entries = [TaggedEntry::EMPTY; BATCH];
                let polled = cq.read_batch(&mut entries)?;
                let count = taken(polled);
                for entry in entries.iter().take(count) {
                    let flags = entry.entry().flags();
                    let received = CompletionFlags::TAGGED | CompletionFlags::RECV;
                    let tag = flags.contains(received).then(|| entry.tag());
                    visit(&entry.entry(), tag);
                }
                polled
            }
        };
        match polled {
            CqPoll::Entries(count) => Ok(Found::Entries(count)),
            CqPoll::Empty => Ok(Found::Nothing),
            CqPoll::ErrorAvailable => {
                let error = match self {
                    Self::Plain(cq) => cq.read_error()?,
                    Self::Tagged(cq) => cq.read_error()?,
                };
                Ok(error.map_or(Found::Nothing, Found::Failed))
            }
        }
    }
}

const fn taken(polled: CqPoll) -> usize {
    match polled {
        CqPoll::Entries(count) => count,
        CqPoll::Empty | CqPoll::ErrorAvailable => 0,
    }
}
