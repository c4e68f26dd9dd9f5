//! Completion queues: what has happened, in batches.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use std::sync::Arc;

use ofi_sys::bindings::{
    FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED, fi_cq_attr, fi_cq_data_entry, fi_cq_tagged_entry,
    fid_cq,
};
use ofi_sys::errno::{FI_EAGAIN, FI_EAVAIL};
use ofi_sys::grown::{Padded, fi_cq_err_entry};
use ofi_sys::ops;

use crate::completion::CompletionError;
use crate::context::Context2;
use crate::domain::Domain;
use crate::error::{CloseFailed, FabricError, check, errno_of};
use crate::fid::{Fid, close_shared};
use crate::flags::CompletionFlags;

/// Longest text and details taken from a provider about one error, in bytes.
const TEXT_LEN_MAX: usize = 256;

/// One completion, 40 bytes, in libfabric's own layout (FI_CQ_FORMAT_DATA).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CqEntry(fi_cq_data_entry);

impl CqEntry {
    /// An empty entry, for the array that [`Cq::read_batch`] fills.
    pub const EMPTY: Self = Self(fi_cq_data_entry {
        op_context: ptr::null_mut(),
        flags: 0,
        len: 0,
        buf: ptr::null_mut(),
        data: 0,
    });

    /// The context of the operation; null for an incoming write.
    #[inline]
    #[must_use]
    pub const fn context(&self) -> *mut Context2 {
        self.0.op_context.cast()
    }

    /// What kind of operation it was.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> CompletionFlags {
        CompletionFlags::from_bits_retain(self.0.flags)
    }

    /// The peer's CQ data; means something only with [`CompletionFlags::REMOTE_CQ_DATA`].
    #[inline]
    #[must_use]
    pub const fn data(&self) -> u64 {
        self.0.data
    }

    /// Bytes moved, as the provider says it: right for receives everywhere. For an incoming write
    /// TCP before 1.18 says 0 whatever came; for one's own operations most say 0.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the provider says that no bytes were moved: see [`Self::len`].
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The buffer, for providers and operations that tell it.
    #[inline]
    #[must_use]
    pub const fn buf(&self) -> *mut c_void {
        self.0.buf
    }
}

// SAFETY: the pointers are carried, never followed here.
unsafe impl Send for CqEntry {}
// SAFETY: as above.
unsafe impl Sync for CqEntry {}

impl Default for CqEntry {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for CqEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqEntry")
            .field("context", &self.context())
            .field("flags", &self.flags())
            .field("len", &self.len())
            .field("data", &self.data())
            .finish_non_exhaustive()
    }
}

/// One completion with the tag of its message, 48 bytes, in libfabric's own layout
/// (FI_CQ_FORMAT_TAGGED).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TaggedEntry(fi_cq_tagged_entry);

impl TaggedEntry {
    /// An empty entry, for the array that [`Cq::read_batch`] fills.
    pub const EMPTY: Self = Self(fi_cq_tagged_entry {
        op_context: ptr::null_mut(),
        flags: 0,
        len: 0,
        buf: ptr::null_mut(),
        data: 0,
        tag: 0,
    });

    /// Tag of the message, of a completed tagged receive.
    #[inline]
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.0.tag
    }

    /// The rest of it.
    #[inline]
    #[must_use]
    pub const fn entry(&self) -> CqEntry {
        CqEntry(fi_cq_data_entry {
            op_context: self.0.op_context,
            flags: self.0.flags,
            len: self.0.len,
            buf: self.0.buf,
            data: self.0.data,
        })
    }
}

// SAFETY: the pointers are carried, never followed here.
unsafe impl Send for TaggedEntry {}
// SAFETY: as above.
unsafe impl Sync for TaggedEntry {}

impl fmt::Debug for TaggedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedEntry")
            .field("entry", &self.entry())
            .field("tag", &format_args!("{:#x}", self.tag()))
            .finish()
    }
}

/// What a queue gives for a completion: [`CqEntry`] or [`TaggedEntry`].
///
/// # Safety
///
/// The type is laid out as libfabric's entry of this format, and any such entry is a value of it.
pub unsafe trait Entry {
    /// libfabric's number of the format.
    const FORMAT: u32;
}

// SAFETY: a transparent wrapper of fi_cq_data_entry.
unsafe impl Entry for CqEntry {
    const FORMAT: u32 = FI_CQ_FORMAT_DATA;
}

// SAFETY: a transparent wrapper of fi_cq_tagged_entry.
unsafe impl Entry for TaggedEntry {
    const FORMAT: u32 = FI_CQ_FORMAT_TAGGED;
}

/// What one look at a completion queue found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CqPoll {
    /// This many entries were written, at least one.
    Entries(usize),
    /// Nothing now.
    Empty,
    /// The next entry is an error: take it with [`Cq::read_error`]. Good entries may follow it.
    ErrorAvailable,
}

// Fields drop in this order: the queue closes before its domain.
#[derive(Debug)]
struct Inner {
    fid: Fid<fid_cq>,
    domain: Domain,
}

/// A completion queue, fi_cq(3), polled (FI_WAIT_NONE), with entries of one format. Clones share it;
/// endpoints bound to it keep it open.
#[derive(Clone, Debug)]
pub struct Cq<E = CqEntry> {
    inner: Arc<Inner>,
    format: PhantomData<fn() -> E>,
}

/// A queue of any format, to be kept open.
#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped after the endpoint")]
pub(crate) struct OpenCq(Arc<Inner>);

impl Cq {
    /// Opens a queue for `size` completions; 0 takes the provider's default.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open(domain: &Domain, size: usize) -> Result<Self, FabricError> {
        Self::of_format(domain, size)
    }
}

impl Cq<TaggedEntry> {
    /// [`Cq::open`] for completions with tags.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open_tagged(domain: &Domain, size: usize) -> Result<Self, FabricError> {
        Self::of_format(domain, size)
    }
}

impl<E: Entry> Cq<E> {
    fn of_format(domain: &Domain, size: usize) -> Result<Self, FabricError> {
        let mut attr = Padded::<fi_cq_attr>::zeroed();
        attr.get_mut().size = size;
        attr.get_mut().format = E::FORMAT;
        let mut raw: *mut fid_cq = ptr::null_mut();
        // SAFETY: fi_cq(3): an open domain; the attributes are zero (defaults, FI_WAIT_NONE) but for
        // size and format; `raw` takes the queue.
        let code = unsafe {
            ops::fi_cq_open(
                domain.as_raw(),
                attr.as_mut_ptr(),
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        check("fi_cq_open", code).map_err(|error| error.with(format_args!("{size} entries")))?;
        // SAFETY: fi_cq(3): opened, and ours to close.
        let fid = unsafe { Fid::new("fi_cq_open", raw, true) }?;
        let inner = Inner {
            fid,
            domain: domain.clone(),
        };
        Ok(Self::over(Arc::new(inner)))
    }

    const fn over(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            format: PhantomData,
        }
    }

    /// A handle that keeps it open.
    pub(crate) fn keep(&self) -> OpenCq {
        OpenCq(Arc::clone(&self.inner))
    }

    /// Makes progress, and takes up to `entries.len()` completions.
    ///
    /// # Errors
    ///
    /// A failure of the queue itself (FI_EOVERRUN); failed operations are
    /// [`CqPoll::ErrorAvailable`].
    ///
    /// # Costs
    ///
    /// One call to the provider; no allocation.
    #[inline]
    pub fn read_batch(&self, entries: &mut [E]) -> Result<CqPoll, FabricError> {
        // SAFETY: fi_cq(3): an open queue of the format of E, whose entries E is laid out as (the
        // contract of `Entry`); there is room for as many as are asked for.
        let count =
            unsafe { ops::fi_cq_read(self.as_raw(), entries.as_mut_ptr().cast(), entries.len()) };
        // What an idle queue answers, which is most of the time.
        if count == EMPTY {
            return Ok(CqPoll::Empty);
        }
        match usize::try_from(count) {
            Ok(0) => Ok(CqPoll::Empty),
            Ok(count) => Ok(CqPoll::Entries(count)),
            Err(_) => not_entries(count),
        }
    }

    /// Takes the error that [`CqPoll::ErrorAvailable`] announced. `None` if it is not there (yet):
    /// poll again.
    ///
    /// # Errors
    ///
    /// A failure of the queue itself.
    pub fn read_error(&self) -> Result<Option<CompletionError>, FabricError> {
        let mut details = [0_u8; TEXT_LEN_MAX];
        let mut entry = Padded::<fi_cq_err_entry>::zeroed();
        // A buffer of our own: the provider's is valid only until another thread reads the queue.
        // The last byte stays 0, whatever is written.
        entry.get_mut().err_data = details.as_mut_ptr().cast();
        entry.get_mut().err_data_size = details.len() - 1;
        // SAFETY: fi_cq(3): an open queue, an error entry at least as long as any version's (zeroed
        // and padded), with a buffer for details of the size given.
        let count = unsafe { ops::fi_cq_readerr(self.as_raw(), entry.as_mut_ptr(), 0) };
        if count > 0 {
            let text = self.error_text(entry.get());
            return Ok(Some(CompletionError::new(entry.get(), text)));
        }
        let errno = errno_of(count);
        if count == 0 || errno.code() == FI_EAGAIN {
            return Ok(None);
        }
        Err(FabricError::new("fi_cq_readerr", errno))
    }

    /// The provider's words for an error entry; empty where it has none.
    fn error_text(&self, entry: &fi_cq_err_entry) -> String {
        let mut buffer: [c_char; TEXT_LEN_MAX] = [0; TEXT_LEN_MAX];
        let details = if entry.err_data_size == 0 {
            ptr::null()
        } else {
            entry.err_data.cast_const()
        };
        // SAFETY: fi_cq(3): an open queue, the details of this very entry (or null), and a buffer of
        // the size given.
        let text = unsafe {
            ops::fi_cq_strerror(
                self.as_raw(),
                entry.prov_errno,
                details,
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: fi_cq(3): NUL-terminated; either constant, or in `buffer`, or the details, which
        // end with a 0.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        text.chars().take(TEXT_LEN_MAX).collect()
    }

    /// The domain it belongs to.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.inner.domain
    }

    /// The raw object, still owned by this one: do not close it.
    #[inline]
    #[must_use]
    pub fn as_raw(&self) -> *mut fid_cq {
        self.inner.fid.as_ptr()
    }

    /// Closes it now. Completions not read are lost.
    ///
    /// # Errors
    ///
    /// Gives it back, still open, if clones or endpoints use it (FI_EBUSY) or the provider refuses.
    pub fn close(self) -> Result<(), CloseFailed<Self>> {
        close_shared(self.inner, |inner| &mut inner.fid)
            .map_err(|failed| failed.wrapped(Self::over))
    }
}

/// The answer of `fi_cq_read` for a queue without entries: `fi_cq(3)`.
const EMPTY: isize = -(FI_EAGAIN as isize);

/// A negative answer of `fi_cq_read`.
#[cold]
fn not_entries(code: isize) -> Result<CqPoll, FabricError> {
    match errno_of(code) {
        errno if errno.code() == FI_EAGAIN => Ok(CqPoll::Empty),
        errno if errno.code() == FI_EAVAIL => Ok(CqPoll::ErrorAvailable),
        errno => Err(FabricError::new("fi_cq_read", errno)),
    }
}
