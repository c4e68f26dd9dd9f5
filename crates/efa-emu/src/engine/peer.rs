//! Another process, or this one, as operations reach it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io;

use super::process::Process;
use crate::alive::Incarnation;
use crate::mem::copy::{Direction, Piece, Side, transfer};
use crate::mem::layout::{Segment, nic_flags};
use crate::mem::mapping::{self, Mapping};
use crate::mem::relay;

/// A life sign is believed so long, in nanoseconds.
const LIFE_SIGN_NS: u64 = 5_000_000;

/// A process that operations reach.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `None`: this process.
    mapping: Option<Mapping>,
    owner: Incarnation,
    is_dead: AtomicBool,
    checked_at: AtomicU64,
    /// The system refused a direct copy.
    refuses: AtomicBool,
}

/// What came of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Done,
    /// The owner has to help: later.
    Wait,
    /// There is no such memory, or it is not ours to use any more.
    Refused,
    /// The process is gone.
    Dead,
}

impl Peer {
    pub(crate) fn own() -> Self {
        Self::new(None, Incarnation::own(), true)
    }

    pub(crate) fn other(mapping: Mapping, direct_copies: bool) -> Self {
        let owner = mapping::owner(&mapping);
        Self::new(Some(mapping), owner, direct_copies)
    }

    fn new(mapping: Option<Mapping>, owner: Incarnation, direct_copies: bool) -> Self {
        Self {
            mapping,
            owner,
            is_dead: AtomicBool::new(false),
            checked_at: AtomicU64::new(0),
            refuses: AtomicBool::new(!direct_copies),
        }
    }

    pub(crate) fn segment<'a>(&'a self, process: &'a Process) -> &'a Segment {
        self.mapping.as_deref().unwrap_or_else(|| process.segment())
    }

    /// Whether it is known to be gone; looks every few milliseconds.
    pub(crate) fn is_dead(&self, now_ns: u64) -> bool {
        if self.mapping.is_none() {
            return false;
        }
        if self.is_dead.load(Ordering::Relaxed) {
            return true;
        }
        let checked = self.checked_at.load(Ordering::Relaxed);
        if now_ns.saturating_sub(checked) < LIFE_SIGN_NS {
            return false;
        }
        self.checked_at.store(now_ns, Ordering::Relaxed);
        self.look()
    }

    fn look(&self) -> bool {
        let dead = self.mapping.is_some() && !self.owner.is_alive();
        self.is_dead.store(dead, Ordering::Relaxed);
        dead
    }

    /// Whether a NIC of it answers nobody.
    pub(crate) fn is_silent(&self, process: &Process, nic: u16) -> bool {
        let flags = self.segment(process).nics.get(usize::from(nic));
        flags.is_some_and(|flags| flags.load(Ordering::Relaxed) & nic_flags::SILENT != 0)
    }

    /// Moves bytes of a checked operation, as far as it goes now.
    ///
    /// # Safety
    /// As [`relay::step`]; if this is the own process, the remote pieces too are memory that may be
    /// used now.
    pub(crate) unsafe fn copy(
        &self,
        process: &Process,
        under: &mut relay::Under,
        copy: &relay::Copy<'_>,
    ) -> Copied {
        if !self.refuses.load(Ordering::Relaxed) {
            let pieces = (copy.local, copy.remote);
            // SAFETY: the caller's promise.
            let moved = unsafe { self.direct(copy.direction, pieces, copy.len) };
            match moved.map_err(|error| error.raw_os_error()) {
                Ok(()) => return Copied::Done,
                Err(Some(libc::ESRCH)) => {
                    self.is_dead.store(true, Ordering::Relaxed);
                    return Copied::Dead;
                }
                Err(Some(libc::EPERM | libc::ENOSYS)) => {
                    self.refuses.store(true, Ordering::Relaxed);
                }
                Err(_) if self.look() => return Copied::Dead,
                Err(_) => return Copied::Refused,
            }
        }
        let segment = self.segment(process);
        // SAFETY: the caller's promise.
        match unsafe { relay::step(segment, process.pid(), under, copy) } {
            relay::Step::Done => Copied::Done,
            relay::Step::Wait => Copied::Wait,
            relay::Step::Refused => Copied::Refused,
        }
    }

    /// # Safety
    /// As [`Self::copy`].
    unsafe fn direct(
        &self,
        direction: Direction,
        pieces: (&[Piece], &[Piece]),
        len: u64,
    ) -> io::Result<()> {
        let side = match self.mapping {
            None => Side::Own,
            Some(_) => Side::Process(self.owner.pid),
        };
        // SAFETY: the caller's promise.
        unsafe { transfer(side, direction, pieces, len) }
    }
}
