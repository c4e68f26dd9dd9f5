//! A real provider that is meddled with: objects are counted, calls fail when a test says so, posts are
//! busy first, keys have other values, completions come as errors.
//!
//! The domains that are opened get tables of ours ([`table`]), and so do the objects opened from those. What is
//! not meddled with goes on to the provider's own function.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use efa_fabric::consts;
use efa_fabric::sys::bindings as b;
use efa_fabric::sys::errno as e;
use efa_fabric::sys::grown::{fi_cq_err_entry, fi_mr_attr};

use crate::state::with;
use crate::table::{self, Table};

static FABRIC: Table<b::fi_ops_fabric> = Table::new();
static DOMAIN: Table<b::fi_ops_domain> = Table::new();
static DOMAIN_FID: Table<b::fi_ops> = Table::new();
static MR: Table<b::fi_ops_mr> = Table::new();
static MR_FID: Table<b::fi_ops> = Table::new();
static CQ: Table<b::fi_ops_cq> = Table::new();
static CQ_FID: Table<b::fi_ops> = Table::new();
static AV: Table<b::fi_ops_av> = Table::new();
static AV_FID: Table<b::fi_ops> = Table::new();
static EP_FID: Table<b::fi_ops> = Table::new();
static EP: Table<b::fi_ops_ep> = Table::new();
static CM: Table<b::fi_ops_cm> = Table::new();
static MSG: Table<b::fi_ops_msg> = Table::new();
static RMA: Table<b::fi_ops_rma> = Table::new();
static TAGGED: Table<b::fi_ops_tagged> = Table::new();

thread_local! {
    /// In a call of the provider: what it opens for itself goes through the same tables, and is its own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls the provider.
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

/// A call that sets something up: it fails if it is its turn; `opened` sees what it made.
fn set_up(name: &'static str, go: impl FnOnce() -> c_int, opened: impl FnOnce()) -> c_int {
    if let Some(errno) = with(|state| state.fails(name)) {
        return -errno;
    }
    let code = go();
    if code == 0 {
        opened();
    }
    code
}

/// What a test calls the closing of an object of this class.
pub(crate) const fn closing(class: &'static str) -> &'static str {
    match class.as_bytes() {
        b"domain" => "fi_close(domain)",
        b"cq" => "fi_close(cq)",
        b"av" => "fi_close(av)",
        b"ep" => "fi_close(ep)",
        b"mr" => "fi_close(mr)",
        _ => "fi_close",
    }
}

fn close(class: &'static str, fid: *mut b::fid, go: impl FnOnce() -> c_int) -> c_int {
    let refused = with(|state| state.refuses(class).or_else(|| state.fails(closing(class))));
    if let Some(errno) = refused {
        return -errno;
    }
    // Before the call: its address may be another object's right after.
    with(|state| state.closed(class, fid.addr()));
    let code = go();
    if code != 0 {
        with(|state| state.opened(class, fid.addr()));
    }
    code
}

/// A post: busy as often as a test wants, each time; it fails if it is its turn.
fn post(name: &'static str, ep: *mut b::fid_ep, go: impl FnOnce() -> isize) -> isize {
    if with(|state| state.is_busy(ep.addr())) {
        return -(e::FI_EAGAIN as isize);
    }
    data(name, go)
}

/// A call that moves data or asks for completions: it fails if it is its turn.
fn data(name: &'static str, go: impl FnOnce() -> isize) -> isize {
    match with(|state| state.fails(name)) {
        Some(errno) => -(errno as isize),
        None => go(),
    }
}

/// The object that an open call wrote to `out`.
///
/// # Safety
/// The call succeeded: there is one, and nobody else knows it yet.
unsafe fn made<'a, T>(class: &'static str, out: *mut *mut T) -> &'a mut T {
    // SAFETY: the caller's promise.
    let object = unsafe { *out };
    with(|state| state.opened(class, object.addr()));
    // SAFETY: as above.
    unsafe { &mut *object }
}

hook!(domain = FABRIC.domain(
    fabric: *mut b::fid_fabric, info: *mut b::fi_info, out: *mut *mut b::fid_domain, context: *mut c_void
) -> c_int: |go| set_up("fi_domain", go, || {
    // SAFETY: opened.
    let object = unsafe { made("domain", out) };
    // SAFETY: as above.
    unsafe { DOMAIN_FID.hook(&mut object.fid.ops, |ops| ops.close = Some(close_domain)); }
    // SAFETY: as above.
    unsafe { DOMAIN.hook(&mut object.ops, |ops| {
        ops.cq_open = Some(cq_open);
        ops.av_open = Some(av_open);
        ops.endpoint = Some(endpoint);
    }); }
    // SAFETY: as above.
    unsafe { MR.hook(&mut object.mr, |ops| ops.regattr = Some(regattr)); }
    if with(|state| state.binds) {
        // SAFETY: the entry of the call, which is its caller's own.
        let entry = unsafe { &mut *info };
        // SAFETY: `fi_getinfo(3)`: every entry has them.
        let attributes = unsafe { &mut *entry.domain_attr };
        attributes.mr_mode |= consts::FI_MR_ENDPOINT;
    }
}));

hook!(cq_open = DOMAIN.cq_open(
    domain: *mut b::fid_domain, attr: *mut b::fi_cq_attr, out: *mut *mut b::fid_cq, context: *mut c_void
) -> c_int: |go| set_up("fi_cq_open", go, || {
    // SAFETY: opened.
    let object = unsafe { made("cq", out) };
    // SAFETY: the attributes of the call.
    let format = unsafe { (*attr).format };
    with(|state| state.has_data_entries = format == b::FI_CQ_FORMAT_DATA);
    // SAFETY: as above.
    unsafe { CQ_FID.hook(&mut object.fid.ops, |ops| ops.close = Some(close_cq)); }
    // SAFETY: as above.
    unsafe { CQ.hook(&mut object.ops, |ops| {
        ops.read = Some(cq_read);
        ops.readerr = Some(cq_readerr);
    }); }
}));

hook!(av_open = DOMAIN.av_open(
    domain: *mut b::fid_domain, attr: *mut b::fi_av_attr, out: *mut *mut b::fid_av, context: *mut c_void
) -> c_int: |go| set_up("fi_av_open", go, || {
    // SAFETY: opened.
    let object = unsafe { made("av", out) };
    // SAFETY: as above.
    unsafe { AV_FID.hook(&mut object.fid.ops, |ops| ops.close = Some(close_av)); }
    // SAFETY: as above.
    unsafe { AV.hook(&mut object.ops, |ops| ops.insert = Some(av_insert)); }
}));

hook!(endpoint = DOMAIN.endpoint(
    domain: *mut b::fid_domain, info: *mut b::fi_info, out: *mut *mut b::fid_ep, context: *mut c_void
) -> c_int: |go| set_up("fi_endpoint", go, || {
    // SAFETY: opened.
    let object = unsafe { made("ep", out) };
    // SAFETY: as above.
    unsafe { EP_FID.hook(&mut object.fid.ops, |ops| {
        ops.close = Some(close_ep);
        ops.bind = Some(bind);
        ops.control = Some(enable);
    }); }
    // SAFETY: as above.
    unsafe { EP.hook(&mut object.ops, |ops| {
        ops.getopt = Some(getopt);
        ops.setopt = Some(setopt);
    }); }
    // SAFETY: as above.
    unsafe { CM.hook(&mut object.cm, |ops| ops.getname = Some(getname)); }
}));

hook!(bind = EP_FID.bind(fid: *mut b::fid, other: *mut b::fid, flags: u64) -> c_int:
    |go| set_up("fi_ep_bind", go, || ()));

// Providers choose the functions that post when an endpoint is enabled.
hook!(enable = EP_FID.control(fid: *mut b::fid, command: c_int, arg: *mut c_void) -> c_int:
|go| set_up("fi_enable", go, || {
    // SAFETY: an endpoint: it was hooked as one.
    let object = unsafe { &mut *fid.cast::<b::fid_ep>() };
    // SAFETY: as above.
    unsafe { MSG.hook(&mut object.msg, |ops| {
        ops.send = Some(send);
        ops.senddata = Some(senddata);
        ops.recv = Some(recv);
        ops.inject = Some(inject);
        ops.injectdata = Some(injectdata);
    }); }
    // SAFETY: as above.
    unsafe { TAGGED.hook(&mut object.tagged, |ops| {
        ops.send = Some(tsend);
        ops.recv = Some(trecv);
    }); }
    // SAFETY: as above.
    unsafe { RMA.hook(&mut object.rma, |ops| {
        ops.write = Some(write);
        ops.writedata = Some(writedata);
        ops.read = Some(read);
    }); }
}));

hook!(getopt = EP.getopt(
    fid: b::fid_t, level: c_int, name: c_int, value: *mut c_void, len: *mut usize
) -> c_int: |go| set_up("fi_getopt", go, || ()));
hook!(setopt = EP.setopt(
    fid: b::fid_t, level: c_int, name: c_int, value: *const c_void, len: usize
) -> c_int: |go| set_up("fi_setopt", go, || ()));
hook!(getname = CM.getname(fid: b::fid_t, addr: *mut c_void, len: *mut usize) -> c_int:
    |go| set_up("fi_getname", go, || ()));

hook!(av_insert = AV.insert(
    av: *mut b::fid_av, addr: *const c_void, count: usize, out: *mut b::fi_addr_t, flags: u64,
    context: *mut c_void
) -> c_int: |go| set_up("fi_av_insert", go, || ()));

hook!(regattr = MR.regattr(
    fid: *mut b::fid, attr: *const fi_mr_attr, flags: u64, out: *mut *mut b::fid_mr
) -> c_int: |go| set_up("fi_mr_regattr", go, || {
    // SAFETY: registered.
    let object = unsafe { made("mr", out) };
    // SAFETY: an open region.
    unsafe { MR_FID.hook(&mut object.fid.ops, |ops| {
        ops.close = Some(close_mr);
        ops.bind = Some(bind_mr);
        ops.control = Some(enable_mr);
    }); }
    let region = core::ptr::from_mut(object).addr();
    object.key = with(|state| state.registered(region, object.key));
}));

// The provider has no need of it, and is not told.
hook!(bind_mr = MR_FID.bind(fid: *mut b::fid, other: *mut b::fid, flags: u64) -> c_int:
    |go| set_up("fi_mr_bind", || with(|state| state.bind(fid.addr())), || ()));
hook!(enable_mr = MR_FID.control(fid: *mut b::fid, command: c_int, arg: *mut c_void) -> c_int:
|go| set_up("fi_mr_enable", || {
    let Some(key) = with(|state| state.enable(fid.addr())) else { return -libc::EINVAL };
    // SAFETY: a region: it was hooked as one.
    unsafe { (*fid.cast::<b::fid_mr>()).key = key; }
    0
}, || ()));

hook!(close_domain = DOMAIN_FID.close(fid: *mut b::fid) -> c_int: |go| close("domain", fid, go));
hook!(close_cq = CQ_FID.close(fid: *mut b::fid) -> c_int: |go| close("cq", fid, go));
hook!(close_av = AV_FID.close(fid: *mut b::fid) -> c_int: |go| close("av", fid, go));
hook!(close_ep = EP_FID.close(fid: *mut b::fid) -> c_int: |go| close("ep", fid, go));
hook!(close_mr = MR_FID.close(fid: *mut b::fid) -> c_int: |go| {
    // SAFETY: a region: it was hooked as one.
    let object = unsafe { &mut *fid.cast::<b::fid_mr>() };
    object.key = with(|state| state.closing(fid.addr(), object.key));
    close("mr", fid, go)
});

hook!(send = MSG.send(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| post("fi_send", ep, go));
hook!(senddata = MSG.senddata(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| post("fi_senddata", ep, go));
hook!(recv = MSG.recv(
    ep: *mut b::fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t,
    context: *mut c_void
) -> isize: |go| post("fi_recv", ep, go));

hook!(inject = MSG.inject(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, peer: b::fi_addr_t
) -> isize: |go| post("fi_inject", ep, go));
hook!(injectdata = MSG.injectdata(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, data: u64, peer: b::fi_addr_t
) -> isize: |go| post("fi_injectdata", ep, go));

hook!(tsend = TAGGED.send(
    ep: *mut b::fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t, tag: u64,
    context: *mut c_void
) -> isize: |go| post("fi_tsend", ep, go));
hook!(trecv = TAGGED.recv(
    ep: *mut b::fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, peer: b::fi_addr_t, tag: u64,
    ignore: u64, context: *mut c_void
) -> isize: |go| post("fi_trecv", ep, go));

/// As `hook!`, for operations with a remote key: it is the provider's own again.
macro_rules! keyed {
    ($name:ident = RMA.$slot:ident($($arg:ident: $kind:ty),*)) => {
        unsafe extern "C" fn $name(
            ep: *mut b::fid_ep, $($arg: $kind,)* peer: b::fi_addr_t, addr: u64, key: u64, context: *mut c_void,
        ) -> isize {
            let key = with(|state| state.real_key(key));
            post(concat!("fi_", stringify!($slot)), ep, || {
                let own = RMA.original().$slot.expect("a function that is called");
                // SAFETY: the arguments of the call that was made, with the key that the provider knows.
                inside(|| unsafe { own(ep, $($arg,)* peer, addr, key, context) })
            })
        }
    };
}

keyed!(write = RMA.write(buf: *const c_void, len: usize, desc: *mut c_void));
keyed!(writedata = RMA.writedata(buf: *const c_void, len: usize, desc: *mut c_void, data: u64));
keyed!(read = RMA.read(buf: *mut c_void, len: usize, desc: *mut c_void));

hook!(cq_read = CQ.read(cq: *mut b::fid_cq, buf: *mut c_void, count: usize) -> isize: |go| {
    if with(|state| state.has_error(cq.addr())) {
        return -(e::FI_EAVAIL as isize);
    }
    let got = data("fi_cq_read", go);
    let Ok(length) = usize::try_from(got) else { return got };
    if !with(|state| state.has_data_entries) {
        return got;
    }
    // SAFETY: fi_cq(3): so many entries of the format DATA were written.
    let entries = unsafe { core::slice::from_raw_parts_mut(buf.cast::<b::fi_cq_data_entry>(), length) };
    let left = with(|state| state.tamper(cq.addr(), entries));
    if left == 0 && length > 0 {
        return -(e::FI_EAVAIL as isize);
    }
    isize::try_from(left).expect("not more than there were")
});

hook!(cq_readerr = CQ.readerr(cq: *mut b::fid_cq, out: *mut fi_cq_err_entry, flags: u64) -> isize: |go| {
    if let Some(errno) = with(|state| state.fails("fi_cq_readerr")) {
        return -(errno as isize);
    }
    let Some(error) = with(|state| state.take_error(cq.addr())) else { return go() };
    // SAFETY: fi_cq(3): an entry that the caller owns.
    let out = unsafe { &mut *out };
    out.op_context = core::ptr::with_exposed_provenance_mut(error.context);
    (out.err, out.prov_errno, out.err_data_size) = (error.errno, error.provider_errno, 0);
    1
});

/// Meddles with what is opened from now on, by the provider that `FI_PROVIDER` names.
pub(crate) fn install() {
    table::install(&FABRIC, domain);
}
