//! Moving bytes between this process and a peer, without the peer's help: process_vm_readv(2) and
//! process_vm_writev(2), as a device would; within a process too, for memory that was registered may be
//! unmapped or read-only by now, which is an error of that one operation and no signal.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;

use super::{pipe, room};

/// A piece of memory: address and length.
pub(crate) type Piece = (u64, u64);

/// The bytes of a list. `None` if there are more than can be counted, or a piece ends behind the last
/// address: no memory is like that.
pub(crate) fn total(list: &[Piece]) -> Option<u64> {
    list.iter().try_fold(0_u64, |sum, (addr, len)| {
        addr.checked_add(*len)?;
        sum.checked_add(*len)
    })
}

/// Pieces that one call moves, on each side.
const PIECES: usize = 8;

/// Which way bytes go, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the peer.
    Out,
    /// From the peer.
    In,
}

/// Whose memory the other side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This process.
    Own,
    /// Another one.
    Process(u32),
}

/// Walks over a list of pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [Piece],
    /// Bytes of the first piece that are behind.
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// At the start of a list, `skip` bytes further on.
    pub(crate) fn new(list: &'a [Piece], skip: u64) -> Self {
        let mut cursor = Self {
            rest: list,
            offset: 0,
        };
        cursor.advance(skip);
        cursor
    }

    fn advance(&mut self, mut by: u64) {
        while let Some(((_, len), rest)) = self.rest.split_first() {
            let left = len - self.offset;
            if by < left {
                self.offset += by;
                return;
            }
            by -= left;
            self.offset = 0;
            self.rest = rest;
        }
    }

    /// The next pieces, at most `limit` bytes in all.
    fn pieces(&self, mut limit: u64, into: &mut [libc::iovec; PIECES]) -> (usize, u64) {
        let (mut count, mut bytes) = (0, 0);
        let mut offset = self.offset;
        for (addr, len) in self.rest {
            let take = (len - offset).min(limit);
            let Some(slot) = into.get_mut(count) else {
                break;
            };
            if take > 0 {
                *slot = libc::iovec {
                    // A peer's list may say anything: what is no address the kernel refuses.
                    iov_base: pointer(addr.wrapping_add(offset)),
                    iov_len: usize::try_from(take).unwrap_or(usize::MAX),
                };
                count += 1;
                bytes += take;
                limit -= take;
            }
            offset = 0;
        }
        (count, bytes)
    }

    /// The next piece that has bytes.
    fn first(&self) -> Option<Piece> {
        let mut offset = self.offset;
        self.rest.iter().find_map(|(addr, len)| {
            let behind = core::mem::take(&mut offset);
            (*len > behind).then(|| (addr.wrapping_add(behind), len - behind))
        })
    }
}

/// A registered address, as somebody gave it.
fn pointer(addr: u64) -> *mut c_void {
    let addr = usize::try_from(addr).unwrap_or(0);
    core::ptr::with_exposed_provenance_mut(addr)
}

/// Moves `len` bytes between a list of pieces of this process and one of another.
///
/// # Errors
/// The system refuses (EPERM), the process is gone (ESRCH), or there is no such memory (EFAULT).
///
/// # Safety
/// The local pieces are memory of this process that may be read (out) or written (in) now, and so are
/// the others if they are this process' own: regions are checked and announced before.
pub(crate) unsafe fn transfer(
    side: Side,
    direction: Direction,
    (local, remote): (&[Piece], &[Piece]),
    len: u64,
) -> io::Result<()> {
    let (mut near, mut far) = (Cursor::new(local, 0), Cursor::new(remote, 0));
    let mut left = len;
    while left > 0 {
        let moved = match side {
            // SAFETY: the caller's promise.
            Side::Own => unsafe { own(direction, (&near, &far), left) }?,
            // SAFETY: the caller's promise.
            Side::Process(pid) => unsafe { across(pid, direction, (&near, &far), left) }?,
        };
        if moved == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        near.advance(moved);
        far.advance(moved);
        left -= moved;
    }
    Ok(())
}

/// Within this process: by the kernel, or through a pipe where it permits no such call (seccomp(2)).
///
/// # Safety
/// As [`transfer`], both lists; the kernel looks at both.
unsafe fn own(
    direction: Direction,
    (near, far): (&Cursor<'_>, &Cursor<'_>),
    left: u64,
) -> io::Result<u64> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if !IS_REFUSED.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        let moved = unsafe { across(std::process::id(), direction, (near, far), left) };
        match moved.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EPERM | libc::ENOSYS)) => IS_REFUSED.store(true, Ordering::Relaxed),
            _ => return moved,
        }
    }
    // SAFETY: the caller's promise.
    unsafe { piped(direction, near, far, left) }
}

/// Moves bytes between memory of this process that somebody named and some of the emulation's own. The
/// kernel is only asked whether the named pages are there (madvise(2)): the copy itself is memcpy(3), some
/// twice as fast as the kernel's.
///
/// # Errors
/// As [`transfer`].
///
/// # Safety
/// As [`transfer`], the list: in use by an operation, nobody takes it away now. `area` has `len` bytes that
/// are the caller's.
pub(super) unsafe fn beside(
    direction: Direction,
    list: &[Piece],
    area: *mut c_void,
    len: u64,
) -> io::Result<()> {
    if !list.iter().all(|piece| is_there(*piece, direction)) {
        let area = [(area.expose_provenance() as u64, len)];
        // SAFETY: the caller's promise.
        return unsafe { transfer(Side::Own, direction, (list, &area), len) };
    }
    let mut behind = 0;
    for (addr, size) in list {
        let take = usize::try_from((*size).min(len - behind)).unwrap_or(0);
        let (named, area) = (pointer(*addr), byte_at(area, behind));
        let (from, into) = match direction {
            Direction::Out => (named, area),
            Direction::In => (area, named),
        };
        // SAFETY: memmove(3): both are there, as was just asked of one of them, and stay, which is the
        // caller's promise. Not a copy of Rust's: whose memory it is may write it at the same time.
        unsafe { libc::memmove(into, from, take) };
        behind += take as u64;
    }
    match behind {
        all if all == len => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

fn byte_at(area: *mut c_void, offset: u64) -> *mut c_void {
    area.wrapping_byte_add(usize::try_from(offset).unwrap_or(0))
}

/// Whether all pages of a piece are there, to be read or to be written. `false` too where the kernel cannot
/// say: before Linux 5.14, or of a device's.
fn is_there((addr, len): Piece, direction: Direction) -> bool {
    let whole = room::page() as u64;
    let start = addr / whole * whole;
    let end = (addr.checked_add(len)).and_then(|end| end.checked_next_multiple_of(whole));
    let Some(bytes) = end.and_then(|end| usize::try_from(end - start).ok()) else {
        return false;
    };
    let advice = match direction {
        Direction::Out => libc::MADV_POPULATE_READ,
        Direction::In => libc::MADV_POPULATE_WRITE,
    };
    // SAFETY: madvise(2): pages are brought in as by a read or a write, or refused; contents do not change.
    len == 0 || unsafe { libc::madvise(pointer(start), bytes, advice) } == 0
}

/// # Safety
/// As [`own`].
unsafe fn piped(
    direction: Direction,
    near: &Cursor<'_>,
    far: &Cursor<'_>,
    left: u64,
) -> io::Result<u64> {
    let (Some(near), Some(far)) = (near.first(), far.first()) else {
        return Ok(0);
    };
    let len = near.1.min(far.1).min(left);
    let (from, into) = match direction {
        Direction::Out => (near.0, far.0),
        Direction::In => (far.0, near.0),
    };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if is_there((from, len as u64), Direction::Out) && is_there((into, len as u64), Direction::In) {
        // SAFETY: memmove(3): both are there, as was just asked, and stay, which is the caller's promise.
        unsafe { libc::memmove(pointer(into), pointer(from), len) };
        return Ok(len as u64);
    }
    // SAFETY: the caller's promise.
    let moved = unsafe { pipe::copy(pointer(from), pointer(into), len) }?;
    Ok(moved as u64)
}

/// # Safety
/// As [`transfer`], the near list.
unsafe fn across(
    pid: u32,
    direction: Direction,
    (near, far): (&Cursor<'_>, &Cursor<'_>),
    left: u64,
) -> io::Result<u64> {
    const NONE: libc::iovec = libc::iovec {
        iov_base: core::ptr::null_mut(),
        iov_len: 0,
    };
    let (mut local, mut remote) = ([NONE; PIECES], [NONE; PIECES]);
    let (near_count, near_bytes) = near.pieces(left, &mut local);
    let (far_count, far_bytes) = far.pieces(near_bytes, &mut remote);
    let (near_count, _) = if far_bytes < near_bytes {
        near.pieces(far_bytes, &mut local)
    } else {
        (near_count, near_bytes)
    };
    let pid = libc::pid_t::try_from(pid).unwrap_or(0);
    let (near_count, far_count) = (near_count as libc::c_ulong, far_count as libc::c_ulong);
    let (near, far) = (local.as_ptr(), remote.as_ptr());
    let moved = match direction {
        // SAFETY: process_vm_writev(2): arrays of that many pieces; the near ones are the caller's
        // promise, the far ones are checked by the kernel.
        Direction::Out => unsafe {
            libc::process_vm_writev(pid, near, near_count, far, far_count, 0)
        },
        // SAFETY: process_vm_readv(2): as above.
        Direction::In => unsafe {
            libc::process_vm_readv(pid, near, near_count, far, far_count, 0)
        },
    };
    u64::try_from(moved).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> Piece {
        (
            bytes.as_ptr().expose_provenance() as u64,
            bytes.len() as u64,
        )
    }

    /// A way of moving bytes within this process.
    type Way = fn(Direction, (&[Piece], &[Piece]), u64) -> io::Result<()>;

    /// Where the call is permitted, and where it is not.
    const WAYS: [Way; 3] = [
        // SAFETY: pieces of tests, or nothing, which the kernel sees.
        |direction, lists, len| unsafe { transfer(Side::Own, direction, lists, len) },
        |direction, lists, len| {
            let own = Side::Process(std::process::id());
            // SAFETY: as above.
            unsafe { transfer(own, direction, lists, len) }
        },
        |direction, (near, far), len| {
            let (mut near, mut far) = (Cursor::new(near, 0), Cursor::new(far, 0));
            let mut left = len;
            while left > 0 {
                // SAFETY: as above.
                let moved = unsafe { piped(direction, &near, &far, left) }?;
                near.advance(moved);
                far.advance(moved);
                left -= moved;
            }
            Ok(())
        },
    ];

    fn scattered(way: Way) {
        let from: Vec<u8> = (0..100).collect();
        let into = vec![0_u8; 100];
        let (left, right) = from.split_at(33);
        let mut targets: Vec<&[u8]> = Vec::new();
        let (a, rest) = into.split_at(10);
        let (b, c) = rest.split_at(80);
        targets.extend([a, &b[..0], b, c]);
        let local = [piece(left), piece(right)];
        let remote: Vec<Piece> = targets.into_iter().map(piece).collect();
        let mut into = core::hint::black_box(into);
        way(Direction::Out, (&local, &remote), 100).expect("a copy");
        assert_eq!(into, from);
        into.fill(9);
        way(Direction::In, (&local, &remote), 50).expect("a copy");
        assert_eq!(from[..50], [9; 50]);
        assert_eq!(from[50], 50);
    }

    #[test]
    fn pieces_need_not_match() {
        WAYS.into_iter().for_each(scattered);
    }

    /// Beside memory of the emulation's: each piece wherever it is, and nothing beyond the last.
    #[test]
    fn pieces_beside_an_area() {
        let from: Vec<u8> = (0..100).collect();
        let mut area = vec![0_u8; 110];
        let (a, b) = from.split_at(33);
        let list = [piece(a), (64, 0), piece(b)];
        let at = area.as_mut_ptr().cast();
        // SAFETY: pieces of the test, and a longer area.
        unsafe { beside(Direction::Out, &list, at, 100) }.expect("a copy");
        assert_eq!(area[..100], from);
        assert_eq!(area[100..], [0; 10]);
        let into = core::hint::black_box(vec![0_u8; 100]);
        let (a, b) = into.split_at(90);
        // SAFETY: as above.
        unsafe { beside(Direction::In, &[piece(a), piece(b)], at, 95) }.expect("a copy");
        assert_eq!(core::hint::black_box(&into)[..95], from[..95]);
        assert_eq!(into[95..], [0; 5]);
        for direction in [Direction::Out, Direction::In] {
            // SAFETY: nothing is there, or less than was asked for, which the call sees.
            let none = unsafe { beside(direction, &[piece(a), (64, 8)], at, 98) };
            let error = none.expect_err("nothing is there").raw_os_error();
            assert_eq!(error, Some(libc::EFAULT));
            // SAFETY: as above.
            unsafe { beside(direction, &[piece(a)], at, 98) }.expect_err("less is there");
        }
    }

    /// Memory that may not be written is none to write to, and some to read from.
    #[test]
    fn rights_to_pages_count() {
        let whole = room::page();
        let rights = libc::PROT_READ;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: mmap(2): a new mapping of our own.
        let page = unsafe { libc::mmap(core::ptr::null_mut(), whole, rights, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let named = (page.expose_provenance() as u64 + 8, 16);
        let mut area = [9_u8; 16];
        let at = area.as_mut_ptr().cast();
        // SAFETY: a page of the test, and an area as long.
        unsafe { beside(Direction::Out, &[named], at, 16) }.expect("it may be read");
        assert_eq!(core::hint::black_box(&area), &[0; 16]);
        // SAFETY: as above; the call sees that it may not be written.
        let error = unsafe { beside(Direction::In, &[named], at, 16) };
        let error = error.expect_err("it may not be written").raw_os_error();
        assert_eq!(error, Some(libc::EFAULT));
        // SAFETY: munmap(2): the test's own.
        unsafe { libc::munmap(page, whole) };
    }

    #[test]
    fn more_than_a_pipe_holds() {
        let from: Vec<u8> = (0..250).cycle().take(300_000).collect();
        let into = core::hint::black_box(vec![0_u8; 300_000]);
        let [.., through_a_pipe] = WAYS;
        let lists = (&[piece(&from)][..], &[piece(&into)][..]);
        through_a_pipe(Direction::Out, lists, 300_000).expect("a copy");
        assert!(core::hint::black_box(into) == from);
    }

    /// Of either side, and after some that are there.
    #[test]
    fn memory_that_is_gone_is_no_signal() {
        let there = vec![1_u8; 3 << 12];
        let nothing = (64, 8);
        for way in WAYS {
            for direction in [Direction::Out, Direction::In] {
                for (near, far) in [
                    ([piece(&there), nothing], [piece(&there), piece(&there)]),
                    ([piece(&there), piece(&there)], [piece(&there), nothing]),
                ] {
                    let len = there.len() as u64 + 8;
                    let moved = way(direction, (&near, &far), len);
                    let error = moved.expect_err("nothing is there").raw_os_error();
                    assert_eq!(error, Some(libc::EFAULT));
                }
            }
        }
    }

    #[test]
    fn the_kernel_says_what_is_wrong() {
        let bytes = [1_u8; 8];
        let own = Side::Process(std::process::id());
        // SAFETY: the near list is the array above; the far one is nothing, which the kernel sees.
        let error = unsafe { transfer(own, Direction::Out, (&[piece(&bytes)], &[(64, 8)]), 8) };
        assert_eq!(
            error.expect_err("nothing is there").raw_os_error(),
            Some(libc::EFAULT)
        );
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let gone = Side::Process(child.id());
        child.wait().expect("wait");
        // SAFETY: as above.
        let error = unsafe { transfer(gone, Direction::In, (&[piece(&bytes)], &[(64, 8)]), 8) };
        assert_eq!(
            error.expect_err("nobody is there").raw_os_error(),
            Some(libc::ESRCH)
        );
    }
}
