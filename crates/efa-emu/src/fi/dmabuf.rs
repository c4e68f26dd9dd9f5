//! What the kernel says of a descriptor that is given as a dma-buf: memory of a device that others may
//! use. Without such a device an anonymous file named `dmabuf` (memfd_create(2)) stands for one.

use core::ffi::c_int;
use std::fs;
use std::path::Path;

use ofi_sys::errno as e;

/// What the files behind descriptors of dma-bufs are called: since 5.3, before, and their stand-in.
const NAMES: [&str; 3] = ["/dmabuf:", "anon_inode:dmabuf", "/memfd:dmabuf"];

/// Whether a descriptor is that of a dma-buf that has the range.
///
/// # Errors
/// A positive errno, as ibv_reg_dmabuf_mr(3) gives it: EBADF for no descriptor, EINVAL for another file
/// or one that is too short.
pub(super) fn check(fd: c_int, offset: u64, len: u64) -> Result<(), c_int> {
    let link = format!("/proc/self/fd/{fd}");
    let name = fs::read_link(&link).map_err(|_| libc::EBADF)?;
    if !is_dmabuf(&name) {
        return Err(e::FI_EINVAL);
    }
    // SAFETY: lseek(2): no memory is involved; a dma-buf has no position that anybody could miss.
    let size = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
    // SAFETY: as above.
    unsafe { libc::lseek(fd, 0, libc::SEEK_SET) };
    let size = u64::try_from(size).map_err(|_| e::FI_EINVAL)?;
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(e::FI_EINVAL),
    }
}

fn is_dmabuf(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

    #[test]
    fn only_what_is_one_and_long_enough() {
        // SAFETY: memfd_create(2): a name that ends.
        let fd = unsafe { libc::memfd_create(c"dmabuf".as_ptr(), 0) };
        assert!(fd >= 0);
        // SAFETY: a descriptor that was just made, and nobody else's.
        let file = unsafe { fs::File::from_raw_fd(fd) };
        file.set_len(8192).expect("a length");
        assert_eq!(check(fd, 0, 8192), Ok(()));
        assert_eq!(check(fd, 4096, 4096), Ok(()));
        assert_eq!(check(fd, 4096, 4097), Err(e::FI_EINVAL));
        assert_eq!(check(fd, u64::MAX, 2), Err(e::FI_EINVAL));
        let other = fs::File::open("/dev/null").expect("a file");
        assert_eq!(check(other.as_raw_fd(), 0, 1), Err(e::FI_EINVAL));
        assert_eq!(check(-1, 0, 1), Err(libc::EBADF));
        assert!(is_dmabuf(Path::new("/dmabuf:gpu")));
        assert!(!is_dmabuf(Path::new("/tmp/dmabuf:")));
    }
}
