//! Whom communicators are connecting to: "not connected" without an address says half of it.

use crate::report::Note;
use ofi_rdma::{CommKey, Event};
use std::collections::HashMap;

/// Addresses of connections being made.
#[derive(Debug)]
pub(crate) struct Dialled {
    /// `fi_info.addr_format` of the endpoints.
    format: u32,
    to: HashMap<CommKey, Box<str>>,
}

impl Dialled {
    /// None yet, of endpoints whose addresses have this format.
    pub(crate) fn new(format: u32) -> Self {
        Self {
            format,
            to: HashMap::new(),
        }
    }

    /// A communicator connects to the endpoint called `name`.
    pub(crate) fn begin(&mut self, comm: CommKey, name: &[u8]) {
        let shown = ofi_trace::show_address(self.format, name);
        self.to.insert(comm, shown.into());
    }

    /// It is closed.
    pub(crate) fn forget(&mut self, comm: CommKey) {
        self.to.remove(&comm);
    }

    /// An event for the log; a failure with the address, if the communicator was still connecting.
    pub(crate) fn note(&mut self, event: Event) -> Note {
        match event {
            Event::Connected { comm, .. } => self.forget(comm),
            Event::Failed(comm, _) => {
                if let Some(to) = self.to.remove(&comm) {
                    return Note::Unconnected { event, to };
                }
            }
            _ => {}
        }
        Note::Event(event)
    }
}
