//! Completion queues.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;
use ofi_sys::grown::fi_cq_err_entry;

use super::guard::{counted, guarded};
use super::object::{fid, give, inner, table, take};
use super::old::ErrorEntry;
use super::{ERROR_TEXT_MAX, domain, none};
use crate::engine::address::Address;
use crate::engine::locked;
use crate::engine::queue::{Completion, Queue, Read};
use crate::engine::text::meaning;

/// Entries that a queue can have.
const SIZE_MAX: usize = 1 << 20;

/// A queue, and what of it only C sees.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) queue: Arc<Queue>,
    format: b::fi_cq_format,
    /// The text about the last error, which callers without a buffer are given.
    text: Mutex<CString>,
}

static FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(none::bind),
    control: Some(none::control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static OPS: b::fi_ops_cq = b::fi_ops_cq {
    size: size_of::<b::fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(none::cq_sread),
    sreadfrom: Some(none::cq_sreadfrom),
    signal: Some(none::cq_signal),
    strerror: Some(strerror),
};

/// # Safety
/// A queue that is open.
pub(super) unsafe fn of<'a>(cq: *const b::fid_cq) -> &'a Arc<Opened> {
    // SAFETY: the caller's promise.
    unsafe { inner::<b::fid_cq, Opened>(cq) }
}

pub(super) unsafe extern "C" fn open(
    domain: *mut b::fid_domain,
    attr: *mut b::fi_cq_attr,
    cq: *mut *mut b::fid_cq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_cq(3): an open domain.
        let domain = unsafe { domain::of(domain) };
        if attr.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_cq(3): attributes, at least those of 1.17.
        let attr = unsafe { &*attr };
        let format = attr.format;
        if attr.wait_obj != b::FI_WAIT_NONE {
            // EFA's queues are polled (providers.md 3).
            return Err(e::FI_ENOSYS);
        }
        if format > b::FI_CQ_FORMAT_TAGGED || attr.size > SIZE_MAX {
            return Err(e::FI_EINVAL);
        }
        let size = match attr.size {
            0 => domain.process.config().cq_size,
            size => size,
        };
        // As Linux's EFA driver says that the device has no more.
        let queue = Queue::new(Arc::clone(domain), size).ok_or(e::FI_ENOMEM)?;
        let opened = Arc::new(Opened {
            queue: Arc::new(queue),
            format,
            text: Mutex::default(),
        });
        let head = b::fid_cq {
            fid: fid(c::FI_CLASS_CQ, context, &FID_OPS),
            ops: table(&OPS),
        };
        // SAFETY: fi_cq(3): where the object goes.
        unsafe { give(head, opened, cq) }
    })
}

/// A context, or another address, as it was given.
fn pointer(address: u64) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

impl Opened {
    /// Writes an entry of the queue's format.
    ///
    /// # Safety
    /// The buffer has room for `index + 1` entries.
    unsafe fn write(&self, buf: *mut c_void, index: usize, completion: &Completion) {
        let happened = &completion.happened;
        let len = usize::try_from(happened.len).unwrap_or(usize::MAX);
        let entry = b::fi_cq_tagged_entry {
            op_context: pointer(happened.context),
            flags: happened.flags,
            len,
            buf: pointer(happened.buf),
            data: happened.data,
            tag: happened.tag,
        };
        // Each format is the beginning of the next.
        let size = match self.format {
            b::FI_CQ_FORMAT_MSG => size_of::<b::fi_cq_msg_entry>(),
            b::FI_CQ_FORMAT_DATA => size_of::<b::fi_cq_data_entry>(),
            b::FI_CQ_FORMAT_TAGGED => size_of::<b::fi_cq_tagged_entry>(),
            _ => size_of::<b::fi_cq_entry>(),
        };
        let into = buf.cast::<u8>().wrapping_add(index * size);
        // SAFETY: the caller's promise.
        unsafe { into.copy_from((&raw const entry).cast(), size) };
    }
}

unsafe extern "C" fn read(cq: *mut b::fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: fi_cq(3): as `readfrom`, with nowhere to put sources.
    unsafe { readfrom(cq, buf, count, core::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut b::fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut b::fi_addr_t,
) -> isize {
    counted(|| {
        // SAFETY: fi_cq(3): an open queue.
        let opened = unsafe { of(cq) };
        let found = opened.queue.read(count, |index, completion| {
            // SAFETY: fi_cq(3): room for `count` entries, and the index is less.
            unsafe { opened.write(buf, index, completion) };
            if !src_addr.is_null() {
                let source = source(completion).unwrap_or(c::FI_ADDR_NOTAVAIL);
                // SAFETY: fi_cq(3): room for `count` addresses.
                unsafe { src_addr.wrapping_add(index).write(source) };
            }
        });
        match found {
            Read::Empty => Err(e::FI_EAGAIN),
            Read::Entries(count) => Ok(count),
            Read::Error => Err(e::FI_EAVAIL),
        }
    })
}

/// The number of who sent, where the vector has it.
fn source(completion: &Completion) -> Option<u64> {
    let vector = completion.vector.as_ref()?;
    let is_received = completion.happened.flags & c::FI_RECV != 0;
    let address = Address::from_source(completion.happened.source);
    vector.number_of(&address).filter(|_| is_received)
}

unsafe extern "C" fn readerr(
    cq: *mut b::fid_cq,
    entry: *mut fi_cq_err_entry,
    _flags: u64,
) -> isize {
    counted(|| {
        // SAFETY: fi_cq(3): an open queue.
        let opened = unsafe { of(cq) };
        if entry.is_null() {
            return Err(e::FI_EINVAL);
        }
        let failed = opened.queue.read_error().ok_or(e::FI_EAGAIN)?;
        let text = explain(&failed);
        // SAFETY: fi_cq(3): the caller's entry, at least as long as that of 1.17.
        unsafe { opened.write_error(entry, &failed, text) };
        Ok(1)
    })
}

/// What went wrong, in EFA's manner: the words, then the peer.
fn explain(failed: &Completion) -> CString {
    let (_, prov) = failed.happened.error.unwrap_or_default();
    let words = meaning(i32::from(prov)).to_string_lossy();
    let peer = Address::from_source(failed.happened.source);
    let text = match peer.segment {
        0 => words.into_owned(),
        _ => format!("{words} Peer EFA addr: {}", peer.to_text()),
    };
    CString::new(text).unwrap_or_default()
}

impl Opened {
    /// # Safety
    /// An entry of libfabric 1.17 or later; its buffer for details, if it has one, is as long as it
    /// says.
    unsafe fn write_error(&self, entry: *mut fi_cq_err_entry, failed: &Completion, text: CString) {
        let happened = &failed.happened;
        let (err, prov) = happened.error.unwrap_or_default();
        let mut kept = locked(&self.text);
        *kept = text;
        let bytes = kept.as_bytes_with_nul();
        let bytes = &bytes[..bytes.len().min(ERROR_TEXT_MAX)];
        // The tail (`src_addr`) is left alone: entries of older callers do not have it.
        // SAFETY: the caller's promise: all fields before the tail are there.
        let entry = unsafe { &mut *entry.cast::<ErrorEntry>() };
        let (data, len) = if entry.err_data_size == 0 || entry.err_data.is_null() {
            (bytes.as_ptr().cast_mut().cast(), bytes.len())
        } else {
            let len = bytes.len().min(entry.err_data_size);
            // SAFETY: the caller's promise: the buffer is that long.
            unsafe { entry.err_data.cast::<u8>().copy_from(bytes.as_ptr(), len) };
            (entry.err_data, len)
        };
        *entry = ErrorEntry {
            op_context: pointer(happened.context),
            flags: happened.flags,
            len: usize::try_from(happened.len).unwrap_or(usize::MAX),
            buf: pointer(happened.buf),
            data: happened.data,
            tag: happened.tag,
            olen: usize::try_from(happened.excess).unwrap_or(usize::MAX),
            err: c_int::from(err),
            prov_errno: c_int::from(prov),
            err_data: data,
            err_data_size: len,
        };
    }
}

unsafe extern "C" fn strerror(
    _cq: *mut b::fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text: &CStr = meaning(prov_errno);
    let _code = guarded(|| {
        if !buf.is_null() && len > 0 {
            let count = text.to_bytes().len().min(len - 1);
            // SAFETY: fi_cq(3): the buffer is that long.
            unsafe { buf.copy_from(text.as_ptr(), count) };
            // SAFETY: as above; count is less than the length.
            unsafe { buf.wrapping_add(count).write(0) };
        }
        Ok(())
    });
    text.as_ptr()
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open queue.
        let opened = unsafe { of(fid.cast()) };
        if opened.queue.users.load(Ordering::Acquire) > 0 {
            return Err(e::FI_EBUSY);
        }
        // SAFETY: fi_close(3): nobody uses it any more.
        drop(unsafe { take::<b::fid_cq, Opened>(fid) });
        Ok(())
    })
}
