//! Objects: what they tell, the order in which they close, what does not fit together.

use efa_fabric::{
    Av, BoolOption, Caps, Context2, Cq, CqBind, CqEntry, CqPoll, Domain, Endpoint, Errno, Fabric,
    Hints, Info, Library, MrMode, Progress, SizeOption, Threading, Version, leak_count,
};

use crate::common::{self, Block, Side, on_each_provider};

on_each_provider! {
    an_entry_tells_what_a_transport_needs dropped_in_the_worst_order closed_one_by_one
    refused_while_in_use another_domain_is_refused options_unknown_are_none names names_too_long
    an_unbound_endpoint_comes_back offset_addressing_or_virtual an_empty_queue another_mode_is_no_other_entry
}

fn an_entry_tells_what_a_transport_needs(info: &Info) {
    assert!(info.caps().contains(Caps::MSG | Caps::RMA));
    assert_eq!(info.endpoint_type(), efa_fabric::sys::bindings::FI_EP_RDM);
    assert_eq!(info.threading(), Threading::Safe);
    assert_ne!(info.data_progress(), Progress::Unspecified);
    assert!(info.cq_data_size() >= 4);
    assert!(info.mr_key_size() >= 4);
    assert!(info.inject_size() >= 32);
    assert!(info.max_msg_size() > 1 << 20);
    assert!(info.tx_size() > 0 && info.rx_size() > 0);
    assert!(info.tx_iov_limit() > 0 && info.rx_iov_limit() > 0 && info.rma_iov_limit() > 0);
    assert!(!info.domain_name().is_empty() && !info.fabric_name().is_empty());
    assert_eq!(info.nic().is_some(), info.provider_name() == "efa");
    let library = Library::get().expect("loaded");
    assert_eq!(info.api_version(), Version::new(1, 20).request(library));
}

/// The parts of a side, so that they can be dropped in any order.
fn parts(info: &Info) -> (Fabric, Domain, Cq, Av, Endpoint, Block) {
    let fabric = Fabric::open(info).expect("fabric");
    let domain = Domain::open(&fabric, info).expect("domain");
    let (cq, av) = (
        Cq::open(&domain, 64).expect("queue"),
        Av::open(&domain).expect("vector"),
    );
    let mut setup = Endpoint::open(&domain, info).expect("endpoint");
    setup
        .bind_cq(&cq, CqBind::TRANSMIT | CqBind::RECV)
        .expect("bind");
    setup.bind_av(&av).expect("bind");
    let block = Block::new(&domain, 64);
    (
        fabric,
        domain,
        cq,
        av,
        setup.enable().expect("enable"),
        block,
    )
}

fn dropped_in_the_worst_order(info: &Info) {
    let before = leak_count();
    let (fabric, domain, cq, av, ep, block) = parts(info);
    drop(fabric);
    drop(domain);
    drop(cq);
    drop(av);
    assert!(!ep.name().expect("still open").is_empty());
    drop(ep);
    assert_eq!(block.read(), [0; 64]);
    drop(block);
    assert_eq!(leak_count(), before);
}

fn closed_one_by_one(info: &Info) {
    let (fabric, domain, cq, av, ep, block) = parts(info);
    ep.close().expect("endpoint");
    drop(block);
    cq.close().expect("queue");
    av.close().expect("vector");
    domain.close().expect("domain");
    fabric.close().expect("fabric");
}

fn refused_while_in_use(info: &Info) {
    let (fabric, domain, cq, av, ep, _block) = parts(info);
    let cq = cq.close().expect_err("bound to an endpoint");
    assert_eq!(cq.error.errno(), Errno::EBUSY);
    let av = av.close().expect_err("bound to an endpoint");
    assert_eq!(av.error.errno(), Errno::EBUSY);
    let domain = domain.close().expect_err("has objects");
    assert_eq!(domain.error.errno(), Errno::EBUSY);
    let fabric = fabric.close().expect_err("has a domain");
    assert!(
        fabric.error.to_string().contains("users"),
        "{}",
        fabric.error
    );
    // All of it still works.
    let name = ep.name().expect("name");
    av.object.insert(&name).expect("insert");
    let polled = cq.object.read_batch(&mut [CqEntry::EMPTY]).expect("poll");
    assert_eq!(polled, CqPoll::Empty);
}

fn another_domain_is_refused(info: &Info) {
    let (mine, other) = (Side::new(info), Side::new(info));
    let mut setup = Endpoint::open(&mine.domain, info).expect("endpoint");
    let error = setup
        .bind_cq(&other.cq, CqBind::RECV)
        .expect_err("another domain");
    assert_eq!(error.errno(), Errno::EDOMAIN);
    let error = setup.bind_av(&other.av).expect_err("another domain");
    assert_eq!(error.errno(), Errno::EDOMAIN);
}

fn options_unknown_are_none(info: &Info) {
    let side = Side::new(info);
    let setup = Endpoint::open(&side.domain, info).expect("endpoint");
    let efa = [
        BoolOption::EfaEmulatedWrite,
        BoolOption::EfaWriteInOrderAligned128,
    ];
    // EFA's own answers are tested in efa-emu.
    let foreign = info.provider_name() != "efa";
    for option in efa.into_iter().filter(|_| foreign) {
        assert_eq!(setup.get_bool(option), Ok(None));
        assert_eq!(setup.set_bool(option, true), Ok(None));
        assert_eq!(side.ep.get_bool(option), Ok(None));
    }
    // Asking shm for what it does not know before it is enabled would crash the process.
    for option in [
        SizeOption::MaxMsgSize,
        SizeOption::InjectRmaSize,
        SizeOption::MaxRmaSize,
    ] {
        setup.get_size(option).expect("known or not");
    }
    setup
        .set_bool(BoolOption::SharedMemoryPermitted, false)
        .expect("known or not");
    setup
        .set_bool(BoolOption::CudaApiPermitted, false)
        .expect("known or not");
}

fn names(info: &Info) {
    let (a, b) = (Side::new(info), Side::new(info));
    let (name, other) = (a.ep.name().expect("name"), b.ep.name().expect("name"));
    assert!(name.len() <= 56, "{}", name.len());
    assert_ne!(name, other);
    let peer = b.av.insert(&name).expect("insert");
    // With the padding of a slot behind it, it is the same address.
    let mut padded = name.clone();
    padded.resize(56, 0);
    b.av.insert(&padded).expect("insert");
    let mut back = [0; 64];
    // SAFETY: inserted above.
    let len = unsafe { b.av.lookup(peer, &mut back) }.expect("lookup");
    // shm of 2.x leaves the scheme of its own address out.
    let back = &back[..len];
    assert!(!back.is_empty());
    assert!(name.ends_with(back), "{back:?} is not of {name:?}");
}

fn names_too_long(info: &Info) {
    let side = Side::new(info);
    let error = side.ep.name_into(&mut [0; 3]).expect_err("3 bytes");
    assert_eq!(error.errno(), Errno::ETOOSMALL, "{error}");
    assert!(error.to_string().contains("into 3"), "{error}");
}

fn an_unbound_endpoint_comes_back(info: &Info) {
    let side = Side::new(info);
    let setup = Endpoint::open(&side.domain, info).expect("endpoint");
    let mut setup = match setup.enable() {
        Ok(_) => return assert_eq!(info.provider_name(), "shm", "enabled with nothing bound"),
        Err(failed) => failed.object,
    };
    setup
        .bind_cq(&side.cq, CqBind::TRANSMIT | CqBind::RECV)
        .expect("bind");
    setup.bind_av(&side.av).expect("bind");
    setup.enable().expect("complete now");
}

/// Without virtual addresses and provider keys (which TCP drops when asked in the modern way), and
/// with both when asked by the old name.
fn offset_addressing_or_virtual(info: &Info) {
    let library = Library::get().expect("loaded");
    let name = std::ffi::CString::new(info.provider_name()).expect("a name");
    let hints = Hints::rdm(Caps::MSG | Caps::RMA)
        .provider(&name)
        .mr_mode(MrMode::BASIC);
    let basic = hints.query(library).expect("with FI_MR_BASIC");
    assert!(basic.first().uses_virtual_addresses());
    assert!(basic.first().provider_chooses_keys());
    let asks_in_the_modern_way = matches!(info.provider_name(), "shm" | "efa");
    assert_eq!(info.uses_virtual_addresses(), asks_in_the_modern_way);
    let domain = Side::new(basic.first()).domain;
    let blocks = [Block::new(&domain, 8), Block::new(&domain, 8)];
    let [first, second] = blocks
        .each_ref()
        .map(|b| b.target(efa_fabric::PeerAddr::ANY));
    assert_ne!(first.key, second.key);
    assert_ne!(first.addr, second.addr);
}

/// What [`InfoBuf::set_mr_mode`] promises of the IP stack: an entry differs by that mode only.
fn another_mode_is_no_other_entry(info: &Info) {
    let library = Library::get().expect("loaded");
    let name = std::ffi::CString::new(info.provider_name()).expect("a name");
    if info.addr_format() != efa_fabric::consts::FI_SOCKADDR_IN {
        return;
    }
    for caps in [Caps::MSG | Caps::RMA, Caps::TAGGED | Caps::MSG | Caps::RMA] {
        let texts = |asked: MrMode, set: Option<MrMode>| -> Vec<String> {
            let hints = Hints::rdm(caps).provider(&name).mr_mode(asked);
            let list = hints.query(library).expect("entries");
            let entries = list.iter().map(|entry| {
                let mut entry = entry.dup().expect("memory");
                if let Some(mode) = set {
                    entry.set_mr_mode(mode);
                }
                let sizes = [
                    entry.mr_key_size(),
                    entry.cq_data_size(),
                    entry.max_msg_size(),
                    entry.inject_size(),
                    entry.tx_size(),
                    entry.rx_size(),
                    entry.tx_iov_limit(),
                ];
                let ends = (entry.source_address(), entry.mem_tag_format());
                format!("{entry:?} {:?} {sizes:?} {ends:?}", entry.protocol())
            });
            entries.collect()
        };
        let set = texts(common::modes(), Some(MrMode::BASIC));
        assert_eq!(set, texts(MrMode::BASIC, None));
    }
}

fn an_empty_queue(info: &Info) {
    let side = Side::new(info);
    let mut entries = [CqEntry::EMPTY; 4];
    assert_eq!(side.cq.read_batch(&mut entries), Ok(CqPoll::Empty));
    assert_eq!(side.cq.read_error(), Ok(None));
    let mut context = Context2::new();
    assert_eq!(side.ep.cancel(&raw mut context).map(drop), Ok(()));
}

#[test]
fn nothing_fits() {
    let Some(library) = common::library("nothing_fits") else {
        return;
    };
    let hints = Hints::rdm(Caps::MSG).provider(c"no such provider");
    let error = hints.query(library).expect_err("no such provider");
    assert!(error.is_no_data());
    assert!(error.to_string().contains("no such provider"), "{error}");
    assert!(
        error
            .advice()
            .is_some_and(|advice| advice.contains("fi_info")),
        "{error}"
    );
}

#[test]
fn a_weak_threading_model_is_refused() {
    let test = "a_weak_threading_model_is_refused";
    let Some(library) = common::library(test) else {
        return;
    };
    let hints = Hints::rdm(Caps::MSG)
        .provider(c"shm")
        .threading(Threading::Domain);
    let list = hints.query(library).expect("shm");
    let info = list.first();
    let fabric = Fabric::open(info).expect("fabric");
    if info.threading() == Threading::Safe {
        Domain::open(&fabric, info).expect("the provider gives more than was asked for");
        return;
    }
    let error = Domain::open(&fabric, info).expect_err("weaker than FI_THREAD_SAFE");
    assert_eq!(error.errno(), Errno::EINVAL);
    // SAFETY: one thread uses it.
    unsafe { Domain::open_weakly_threaded(&fabric, info) }.expect("by promise");
}

#[test]
fn a_copy_can_be_changed() {
    let Some(info) = common::info("a_copy_can_be_changed", c"tcp;ofi_rxm", common::modes()) else {
        return;
    };
    let mut copy = info.dup().expect("memory");
    copy.set_traffic_class(0x201);
    copy.set_tx_size(17);
    copy.set_rx_size(18);
    assert_eq!(
        (copy.traffic_class(), copy.tx_size(), copy.rx_size()),
        (0x201, 17, 18)
    );
    assert_eq!(info.traffic_class(), 0);
    assert_eq!(copy.domain_name(), info.domain_name());
}
