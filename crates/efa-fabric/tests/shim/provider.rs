//! A provider in this process whose operations complete when a test says so. It notes the order of
//! closes, and every use of memory that is no longer registered.

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use efa_fabric::sys::bindings as b;
use efa_fabric::sys::errno as e;
use efa_fabric::sys::grown::{fi_cq_err_entry, fi_mr_attr};

/// What an operation does with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Source,
    Sink,
}

/// An operation that has not completed.
#[derive(Clone, Copy, Debug)]
struct Op {
    kind: Kind,
    buf: *mut u8,
    len: usize,
    context: *mut c_void,
}

/// What the provider of one test (one thread) knows and is told to do.
#[derive(Debug, Default)]
pub(crate) struct State {
    pending: Vec<Op>,
    regions: Vec<(usize, usize)>,
    /// Closes, in order: "ep", "mr", "cq", "av".
    pub(crate) closed: Vec<&'static str>,
    /// Uses of memory that was not registered: must stay empty.
    pub(crate) violations: Vec<String>,
    /// Operations that may complete at the next reads of the queue.
    pub(crate) may_complete: usize,
    /// Posts to answer with "busy" first.
    pub(crate) busy: usize,
    /// What to answer to a close of an endpoint or region.
    pub(crate) ep_close: c_int,
    pub(crate) mr_close: c_int,
    /// How often reading the queue says that there is an error, and reading the error that there is
    /// none yet.
    pub(crate) errors: usize,
    pub(crate) errors_late: usize,
    /// Details are as long as there is room for, and then some.
    pub(crate) long_details: bool,
    /// What reading the queue says, if not 0.
    pub(crate) queue_failure: isize,
    /// What inserting an address says.
    pub(crate) av_insert: c_int,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State { av_insert: 1, ..State::default() });
}

/// Looks at the state, or changes it.
pub(crate) fn with<R>(look: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(look)
}

/// Regions that are registered now.
pub(crate) fn regions() -> usize {
    with(|state| state.regions.len())
}

impl State {
    fn is_registered(&self, op: &Op) -> bool {
        let (from, to) = (op.buf.addr(), op.buf.addr() + op.len);
        self.regions
            .iter()
            .any(|(start, len)| *start <= from && to <= start + len)
    }

    fn check(&mut self, op: &Op) {
        if !self.is_registered(op) {
            self.violations
                .push(format!("{op:?} outside of {:?}", self.regions));
        }
    }

    /// Moves the bytes of an operation, as a device would.
    fn perform(&mut self, op: &Op) {
        self.check(op);
        if !self.violations.is_empty() {
            return;
        }
        match op.kind {
            // SAFETY: registered, so the crate under test promises that it is there (that it is, is
            // what these tests are about; a sanitizer would see).
            Kind::Sink => unsafe { op.buf.write_bytes(0x5a, op.len) },
            // SAFETY: as above.
            Kind::Source => drop(unsafe { core::slice::from_raw_parts(op.buf, op.len) }.to_vec()),
        }
    }

    fn post(&mut self, op: Op) -> isize {
        if self.busy > 0 {
            self.busy -= 1;
            return -(e::FI_EAGAIN as isize);
        }
        self.check(&op);
        self.pending.push(op);
        0
    }
}

unsafe extern "C" fn send(
    _: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    _: u64,
    context: *mut c_void,
) -> isize {
    with(|state| {
        state.post(Op {
            kind: Kind::Source,
            buf: buf.cast_mut().cast(),
            len,
            context,
        })
    })
}

unsafe extern "C" fn recv(
    _: *mut b::fid_ep,
    buf: *mut c_void,
    len: usize,
    _: *mut c_void,
    _: u64,
    context: *mut c_void,
) -> isize {
    with(|state| {
        state.post(Op {
            kind: Kind::Sink,
            buf: buf.cast(),
            len,
            context,
        })
    })
}

unsafe extern "C" fn read(
    _: *mut b::fid_ep,
    buf: *mut c_void,
    len: usize,
    _: *mut c_void,
    _: u64,
    _: u64,
    _: u64,
    context: *mut c_void,
) -> isize {
    with(|state| {
        state.post(Op {
            kind: Kind::Sink,
            buf: buf.cast(),
            len,
            context,
        })
    })
}

unsafe extern "C" fn cq_read(_: *mut b::fid_cq, buf: *mut c_void, count: usize) -> isize {
    with(|state| {
        if state.queue_failure != 0 {
            return state.queue_failure;
        }
        if state.errors > 0 {
            return -(e::FI_EAVAIL as isize);
        }
        let ready = count.min(state.may_complete).min(state.pending.len());
        if ready == 0 {
            return -(e::FI_EAGAIN as isize);
        }
        state.may_complete -= ready;
        let done: Vec<Op> = state.pending.drain(..ready).collect();
        for (i, op) in done.iter().enumerate() {
            state.perform(op);
            let entry = b::fi_cq_data_entry {
                op_context: op.context,
                len: op.len,
                ..Default::default()
            };
            let slot = buf.cast::<b::fi_cq_data_entry>().wrapping_add(i);
            // SAFETY: fi_cq(3): room for `count` entries, and `i` is less.
            unsafe { slot.write(entry) };
        }
        isize::try_from(ready).unwrap_or(0)
    })
}

unsafe extern "C" fn cq_readerr(_: *mut b::fid_cq, entry: *mut fi_cq_err_entry, _: u64) -> isize {
    with(|state| {
        if state.errors_late > 0 {
            state.errors_late -= 1;
            return -(e::FI_EAGAIN as isize);
        }
        state.errors -= 1;
        let op = (!state.pending.is_empty()).then(|| state.pending.remove(0));
        // SAFETY: fi_cq(3): an entry that the caller owns.
        let entry = unsafe { &mut *entry };
        entry.op_context = op.map_or(ptr::null_mut(), |op| op.context);
        entry.err = -e::FI_EIO;
        entry.prov_errno = 4242;
        let long = [b'x'; 4096];
        let words: &[u8] = match state.long_details {
            true => &long,
            false => b"the device says no \xff",
        };
        let len = words.len().min(entry.err_data_size);
        // SAFETY: the caller's buffer has err_data_size bytes.
        unsafe { entry.err_data.cast::<u8>().copy_from(words.as_ptr(), len) };
        entry.err_data_size = len;
        1
    })
}

unsafe extern "C" fn cq_strerror(
    _: *mut b::fid_cq,
    _: c_int,
    details: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    details.cast()
}

unsafe extern "C" fn av_insert(
    _: *mut b::fid_av,
    _: *const c_void,
    _: usize,
    peer: *mut u64,
    _: u64,
    _: *mut c_void,
) -> c_int {
    // SAFETY: fi_av(3): room for one number.
    unsafe { peer.write(0) };
    with(|state| state.av_insert)
}

unsafe extern "C" fn close_ep(_: *mut b::fid) -> c_int {
    with(|state| {
        state.closed.push("ep");
        if state.ep_close == 0 {
            state.pending.clear();
        }
        state.ep_close
    })
}

unsafe extern "C" fn close_mr(fid: *mut b::fid) -> c_int {
    with(|state| {
        state.closed.push("mr");
        if state.mr_close != 0 {
            return state.mr_close;
        }
        // SAFETY: the fid of a region made below, whose context is where it starts.
        let start = unsafe { (*fid).context }.addr();
        state.regions.retain(|region| region.0 != start);
        let orphans: Vec<Op> = state.pending.clone();
        orphans.iter().for_each(|op| state.check(op));
        0
    })
}

unsafe extern "C" fn close_cq(_: *mut b::fid) -> c_int {
    with(|state| state.closed.push("cq"));
    0
}

unsafe extern "C" fn close_av(_: *mut b::fid) -> c_int {
    with(|state| state.closed.push("av"));
    0
}

unsafe extern "C" fn bind(_: *mut b::fid, _: *mut b::fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_: *mut b::fid, _: c_int, _: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn cancel(_: *mut b::fid, _: *mut c_void) -> isize {
    -(e::FI_ENOENT as isize)
}

/// Makes an object that lives for ever, as the fids of a test may.
fn object<T>(value: T) -> *mut T {
    Box::leak(Box::new(value))
}

fn fid(close: unsafe extern "C" fn(*mut b::fid) -> c_int) -> b::fid {
    let ops = b::fi_ops {
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ..Default::default()
    };
    b::fid {
        ops: object(ops),
        ..Default::default()
    }
}

unsafe extern "C" fn cq_open(
    _: *mut b::fid_domain,
    _: *mut b::fi_cq_attr,
    cq: *mut *mut b::fid_cq,
    _: *mut c_void,
) -> c_int {
    let ops = b::fi_ops_cq {
        read: Some(cq_read),
        readerr: Some(cq_readerr),
        strerror: Some(cq_strerror),
        ..Default::default()
    };
    // SAFETY: fi_cq(3): room for the pointer.
    unsafe {
        cq.write(object(b::fid_cq {
            fid: fid(close_cq),
            ops: object(ops),
        }));
    };
    0
}

unsafe extern "C" fn av_open(
    _: *mut b::fid_domain,
    _: *mut b::fi_av_attr,
    av: *mut *mut b::fid_av,
    _: *mut c_void,
) -> c_int {
    let ops = b::fi_ops_av {
        insert: Some(av_insert),
        ..Default::default()
    };
    // SAFETY: fi_av(3): room for the pointer.
    unsafe {
        av.write(object(b::fid_av {
            fid: fid(close_av),
            ops: object(ops),
        }));
    };
    0
}

unsafe extern "C" fn endpoint(
    _: *mut b::fid_domain,
    _: *mut b::fi_info,
    ep: *mut *mut b::fid_ep,
    _: *mut c_void,
) -> c_int {
    let made = b::fid_ep {
        fid: fid(close_ep),
        ops: object(b::fi_ops_ep {
            cancel: Some(cancel),
            ..Default::default()
        }),
        msg: object(b::fi_ops_msg {
            send: Some(send),
            recv: Some(recv),
            ..Default::default()
        }),
        rma: object(b::fi_ops_rma {
            read: Some(read),
            ..Default::default()
        }),
        ..Default::default()
    };
    // SAFETY: fi_endpoint(3): room for the pointer.
    unsafe {
        ep.write(object(made));
    };
    0
}

unsafe extern "C" fn regattr(
    _: *mut b::fid,
    attr: *const fi_mr_attr,
    _: u64,
    mr: *mut *mut b::fid_mr,
) -> c_int {
    // SAFETY: fi_mr(3): attributes with one segment.
    let iov = unsafe { (*attr).mr_iov }.cast::<libc::iovec>();
    // SAFETY: as above.
    let iov = unsafe { iov.read() };
    with(|state| state.regions.push((iov.iov_base.addr(), iov.iov_len)));
    let mut fid = fid(close_mr);
    fid.context = iov.iov_base;
    // SAFETY: fi_mr(3): room for the pointer.
    unsafe {
        mr.write(object(b::fid_mr {
            fid,
            mem_desc: ptr::null_mut(),
            key: 1,
        }));
    };
    0
}

/// A domain of this provider, for `Domain::from_raw`.
pub(crate) fn domain() -> *mut b::fid_domain {
    let ops = b::fi_ops_domain {
        cq_open: Some(cq_open),
        av_open: Some(av_open),
        endpoint: Some(endpoint),
        ..Default::default()
    };
    let mr = b::fi_ops_mr {
        regattr: Some(regattr),
        ..Default::default()
    };
    object(b::fid_domain {
        fid: fid(close_av),
        ops: object(ops),
        mr: object(mr),
    })
}
