//! Connections that could not be made. Their communicators are gone with the call that said so; a dump that did
//! not have them could not say whom they were for.

use ofi_rdma::{CommKey, CommView};
use std::collections::VecDeque;

/// How many of a domain are remembered: the last.
const LOST_MAX: usize = 16;

/// Those of a domain.
#[derive(Debug, Default)]
pub(crate) struct Lost(VecDeque<CommView>);

impl Lost {
    /// `comm`, which is one of `views`, has failed and is about to be closed.
    #[cold]
    pub(crate) fn keep(&mut self, comm: CommKey, mut views: impl Iterator<Item = CommView>) {
        let Some(view) = views.find(|view| view.comm == comm) else {
            return;
        };
        let whose = |view: &CommView| (view.peer, view.remote_id);
        self.0.retain(|known| whose(known) != whose(&view));
        if self.0.len() == LOST_MAX {
            self.0.pop_front();
        }
        self.0.push_back(CommView {
            closed: true,
            ..view
        });
    }

    /// `comm`, which is one of `views`, is connected: those to the same peer are made good.
    pub(crate) fn made(&mut self, comm: CommKey, mut views: impl Iterator<Item = CommView>) {
        if self.0.is_empty() {
            return;
        }
        if let Some(made) = views.find(|view| view.comm == comm) {
            self.0.retain(|known| known.peer != made.peer);
        }
    }

    /// For a dump.
    pub(crate) fn views(&self) -> impl Iterator<Item = CommView> + '_ {
        self.0.iter().copied()
    }
}
