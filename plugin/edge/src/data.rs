//! isend, irecv, iflush, test.
//!
//! A NULL request with success means "not now, call again" for isend and irecv, and "nothing to wait
//! for" for iflush (decision 10).

use core::ffi::{c_int, c_void};

use ofi_net::error::{Code, NetError};
use ofi_net::{CommWord, Done, MrWord, ReqWord};

use crate::abi::{self, NcclResult};
use crate::connection::comm_word;
use crate::instance::{self, Instance};
use crate::memory::region;
use crate::pointer::{Out, carried, word};
use crate::profiler::{Direction, State};
use crate::translate::Fail;

/// One buffer of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where it starts.
    pub data: *mut c_void,
    /// Its bytes; 0 is legal.
    pub size: usize,
    /// What regMr gave for it.
    pub mhandle: *mut c_void,
    /// The profiler's event that its own belongs to; NULL: none.
    pub parent: *mut c_void,
}

impl Message {
    /// From a table whose sizes are `int` or `size_t`. test reports sizes as `int` in every version,
    /// so there is one bound for all.
    ///
    /// # Errors
    /// A negative size (3), one beyond `INT_MAX` (5).
    pub fn new<S: Size>(data: *mut c_void, size: S, mhandle: *mut c_void) -> Result<Self, Fail> {
        let size = size.bytes().map_err(Fail::from)?;
        Ok(Self {
            data,
            size,
            mhandle,
            parent: core::ptr::null_mut(),
        })
    }

    /// The same message with an event of the profiler.
    #[must_use]
    pub const fn with_parent(mut self, parent: *mut c_void) -> Self {
        self.parent = parent;
        self
    }

    pub(crate) fn region(&self) -> Option<MrWord> {
        region(self.mhandle)
    }
}

/// What tables write sizes in.
pub trait Size: Copy {
    /// The size in bytes.
    ///
    /// # Errors
    /// Negative, or longer than a message can be.
    fn bytes(self) -> Result<usize, NetError>;
}

impl Size for c_int {
    fn bytes(self) -> Result<usize, NetError> {
        let negative = |_| NetError::new(Code::NegativeSize, format!("size {self}"));
        usize::try_from(self).map_err(negative)
    }
}

impl Size for usize {
    fn bytes(self) -> Result<usize, NetError> {
        if c_int::try_from(self).is_ok() {
            Ok(self)
        } else {
            Err(NetError::new(Code::TooLong, format!("size {self}")))
        }
    }
}

/// The arrays of a grouped irecv or iflush.
#[derive(Clone, Copy, Debug)]
pub struct Group<S> {
    /// Entries of each array.
    pub n: c_int,
    /// Where the buffers start.
    pub data: *mut *mut c_void,
    /// Their bytes.
    pub sizes: *mut S,
    /// What regMr gave for them.
    pub mhandles: *mut *mut c_void,
}

impl<S: Size> Group<S> {
    /// The one message of a group of one. The arrays are only read (trap 18), and only after `n` was
    /// looked at.
    ///
    /// # Safety
    /// Arrays that are not NULL must be readable for `n` entries.
    ///
    /// # Errors
    /// `n` other than 1 and NULL arrays, both with `result`; the sizes that [`Message::new`] refuses.
    pub unsafe fn single(&self, result: NcclResult) -> Result<Message, Fail> {
        if self.n != 1 {
            return Err(Fail::fixed(
                result,
                Code::Grouped,
                format!("n is {}", self.n),
            ));
        }
        let null = |name| move || Fail::null(result, name);
        // SAFETY: one entry is readable by the contract, if the array is there.
        let data = unsafe { self.data.as_ref() }.ok_or_else(null("data"))?;
        // SAFETY: as above.
        let size = unsafe { self.sizes.as_ref() }.ok_or_else(null("sizes"))?;
        // SAFETY: as above.
        let mhandle = unsafe { self.mhandles.as_ref() }.ok_or_else(null("mhandles"))?;
        Message::new(*data, *size, *mhandle)
    }
}

/// Refuses a NULL argument that is otherwise not looked at.
///
/// # Errors
/// `given` is false.
pub fn require(given: bool, result: NcclResult, name: &str) -> Result<(), Fail> {
    if given {
        Ok(())
    } else {
        Err(Fail::null(result, name))
    }
}

/// isend.
///
/// # Safety
/// The message must stay readable and unchanged until its request is done; `request`, if not NULL,
/// must be valid for writes.
///
/// # Errors
/// NULL (3), not initialised (4), those of the communicator.
pub unsafe fn send(
    comm: *mut c_void,
    message: Message,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INTERNAL_ERROR, "request") }?;
    start(&request, |instance| {
        let comm = comm_word(comm, "sendComm", abi::INTERNAL_ERROR)?;
        let Message { data, size, .. } = message;
        // SAFETY: the caller leaves the message alone until the request is done.
        let started = unsafe { instance.transport.isend(comm, data, size, message.region()) }?;
        observe(instance, started, (Direction::Send, comm), &message);
        Ok(started)
    })
}

/// irecv of one buffer. `*request` is an input too: 1 says that the caller does not need the
/// completion (`NCCL_NET_OPTIONAL_RECV_COMPLETION`), read anew at each retry (trap 17).
///
/// # Safety
/// The buffer must stay writable and untouched until its request is done; `request`, if not NULL,
/// must be valid for reads and writes.
///
/// # Errors
/// NULL (4), not initialised (4), those of the communicator.
pub unsafe fn recv(
    comm: *mut c_void,
    message: Message,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INVALID_ARGUMENT, "request") }?;
    let optional = request.get().addr() == abi::OPTIONAL_COMPLETION;
    start(&request, |instance| {
        let comm = comm_word(comm, "recvComm", abi::INVALID_ARGUMENT)?;
        let Message { data, size, .. } = message;
        // SAFETY: the caller leaves the buffer alone until the request is done.
        let started = unsafe {
            instance
                .transport
                .irecv(comm, data, size, message.region(), optional)
        }?;
        observe(instance, started, (Direction::Recv, comm), &message);
        Ok(started)
    })
}

/// iflush of one buffer.
///
/// # Safety
/// The buffer must stay mapped until the request is done; `request`, if not NULL, must be valid for
/// writes.
///
/// # Errors
/// NULL (3), not initialised (4), those of the communicator.
pub unsafe fn flush(
    comm: *mut c_void,
    message: Message,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INTERNAL_ERROR, "request") }?;
    start(&request, |instance| {
        let comm = comm_word(comm, "recvComm", abi::INTERNAL_ERROR)?;
        if message.size == 0 {
            return Ok(None);
        }
        let mr = message
            .region()
            .ok_or_else(|| Fail::null(abi::INTERNAL_ERROR, "mhandle"))?;
        // SAFETY: the caller keeps the buffer mapped until the request is done.
        Ok(unsafe {
            instance
                .transport
                .iflush(comm, message.data, message.size, mr)
        }?)
    })
}

/// Tells the profiler of a started request that belongs to an event of its own.
#[inline]
fn observe(
    instance: &Instance,
    started: Option<ReqWord>,
    whose: (Direction, CommWord),
    message: &Message,
) {
    if message.parent.is_null() {
        return;
    }
    if let (Some(events), Some(request)) = (&instance.events, started) {
        events.started(request, whose, message.size, message.parent);
    }
}

/// Starts something and carries its request out; NULL when there is none, also after a failure.
pub(crate) fn start(
    request: &Out<*mut c_void>,
    call: impl FnOnce(&Instance) -> Result<Option<ReqWord>, Fail>,
) -> Result<(), Fail> {
    request.set(core::ptr::null_mut());
    instance::with(|instance| {
        if let Some(word) = call(instance)? {
            request.set(carried(word.to_bits())?);
        }
        Ok(())
    })
}

/// test: `*done` 0 or 1; `*size` is written only when done, and may be NULL.
///
/// # Safety
/// `done` and `size`, if not NULL, must be valid for writes.
///
/// # Errors
/// NULL request or done (3), a request that is not there (3), not initialised (4), the first failure
/// of the request's communicator.
pub unsafe fn test(request: *mut c_void, done: *mut c_int, size: *mut c_int) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let done = unsafe { Out::new(done, abi::INTERNAL_ERROR, "done") }?;
    done.set(0);
    instance::with(|instance| {
        let null = || Fail::null(abi::INTERNAL_ERROR, "request");
        let request = word(request).map(ReqWord::from_bits).ok_or_else(null)?;
        let tested = instance.transport.test_done(request);
        if let Some(events) = &instance.events {
            match &tested {
                Ok(Some(done)) => {
                    let rails = done.rails.bits().into();
                    events.ended(request, State::Done, rails, done.bytes);
                }
                Ok(None) => {}
                // A child does not speak for its parent.
                Err(error) if error.code() == Code::Forked => {}
                Err(_) => events.ended(request, State::Failed, 0, 0),
            }
        }
        let Some(Done { bytes, .. }) = tested? else {
            return Ok(());
        };
        done.set(1);
        // SAFETY: the caller's contract.
        if let Ok(size) = unsafe { Out::new(size, abi::INTERNAL_ERROR, "size") } {
            size.set(c_int::try_from(bytes).unwrap_or(c_int::MAX));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::{dangling_mut, null_mut};

    fn group(n: c_int, data: *mut *mut c_void, sizes: *mut c_int) -> Group<c_int> {
        let mhandles = data;
        Group {
            n,
            data,
            sizes,
            mhandles,
        }
    }

    fn refusal(group: &Group<c_int>) -> String {
        // SAFETY: what is not NULL is readable, or not looked at for its count: that is the test.
        match unsafe { group.single(abi::INVALID_ARGUMENT) } {
            Ok(message) => panic!("{message:?}"),
            Err(fail) => format!("{:?}", fail.error.code()),
        }
    }

    /// Trap 18: the count is looked at before any array, and arrays are read only, sizes of 0 included.
    #[test]
    fn trap_18_the_callers_arrays_are_read_only_and_not_beyond_their_count() {
        for n in [0, -1, 2, 8, c_int::MAX] {
            assert!(
                refusal(&group(n, null_mut(), null_mut())).contains("Grouped"),
                "looked at before {n}"
            );
            // No address that can be read.
            let nowhere = group(n, dangling_mut(), dangling_mut());
            assert!(refusal(&nowhere).contains("Grouped"), "{n}");
        }
        assert!(refusal(&group(1, null_mut(), null_mut())).contains("NullArgument"));
        let (mut data, mut size) = (core::ptr::without_provenance_mut(0x5000), 0);
        // SAFETY: one entry is readable.
        let message = unsafe { group(1, &raw mut data, &raw mut size).single(abi::INTERNAL_ERROR) };
        assert!(message.is_ok_and(|m| m.size == 0 && m.data.addr() == 0x5000));
        assert_eq!((data.addr(), size), (0x5000, 0), "changed");
        // Memory that a write would end the process in.
        static SIZES: [c_int; 1] = [0];
        static DATA: [usize; 1] = [0x5000];
        let sizes = SIZES.as_ptr().cast_mut();
        let group = group(1, DATA.as_ptr().cast_mut().cast(), sizes);
        // SAFETY: one entry is readable.
        let message = unsafe { group.single(abi::INVALID_ARGUMENT) };
        assert!(message.is_ok_and(|m| m.size == 0 && m.data.addr() == 0x5000));
    }
}
