//! Address vectors.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::guard::guarded;
use super::object::{fid, give, inner, table, take};
use super::{domain, none};
use crate::engine::address::{Address, LEN};
use crate::engine::vector::Vector;

static FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(bind),
    control: Some(none::control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static OPS: b::fi_ops_av = b::fi_ops_av {
    size: size_of::<b::fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(none::av_insertsvc),
    insertsym: Some(none::av_insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(none::av_set),
};

/// # Safety
/// A vector that is open.
pub(super) unsafe fn of<'a>(av: *const b::fid_av) -> &'a Arc<Vector> {
    // SAFETY: the caller's promise.
    unsafe { inner::<b::fid_av, Vector>(av) }
}

pub(super) unsafe extern "C" fn open(
    domain: *mut b::fid_domain,
    attr: *mut b::fi_av_attr,
    av: *mut *mut b::fid_av,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_av(3): an open domain.
        let domain = unsafe { domain::of(domain) };
        if !attr.is_null() {
            // SAFETY: fi_av(3): attributes.
            let name = unsafe { (*attr).name };
            // SAFETY: as above.
            let kind = unsafe { (*attr).type_ };
            // A shared one, and one that nobody has: fi_av(3).
            if !name.is_null() {
                return Err(e::FI_ENOSYS);
            }
            if !matches!(kind, b::FI_AV_UNSPEC | b::FI_AV_MAP | b::FI_AV_TABLE) {
                return Err(e::FI_EINVAL);
            }
        }
        let head = b::fid_av {
            fid: fid(c::FI_CLASS_AV, context, &FID_OPS),
            ops: table(&OPS),
        };
        let vector = Arc::new(Vector::new(Arc::clone(domain)));
        // SAFETY: fi_av(3): where the object goes.
        unsafe { give(head, vector, av) }
    })
}

/// `FI_SYNC_ERR` (rdma/fi_domain.h): each address has a result of its own.
const SYNC_ERR: u64 = 1 << 58;
/// What insertions take: `FI_MORE` is of no consequence.
const INSERT_FLAGS: u64 = SYNC_ERR | c::FI_MORE;

unsafe extern "C" fn insert(
    av: *mut b::fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut b::fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let mut inserted = 0;
    let code = guarded(|| {
        if flags & !INSERT_FLAGS != 0 {
            return Err(e::FI_EBADFLAGS);
        }
        // fi_av(3): with this flag the context is where the result of each address goes.
        let results = if flags & SYNC_ERR != 0 {
            context.cast::<c_int>()
        } else {
            null_mut()
        };
        if flags & SYNC_ERR != 0 && results.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_av(3): an open vector.
        let vector = unsafe { of(av) };
        if addr.is_null() {
            return Err(e::FI_EINVAL);
        }
        for i in 0..count {
            let from = addr.cast::<[u8; LEN]>().wrapping_add(i);
            // SAFETY: fi_av(3): `count` addresses of the format's length.
            let bytes = unsafe { from.read_unaligned() };
            let number = Address::from_bytes(&bytes).and_then(|address| vector.insert(address));
            if !fi_addr.is_null() {
                let into = fi_addr.wrapping_add(i);
                // SAFETY: fi_av(3): room for `count` numbers.
                unsafe { into.write(number.unwrap_or(c::FI_ADDR_NOTAVAIL)) };
            }
            if !results.is_null() {
                let result = if number.is_some() { 0 } else { e::FI_EINVAL };
                // SAFETY: fi_av(3): room for `count` results.
                unsafe { results.wrapping_add(i).write(result) };
            }
            inserted += c_int::from(number.is_some());
        }
        Ok(())
    });
    if code == 0 { inserted } else { code }
}

unsafe extern "C" fn remove(
    av: *mut b::fid_av,
    fi_addr: *mut b::fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_av(3): an open vector.
        let vector = unsafe { of(av) };
        if fi_addr.is_null() {
            return Err(e::FI_EINVAL);
        }
        for i in 0..count {
            // SAFETY: fi_av(3): `count` numbers.
            let number = unsafe { fi_addr.wrapping_add(i).read() };
            if !vector.remove(number) {
                return Err(e::FI_EINVAL);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(
    av: *mut b::fid_av,
    fi_addr: b::fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_av(3): an open vector.
        let vector = unsafe { of(av) };
        let target = vector.target(fi_addr).ok_or(e::FI_EINVAL)?;
        // SAFETY: fi_av(3): a buffer and its length.
        unsafe { write_address(target.address, addr, addrlen) };
        Ok(())
    })
}

/// Writes as much of an address as there is room for, and the length of all. Whether all fitted.
///
/// # Safety
/// `len` is the length of the buffer `addr`; NULL for none.
pub(super) unsafe fn write_address(address: Address, addr: *mut c_void, len: *mut usize) -> bool {
    if len.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let room = unsafe { len.read() };
    let bytes = address.to_bytes();
    let count = if addr.is_null() { 0 } else { room.min(LEN) };
    // SAFETY: the caller's promise.
    unsafe { addr.cast::<u8>().copy_from(bytes.as_ptr(), count) };
    // SAFETY: the caller's promise.
    unsafe { len.write(LEN) };
    count == LEN
}

unsafe extern "C" fn straddr(
    _av: *mut b::fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    let _code = guarded(|| {
        // SAFETY: fi_av(3): an address of the format's length.
        let bytes = unsafe { addr.cast::<[u8; LEN]>().read_unaligned() };
        let text = match Address::from_bytes(&bytes) {
            Some(address) => address.to_text(),
            None => "fi_addr_efa://[unknown]".to_owned(),
        };
        // SAFETY: fi_av(3): the length of the buffer.
        let room = unsafe { len.read() };
        if room > 0 {
            let count = text.len().min(room - 1);
            // SAFETY: fi_av(3): the buffer.
            unsafe { buf.cast::<u8>().copy_from(text.as_ptr(), count) };
            // SAFETY: as above; count is less than the length.
            unsafe { buf.wrapping_add(count).write(0) };
        }
        // SAFETY: fi_av(3): the length that it takes.
        unsafe { len.write(text.len() + 1) };
        Ok(())
    });
    buf
}

/// An event queue may be bound; nothing ever comes.
unsafe extern "C" fn bind(_: *mut b::fid, _: *mut b::fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open vector.
        let vector = unsafe { of(fid.cast()) };
        if vector.users.load(Ordering::Acquire) > 0 {
            return Err(e::FI_EBUSY);
        }
        // SAFETY: fi_close(3): nobody uses it any more.
        drop(unsafe { take::<b::fid_av, Vector>(fid) });
        Ok(())
    })
}
