//! What the NICs say of themselves.

use core::ptr::null_mut;

use efa_fabric::sys::{bindings as b, errno as e, ops};
use efa_fabric::{Caps, Hints, Mode, MrMode, Progress, Threading, consts as c};

use crate::run::Fabric;
use crate::side::{Actor, Side, hints, library, modes};

pub(crate) fn what_the_entry_says(actor: &Actor<'_>) {
    let info = actor.info();
    assert_eq!(info.provider_name(), "efa");
    let kinds = (info.endpoint_type(), info.protocol(), info.addr_format());
    let expected = (b::FI_EP_RDM, (c::FI_PROTO_EFA, 4), c::FI_ADDR_EFA);
    assert_eq!(kinds, expected);
    assert_eq!(info.source_address().map(<[u8]>::len), Some(32));
    assert_eq!((info.cq_data_size(), info.mr_key_size()), (4, 4));
    assert_eq!((info.mr_iov_limit(), info.rma_iov_limit()), (1, 1));
    assert_eq!(info.threading(), Threading::Safe);
    assert!(
        info.domain_name().ends_with("-rdm"),
        "{}",
        info.domain_name()
    );
    let addresses = MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    let is = (
        info.mr_mode(),
        info.mode(),
        info.msg_order(),
        info.data_progress(),
        info.inject_size(),
    );
    let (order, local) = (c::FI_ORDER_SAS, MrMode::LOCAL);
    let expected = match actor.fabric {
        Fabric::Rdm => (addresses, Mode::empty(), order, Progress::Manual, 4096),
        Fabric::Direct => (addresses | local, Mode::CONTEXT2, 0, Progress::Auto, 32),
    };
    assert_eq!(is, expected);
    let (pieces, bytes) = match actor.fabric {
        Fabric::Rdm => (4, usize::MAX),
        Fabric::Direct => (2, 1 << 30),
    };
    assert_eq!((info.tx_iov_limit(), info.max_msg_size()), (pieces, bytes));
}

pub(crate) fn what_the_nic_says(actor: &Actor<'_>) {
    let list = hints().query(library()).expect("EFA");
    let of_fabric = list
        .iter()
        .filter(|info| info.fabric_name() == actor.fabric.name());
    let mut seen = Vec::new();
    for info in of_fabric {
        let nic = info.nic().expect("attributes of the device");
        let name = nic.name().expect("a name").to_owned();
        assert_eq!(info.domain_name(), format!("{name}-rdm"));
        assert!(
            nic.link_speed_bps() >= 100_000_000_000,
            "{}",
            nic.link_speed_bps()
        );
        let pci = nic.pci().expect("a place");
        // A copy is whole, and outlives nothing that it needs.
        let copy = info.dup().expect("memory");
        assert_eq!(copy.nic().and_then(|nic| nic.pci()), Some(pci));
        seen.push((name, format!("{pci:?}")));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    seen.dedup_by(|a, b| a.0 == b.0 || a.1 == b.1);
    assert_eq!(seen.len(), 4, "{seen:?}");
}

fn offers(hints: &Hints, fabric: Fabric) -> bool {
    hints
        .query(library())
        .is_ok_and(|list| list.iter().any(|info| info.fabric_name() == fabric.name()))
}

pub(crate) fn hints_that_do_not_fit(actor: &Actor<'_>) {
    assert!(offers(&hints(), actor.fabric));
    let caps = Caps::MSG | Caps::RMA;
    for more in [Caps::ATOMIC, Caps::RMA_EVENT, Caps::MULTI_RECV] {
        assert!(
            !offers(&hints().caps(caps | more), actor.fabric),
            "{more:?}"
        );
    }
    assert!(!offers(&hints().caps(caps | Caps::HMEM), actor.fabric));
    let hmem = hints()
        .caps(caps | Caps::HMEM)
        .mr_mode(modes() | MrMode::HMEM);
    assert!(offers(&hmem, actor.fabric));
    assert!(!offers(&hints().cq_data_size(8), actor.fabric));
    assert!(!offers(
        &hints().addr_format(c::FI_SOCKADDR_IN),
        actor.fabric
    ));
    assert!(!offers(&hints().mr_mode(MrMode::LOCAL), actor.fabric));
    let tagged = hints().caps(caps | Caps::TAGGED);
    assert_eq!(offers(&tagged, actor.fabric), actor.fabric == Fabric::Rdm);
    let ordered = hints().msg_order(c::FI_ORDER_SAS);
    assert_eq!(offers(&ordered, actor.fabric), actor.fabric == Fabric::Rdm);
    // Writes after writes have no order anywhere.
    let writes = hints().msg_order(1 << 4);
    assert!(!offers(&writes, actor.fabric));
}

pub(crate) fn hints_choose_the_fabric(_: &Actor<'_>) {
    let first = |hints: &Hints| {
        let list = hints.query(library()).expect("EFA");
        list.first().fabric_name().to_owned()
    };
    assert_eq!(first(&hints()), "efa-direct");
    assert_eq!(first(&hints().mode(Mode::empty())), "efa");
    let unregistered = modes() - MrMode::LOCAL;
    assert_eq!(first(&hints().mr_mode(unregistered)), "efa");
    assert_eq!(first(&hints().mr_mode(MrMode::BASIC)), "efa");
}

pub(crate) fn names_and_vectors(actor: &Actor<'_>) {
    let (one, two) = (Side::new(actor.info()), Side::new(actor.info()));
    let name = two.ep.name().expect("name");
    assert_eq!(name.len(), 32);
    let short = two.ep.name_into(&mut [0; 31]).expect_err("31 bytes");
    assert!(short.to_string().contains("FI_ETOOSMALL"), "{short}");
    let peer = one.av.insert(&name).expect("insert");
    assert_eq!(one.av.insert(&name), Ok(peer), "the same again");
    let mut back = [0; 64];
    // SAFETY: inserted.
    let len = unsafe { one.av.lookup(peer, &mut back) }.expect("lookup");
    assert_eq!(back[..len], name);
    let other = one
        .av
        .insert(&one.ep.name().expect("name"))
        .expect("insert");
    assert_ne!(peer, other);
    // SAFETY: inserted, and not used for anything.
    unsafe { one.av.remove(peer) }.expect("remove");
    let again = one.av.insert(&name).expect("insert");
    assert_eq!(again, peer, "places are used again");
    one.av.insert(&[7; 32]).expect_err("no address of an EFA");
    one.av.insert(&[0; 32]).expect_err("no address of an EFA");
    each_address_has_its_result(&one, &name);
}

/// `FI_SYNC_ERR`: what became of each address; flags that nobody knows are refused.
fn each_address_has_its_result(side: &Side, good: &[u8]) {
    const SYNC_ERR: u64 = 1 << 58;
    let three = [good, &[7; 32], good].concat();
    let mut numbers = [0; 3];
    let mut results = [77_i32; 3];
    let mut insert = |flags, results: *mut i32| {
        let (from, to) = (three.as_ptr().cast(), numbers.as_mut_ptr());
        // SAFETY: three addresses of 32 bytes, room for three numbers and as many results.
        unsafe { ops::fi_av_insert(side.av.as_raw(), from, 3, to, flags, results.cast()) }
    };
    assert_eq!(insert(SYNC_ERR, results.as_mut_ptr()), 2);
    assert_eq!(results, [0, e::FI_EINVAL, 0]);
    assert_eq!(insert(SYNC_ERR, null_mut()), -e::FI_EINVAL);
    assert_eq!(insert(1 << 3, null_mut()), -e::FI_EBADFLAGS);
    assert_eq!(insert(0, null_mut()), 2);
}
