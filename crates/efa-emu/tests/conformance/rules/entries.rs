//! What objects are opened with, and hints that leave something out.

use core::ptr::null_mut;

use efa_fabric::InfoBuf;
use efa_fabric::consts as c;
use efa_fabric::sys::{bindings as b, errno as e, ops};

use crate::run::Fabric;
use crate::side::{Actor, Side, entry, hints, library};

/// The parts of an entry.
pub(super) struct Parts<'a> {
    pub(super) info: &'a mut b::fi_info,
    pub(super) ep: &'a mut b::fi_ep_attr,
    pub(super) domain: &'a mut b::fi_domain_attr,
    pub(super) tx: &'a mut b::fi_tx_attr,
    pub(super) rx: &'a mut b::fi_rx_attr,
}

/// Looks at an entry, or changes it.
pub(super) fn edit(entry: &InfoBuf, change: impl FnOnce(Parts<'_>)) {
    let raw = entry.as_raw();
    // SAFETY: an fi_info of its own, and nobody else looks at it meanwhile.
    let info = unsafe { &mut *raw };
    let (ep, domain, tx, rx) = (info.ep_attr, info.domain_attr, info.tx_attr, info.rx_attr);
    change(Parts {
        info,
        // SAFETY: fi_getinfo(3): an entry has all its attributes, each in memory of its own.
        ep: unsafe { &mut *ep },
        // SAFETY: as above.
        domain: unsafe { &mut *domain },
        // SAFETY: as above.
        tx: unsafe { &mut *tx },
        // SAFETY: as above.
        rx: unsafe { &mut *rx },
    });
}

type Change = fn(Parts<'_>);

/// What an entry is made into that was never given.
const CHANGES: &[(&str, Change)] = &[
    ("datagrams", |p| p.ep.type_ = b::FI_EP_DGRAM),
    ("connections", |p| p.ep.type_ = b::FI_EP_MSG),
    ("another protocol", |p| p.ep.protocol = 1),
    ("two contexts", |p| p.ep.tx_ctx_cnt = 2),
    ("atomics", |p| p.info.caps |= c::FI_ATOMIC),
    ("another address", |p| {
        p.info.addr_format = c::FI_SOCKADDR_IN;
    }),
    ("order of writes", |p| p.tx.msg_order |= 1 << 4),
    ("deep queues", |p| p.tx.size = 1 << 20),
    ("many receives", |p| p.rx.size = 1 << 20),
    ("many pieces", |p| p.tx.iov_limit = 100),
    ("8 bytes of data", |p| p.domain.cq_data_size = 8),
];

/// Opens an endpoint, and closes it again; what opening said.
fn open(side: &Side, info: *mut b::fi_info) -> i32 {
    let mut ep = null_mut();
    // SAFETY: fi_endpoint(3): an open domain, an entry or NULL, and where the object goes.
    let code = unsafe { ops::fi_endpoint(side.domain.as_raw(), info, &raw mut ep, null_mut()) };
    assert_eq!(code == 0, !ep.is_null());
    if code == 0 {
        // SAFETY: fi_close(3): just opened; an endpoint starts with its fid.
        assert_eq!(unsafe { ops::fi_close(ep.cast()) }, 0);
    }
    code
}

/// An endpoint or a domain is what was offered, or it is refused.
pub(crate) fn entries_that_were_not_given(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    assert_eq!(open(&side, side.info.as_raw()), 0);
    assert_eq!(open(&side, null_mut()), -e::FI_EINVAL);
    for (name, change) in CHANGES {
        let changed = actor.info();
        edit(&changed, change);
        assert_eq!(open(&side, changed.as_raw()), -e::FI_ENODATA, "{name}");
    }
    let other = match actor.fabric {
        Fabric::Rdm => Fabric::Direct,
        Fabric::Direct => Fabric::Rdm,
    };
    let other = entry(&hints(), other.name(), 0);
    assert_eq!(open(&side, other.as_raw()), -e::FI_ENODATA);
    let fabric = efa_fabric::Fabric::open(&side.info).expect("fabric");
    efa_fabric::Domain::open(&fabric, &other).expect_err("an entry of the other fabric");
}

/// Entries that hints give; the hints are changed before.
fn found(actor: &Actor<'_>, change: impl FnOnce(&mut b::fi_info)) -> Vec<i32> {
    let library = library();
    let mut list = null_mut();
    // SAFETY: fi_getinfo(3): an empty one.
    let hints = unsafe { library.dupinfo(core::ptr::null()) };
    // SAFETY: just made, and nobody else's.
    let ours = unsafe { hints.as_mut() }.expect("memory");
    ours.caps = c::FI_MSG | c::FI_RMA;
    ours.mode = c::FI_CONTEXT2;
    let whole = *ours;
    change(ours);
    let version = library.version_packed();
    let anywhere = (core::ptr::null(), core::ptr::null());
    // SAFETY: fi_getinfo(3): hints of this library, and where the list goes.
    let code = unsafe { library.getinfo(version, anywhere, 0, hints, &raw mut list) };
    // As it was made, so that nothing is lost.
    *ours = whole;
    // SAFETY: made above.
    unsafe { library.freeinfo(hints) };
    assert!(code == 0 || code == -e::FI_ENODATA, "{code}");
    let (mut modes, mut at) = (Vec::new(), list);
    // SAFETY: fi_getinfo(3): a list that ends, or none.
    while let Some(info) = unsafe { at.as_ref() } {
        // SAFETY: an entry has all its attributes.
        let fabric = unsafe { *info.fabric_attr };
        // SAFETY: as above: a name that ends.
        let name = unsafe { core::ffi::CStr::from_ptr(fabric.name) };
        if name.to_str() == Ok(actor.fabric.name()) {
            // SAFETY: as above.
            modes.push(unsafe { *info.domain_attr }.mr_mode);
        }
        at = info.next;
    }
    // SAFETY: given above.
    unsafe { library.freeinfo(list) };
    modes
}

/// What hints say nothing of restricts nothing; what is needed is in the entry.
pub(crate) fn hints_with_holes(actor: &Actor<'_>) {
    let needed = actor.info().mr_mode().bits();
    let of_domains = found(actor, |hints| hints.domain_attr = null_mut());
    assert_eq!(of_domains, [needed; 4]);
    let nothing = found(actor, |hints| {
        hints.domain_attr = null_mut();
        hints.ep_attr = null_mut();
        hints.tx_attr = null_mut();
        hints.rx_attr = null_mut();
        hints.fabric_attr = null_mut();
    });
    assert_eq!(nothing, [needed; 4]);
    for side in [true, false] {
        let ordered = found(actor, |hints| {
            hints.domain_attr = null_mut();
            if side {
                // SAFETY: fi_getinfo(3): hints of fi_allocinfo have all attributes.
                unsafe { (*hints.tx_attr).comp_order = 1 };
            } else {
                // SAFETY: as above.
                unsafe { (*hints.rx_attr).comp_order = 1 };
            }
        });
        assert!(ordered.is_empty(), "completions have no order");
    }
    // Attributes that agree to nothing are no hole.
    assert!(found(actor, |_| {}).is_empty());
}
