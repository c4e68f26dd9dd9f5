//! Posts that the provider refuses: the engine is told with what number, the log by which call.

use super::Port;
use crate::contexts::Owner;
use crate::error::NetError;
use crate::report::Note;
use efa_fabric::FabricError;
use ofi_rdma::{Cause, Lane, Outcome};

/// What shm says, instead of EAGAIN, to a receive for which its queue has no room.
pub(super) const RECEIVES_FULL: i32 = libc::ENOMEM;

impl Port {
    /// A call that failed. A receive is posted again by a later pass, and is told as such.
    #[cold]
    pub(super) fn refused(&mut self, lane: Lane, owner: Owner, error: &FabricError) -> Outcome {
        let errno = error.errno().code();
        let text = error.to_string();
        match owner {
            Owner::Receive(..) if errno == RECEIVES_FULL => {}
            Owner::Receive(..) => self.note(Note::Receive { lane, text }),
            Owner::Post(..) | Owner::Control(..) => self.note(Note::Refused { lane, text }),
        }
        Outcome::Failed(Cause::errno(errno))
    }

    /// There is no registered memory for a control message.
    #[cold]
    pub(super) fn no_slot(&mut self, lane: Lane, error: &NetError) -> Outcome {
        // Causes and cure are those of the line that it becomes a part of.
        let text = error.titled();
        self.note(Note::Refused { lane, text });
        Outcome::Failed(Cause::errno(-error.errno()))
    }
}
