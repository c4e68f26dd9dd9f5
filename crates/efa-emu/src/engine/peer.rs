//! Another process, or this one, as operations reach it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::sync::Once;

use super::process::Process;
use crate::alive::Incarnation;
use crate::mem::copy::{Direction, Piece, Side, transfer};
use crate::mem::layout::{Segment, nic_flags};
use crate::mem::mapping::{self, Mapping};
use crate::mem::{presence, relay};

/// A life sign is believed so long, in nanoseconds: that it is the same program still ..
const LIFE_SIGN_NS: u64 = 100_000;
/// .. and that its process runs, which is what remains to ask where a child of it holds its lock.
const PROCESS_SIGN_NS: u64 = 5_000_000;

/// A process that operations reach.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `None`: this process.
    mapping: Option<Mapping>,
    owner: Incarnation,
    is_dead: AtomicBool,
    checked_at: AtomicU64,
    process_checked_at: AtomicU64,
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
            process_checked_at: AtomicU64::new(0),
            refuses: AtomicBool::new(!direct_copies),
        }
    }

    pub(crate) fn segment<'a>(&'a self, process: &'a Process) -> &'a Segment {
        self.mapping.as_deref().unwrap_or_else(|| process.segment())
    }

    /// Whether it is known to be gone, or another program now; looks every so often.
    pub(crate) fn is_dead(&self, now_ns: u64) -> bool {
        if self.mapping.is_none() {
            return false;
        }
        if self.is_known_dead() {
            return true;
        }
        let is_due = |checked: &AtomicU64, after: u64| {
            let is_due = now_ns.saturating_sub(checked.load(Ordering::Relaxed)) >= after;
            if is_due {
                checked.store(now_ns, Ordering::Relaxed);
            }
            is_due
        };
        if is_due(&self.process_checked_at, PROCESS_SIGN_NS) {
            return self.look();
        }
        is_due(&self.checked_at, LIFE_SIGN_NS) && self.note(!self.is_there())
    }

    /// Whether it was found to be gone; one load.
    pub(crate) fn is_known_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    fn look(&self) -> bool {
        self.note(self.mapping.is_some() && (!self.is_there() || !self.owner.is_alive()))
    }

    /// The dead do not come back.
    fn note(&self, dead: bool) -> bool {
        if dead {
            self.is_dead.store(true, Ordering::Relaxed);
        }
        dead
    }

    /// Whether it is the program that it was when its segment was made.
    fn is_there(&self) -> bool {
        let user = (self.mapping.as_ref()).map(|segment| segment.user.load(Ordering::Relaxed));
        user.is_none_or(presence::is_there)
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
                Err(Some(code @ (libc::EPERM | libc::ENOSYS))) => {
                    self.refuses.store(true, Ordering::Relaxed);
                    let pid = self.owner.pid;
                    tell(&match code {
                        libc::EPERM => Why::NotPermitted { pid },
                        _ => Why::NoCall,
                    });
                }
                Err(_) if self.look() => return Copied::Dead,
                Err(_) => return Copied::Refused,
            }
        }
        if !process.config().direct_copies {
            tell(&Why::Told);
        }
        let segment = self.segment(process);
        // SAFETY: the caller's promise.
        match unsafe { relay::step(segment, (process.user(), process.now_ns()), under, copy) } {
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

/// Why there are no direct copies.
#[derive(Debug)]
enum Why {
    /// `EFA_EMU_CMA=0`.
    Told,
    NotPermitted {
        pid: u32,
    },
    NoCall,
}

/// Says once that bytes go the long way, why, what that costs, and what to do.
#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say what is to be done"
)]
fn tell(why: &Why) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| eprintln!("{}", detour(why)));
}

fn detour(why: &Why) -> String {
    let (why, so) = match why {
        Why::Told => (
            "EFA_EMU_CMA=0".to_owned(),
            "without EFA_EMU_CMA the target's memory is reached directly",
        ),
        Why::NotPermitted { pid } => (
            format!("process_vm_writev(2) to process {pid} is not permitted"),
            "the same user and capabilities on both sides, /proc/sys/kernel/yama/ptrace_scope 0 or 1, in containers \
             CAP_SYS_PTRACE (docker: --cap-add SYS_PTRACE) and a filter of seccomp(2) that lets it be",
        ),
        Why::NoCall => (
            "the system has no process_vm_writev(2), or a filter of seccomp(2) hides it".to_owned(),
            "another filter (docker: --security-opt seccomp=..)",
        ),
    };
    format!(
        "efa-emu: bytes go through shared memory, copied twice, and the target's processor time is needed for it: \
         {why}; latency and bandwidth may be half as good or worse\n  try: {so}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detour_is_told_with_its_reason_and_its_end() {
        for (why, reason, end) in [
            (Why::Told, "EFA_EMU_CMA=0;", "without EFA_EMU_CMA"),
            (
                Why::NotPermitted { pid: 4711 },
                "process 4711 ",
                "ptrace_scope",
            ),
            (Why::NoCall, "seccomp(2)", "seccomp="),
        ] {
            let text = detour(&why);
            let (told, hint) = text.split_once("\n  try: ").expect("a hint");
            assert!(
                told.starts_with("efa-emu: ") && told.contains(reason),
                "{told}"
            );
            assert!(hint.contains(end), "{hint}");
        }
    }
}
