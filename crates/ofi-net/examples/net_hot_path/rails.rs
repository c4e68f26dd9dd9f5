//! A real provider whose data path is taken out once everything is set up: posts are taken and noted, completion
//! queues give what was staged. What is measured between them is ours alone.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use efa_fabric::consts;
use efa_fabric::sys::bindings as b;
use efa_fabric::sys::errno as e;

use crate::table::{self, Table};

static FABRIC: Table<b::fi_ops_fabric> = Table::new();
static DOMAIN: Table<b::fi_ops_domain> = Table::new();
static CQ: Table<b::fi_ops_cq> = Table::new();
static EP_FID: Table<b::fi_ops> = Table::new();
static MSG: Table<b::fi_ops_msg> = Table::new();
static RMA: Table<b::fi_ops_rma> = Table::new();

thread_local! {
    /// Nothing goes to the provider.
    static OUT: Cell<bool> = const { Cell::new(false) };
    /// Contexts of what was posted since.
    static POSTED: RefCell<Vec<*mut c_void>> = const { RefCell::new(Vec::new()) };
    /// What queues give, the last one first.
    static STAGED: RefCell<Vec<b::fi_cq_data_entry>> = const { RefCell::new(Vec::new()) };
    /// In a call of the provider: what it posts for itself is its own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn inside<R>(call: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let result = call();
    INSIDE.set(before);
    result
}

/// A function in place of a provider's: `go` calls that one with the arguments as they are.
macro_rules! hook {
    ($name:ident = $table:ident.$slot:ident($($arg:ident: $kind:ty),*) -> $ret:ty: |$go:ident| $body:expr) => {
        unsafe extern "C" fn $name($($arg: $kind),*) -> $ret {
            let $go = || {
                let own = $table.original().$slot.expect("a function that is called");
                // SAFETY: the arguments of the call that was made, and the function it was made to.
                inside(|| unsafe { own($($arg),*) })
            };
            if INSIDE.get() { $go() } else { $body }
        }
    };
}

/// An operation: noted, once the provider is out.
#[inline]
fn post(context: *mut c_void, go: impl FnOnce() -> isize) -> isize {
    if !OUT.get() {
        return go();
    }
    POSTED.with_borrow_mut(|posted| posted.push(context));
    0
}

/// The object that an open call wrote to `out`.
///
/// # Safety
/// The call succeeded: there is one, and nobody else knows it yet.
unsafe fn made<'a, T>(out: *mut *mut T) -> &'a mut T {
    // SAFETY: the caller's promise.
    let object = unsafe { *out };
    // SAFETY: as above.
    unsafe { &mut *object }
}

hook!(domain = FABRIC.domain(
    fabric: *mut b::fid_fabric, info: *mut b::fi_info, out: *mut *mut b::fid_domain, context: *mut c_void
) -> c_int: |go| {
    let code = go();
    if code == 0 {
        // SAFETY: opened, and nobody else knows it yet.
        let object = unsafe { made(out) };
        // SAFETY: the table of an open object.
        unsafe { DOMAIN.hook(&mut object.ops, |ops| {
            ops.cq_open = Some(cq_open);
            ops.endpoint = Some(endpoint);
        }); }
    }
    code
});

hook!(cq_open = DOMAIN.cq_open(
    domain: *mut b::fid_domain, attr: *mut b::fi_cq_attr, out: *mut *mut b::fid_cq, context: *mut c_void
) -> c_int: |go| {
    let code = go();
    if code == 0 {
        // SAFETY: as above.
        let object = unsafe { made(out) };
        // SAFETY: as above.
        unsafe { CQ.hook(&mut object.ops, |ops| ops.read = Some(cq_read)); }
    }
    code
});

hook!(endpoint = DOMAIN.endpoint(
    domain: *mut b::fid_domain, info: *mut b::fi_info, out: *mut *mut b::fid_ep, context: *mut c_void
) -> c_int: |go| {
    let code = go();
    if code == 0 {
        // SAFETY: as above.
        let object = unsafe { made(out) };
        // SAFETY: as above.
        unsafe { EP_FID.hook(&mut object.fid.ops, |ops| ops.control = Some(enable)); }
    }
    code
});

// Providers choose the functions that post when an endpoint is enabled.
hook!(enable = EP_FID.control(fid: *mut b::fid, command: c_int, arg: *mut c_void) -> c_int: |go| {
    let code = go();
    if code == 0 {
        // SAFETY: an endpoint: it was hooked as one.
        let object = unsafe { &mut *fid.cast::<b::fid_ep>() };
        // SAFETY: as above.
        unsafe { MSG.hook(&mut object.msg, |ops| {
            ops.send = Some(send);
            ops.senddata = Some(senddata);
            ops.recv = Some(recv);
        }); }
        // SAFETY: as above.
        unsafe { RMA.hook(&mut object.rma, |ops| ops.writedata = Some(writedata)); }
    }
    code
});

hook!(send = MSG.send(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| post(context, go));
hook!(senddata = MSG.senddata(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| post(context, go));
hook!(recv = MSG.recv(
    ep: *mut b::fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| if OUT.get() { 0 } else { go() });
hook!(writedata = RMA.writedata(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, peer: b::fi_addr_t,
    addr: u64, key: u64, context: *mut c_void
) -> isize: |go| post(context, go));

hook!(cq_read = CQ.read(cq: *mut b::fid_cq, buf: *mut c_void, count: usize) -> isize: |go| {
    if !OUT.get() {
        return go();
    }
    STAGED.with_borrow_mut(|staged| {
        let mut given = 0;
        while given < count {
            let Some(entry) = staged.pop() else { break };
            let place = buf.cast::<b::fi_cq_data_entry>().wrapping_add(given);
            // SAFETY: fi_cq(3): room for `count` entries of the format DATA.
            unsafe { place.write(entry) };
            given += 1;
        }
        match isize::try_from(given) {
            Ok(given) if given > 0 => given,
            _ => -(e::FI_EAGAIN as isize),
        }
    })
});

/// From now on, what is opened can be taken out.
pub(crate) fn install() {
    table::install(&FABRIC, domain);
}

/// The provider is out, or back: nothing is posted, and nothing staged.
pub(crate) fn take_out(out: bool) {
    OUT.set(out);
    POSTED.with_borrow_mut(|posted| {
        posted.clear();
        posted.reserve(4096);
    });
    STAGED.with_borrow_mut(|staged| {
        staged.clear();
        staged.reserve(4096);
    });
}

/// How many operations were posted since.
pub(crate) fn posted() -> usize {
    POSTED.with_borrow(Vec::len)
}

/// What was posted since completes, in order, and does not count any more.
pub(crate) fn complete() {
    let entry = |op_context: *mut c_void| b::fi_cq_data_entry {
        op_context,
        flags: consts::FI_SEND | consts::FI_MSG,
        len: 0,
        buf: core::ptr::null_mut(),
        data: 0,
    };
    POSTED.with_borrow_mut(|posted| {
        STAGED.with_borrow_mut(|staged| staged.extend(posted.drain(..).rev().map(entry)));
    });
}

/// Writes of a peer of `len` bytes arrive, in order.
pub(crate) fn arrive(immediates: &[u64], len: usize) {
    let entry = |&data: &u64| b::fi_cq_data_entry {
        op_context: core::ptr::null_mut(),
        flags: consts::FI_RMA | consts::FI_REMOTE_WRITE | consts::FI_REMOTE_CQ_DATA,
        len,
        buf: core::ptr::null_mut(),
        data,
    };
    STAGED.with_borrow_mut(|staged| staged.extend(immediates.iter().rev().map(entry)));
}
