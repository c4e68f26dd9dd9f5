//! What a plan answers.

use super::code::Code;

/// What becomes of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostVerdict {
    /// It is taken, and goes like this.
    Accept(Schedule),
    /// EAGAIN: the caller tries again.
    Again,
    /// The call fails.
    Fail {
        /// Positive.
        errno: i32,
    },
    /// The process kills itself now, within the call.
    Kill,
}

/// How an operation goes that was taken. All zero: at once, in order, well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// So many later posts of the same endpoint may overtake it.
    pub hold: u32,
    /// For so many nanoseconds it waits for them; without, only those overtake it that are posted
    /// before it would have gone.
    pub hold_ns: u64,
    /// It is not executed before so many nanoseconds after its post.
    pub delay_ns: u64,
    /// So many times the receiver is not ready; `u32::MAX`: never. For sends only.
    pub rnr: u32,
    /// The completion of the one who posted shows so many nanoseconds after the execution.
    pub late_ns: u64,
    /// The completion at the target, if there is one, shows so many nanoseconds after the bytes.
    pub late_remote_ns: u64,
    /// What goes wrong.
    pub fault: OpFault,
}

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpFault {
    /// Nothing.
    #[default]
    None,
    /// It completes with an error.
    Error {
        /// The pair in the error entry.
        code: Code,
        /// Its bytes arrive all the same, with the completion at the target.
        executed: bool,
    },
    /// It completes twice for the one who posted it.
    DuplicateLocal,
    /// It completes twice at the target.
    DuplicateRemote,
    /// It neither arrives nor completes.
    Lost,
}

/// What a read of a completion queue finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollVerdict {
    /// What is there.
    Go,
    /// Nothing; the entries stay.
    Empty,
    /// Nothing, and no progress is made either: as if the application did not call.
    Stalled,
}

/// A region that is to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Bytes.
    pub len: u64,
    /// Pages that it touches.
    pub pages: u64,
}

/// What is registered on a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Regions.
    pub count: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Pages that they touch, counted for each region.
    pub pages: u64,
}

/// What becomes of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegVerdict {
    /// It is made.
    Accept {
        /// After so many uses by peers the key is bad; 0: from the start. `None`: it stays good.
        revoke_after: Option<u32>,
    },
    /// The call fails.
    Fail {
        /// Positive.
        errno: i32,
    },
}
