//! Options of endpoints.

use efa_fabric::{
    BoolOption, CompletionFlags, Domain, Endpoint, EndpointSetup, Fabric, SizeOption,
};

use crate::side::{Actor, Memory, Side, entry, hints};

pub(super) fn setup(actor: &Actor<'_>) -> EndpointSetup {
    let info = entry(&hints(), actor.fabric.name(), 0);
    let fabric = Fabric::open(&info).expect("fabric");
    let domain = Domain::open(&fabric, &info).expect("domain");
    Endpoint::open(&domain, &info).expect("endpoint")
}

pub(crate) fn what_can_be_set(actor: &Actor<'_>) {
    let setup = setup(actor);
    let (msg, rma) = if actor.is_direct() {
        (8928, 1 << 30)
    } else {
        (usize::MAX, usize::MAX)
    };
    assert_eq!(setup.get_size(SizeOption::MaxMsgSize), Ok(Some(msg)));
    assert_eq!(setup.get_size(SizeOption::MaxRmaSize), Ok(Some(rma)));
    assert_eq!(setup.get_size(SizeOption::InjectRmaSize), Ok(Some(32)));
    let inject = if actor.is_direct() { 32 } else { 4096 };
    assert_eq!(setup.get_size(SizeOption::InjectMsgSize), Ok(Some(inject)));
    // After those the software of `efa` takes over, for ever; 7 is for ever itself.
    let retries = if actor.is_direct() { 7 } else { 3 };
    assert_eq!(setup.get_size(SizeOption::EfaRnrRetry), Ok(Some(retries)));
    assert_eq!(setup.set_size(SizeOption::MaxMsgSize, 4096), Ok(Some(())));
    assert_eq!(setup.get_size(SizeOption::MaxMsgSize), Ok(Some(4096)));
    assert_eq!(setup.set_size(SizeOption::InjectRmaSize, 33), Ok(None));
    assert_eq!(setup.get_size(SizeOption::MinMultiRecv), Ok(None));
    // Answered as long as it is open.
    let side = Side::new(actor.info());
    assert_eq!(side.ep.get_size(SizeOption::EfaRnrRetry), Ok(Some(retries)));
}

pub(crate) fn what_can_be_switched(actor: &Actor<'_>) {
    let setup = setup(actor);
    assert_eq!(
        setup.get_bool(BoolOption::EfaEmulatedWrite),
        Ok(Some(false))
    );
    assert_eq!(setup.get_bool(BoolOption::EfaEmulatedRead), Ok(Some(false)));
    let shared = setup.set_bool(BoolOption::SharedMemoryPermitted, false);
    assert_eq!(shared, Ok(Some(())));
    let calls = setup.set_bool(BoolOption::CudaApiPermitted, false);
    assert_eq!(calls, Ok(Some(())), "nothing needs to be called");
    let in_order = BoolOption::EfaWriteInOrderAligned128;
    assert_eq!(
        setup.set_bool(in_order, true),
        Ok(None),
        "bytes land in any order"
    );
    assert_eq!(setup.set_bool(in_order, false), Ok(Some(())));
    device_rdma(actor, &setup);
    let unsolicited = BoolOption::EfaUseUnsolicitedWriteRecv;
    assert_eq!(setup.get_bool(unsolicited), Ok(Some(true)));
    assert_eq!(setup.set_bool(unsolicited, false), Ok(Some(())));
    assert_eq!(setup.get_bool(unsolicited), Ok(Some(false)));
}

/// Software makes reads and writes of messages where it is told to, and where there is any: then it says so.
fn device_rdma(actor: &Actor<'_>, setup: &EndpointSetup) {
    let emulated = [BoolOption::EfaEmulatedRead, BoolOption::EfaEmulatedWrite];
    let device = BoolOption::EfaUseDeviceRdma;
    let says = || emulated.map(|option| setup.get_bool(option));
    assert_eq!(setup.get_bool(device), Ok(None), "to be set only");
    if actor.is_direct() {
        assert_eq!(setup.set_bool(device, false), Ok(None));
    } else {
        assert_eq!(setup.set_bool(device, false), Ok(Some(())));
        assert_eq!(says(), [const { Ok(Some(true)) }; 2]);
    }
    assert_eq!(setup.set_bool(device, true), Ok(Some(())));
    assert_eq!(says(), [const { Ok(Some(false)) }; 2]);
}

/// Where the environment says that the device's are not to be used, no option need.
pub(crate) fn without_device_rdma(actor: &Actor<'_>) {
    let setup = setup(actor);
    for option in [BoolOption::EfaEmulatedRead, BoolOption::EfaEmulatedWrite] {
        assert_eq!(setup.get_bool(option), Ok(Some(!actor.is_direct())));
    }
    let pair = actor.pair(64);
    if actor.side == 0 {
        // They work all the same.
        pair.side.write(pair.memory.source(8), Some(5), pair.target);
        pair.side.one().done();
    } else {
        assert_eq!(pair.side.one().done().data(), 5);
    }
    actor.link.meet();
}

/// Each option since its libfabric.
pub(crate) fn options_by_generation(actor: &Actor<'_>) {
    let generation = std::env::var("EFA_EMU_GENERATION").expect("a generation");
    let (major, minor) = generation.split_once('.').expect("a version");
    let number = |text: &str| -> u32 { text.parse().expect("a number") };
    let has = |major_min, minor_min| (number(major), number(minor)) >= (major_min, minor_min);
    let setup = setup(actor);
    let size = |option| setup.get_size(option).expect("an answer").is_some();
    let flag = |option| setup.get_bool(option).expect("an answer").is_some();
    assert!(size(SizeOption::EfaRnrRetry));
    assert_eq!(flag(BoolOption::EfaEmulatedWrite), has(1, 18));
    let in_order = setup.set_bool(BoolOption::EfaWriteInOrderAligned128, false);
    assert_eq!(in_order, Ok(has(1, 19).then_some(())));
    let shared = setup.set_bool(BoolOption::SharedMemoryPermitted, false);
    assert_eq!(shared, Ok(has(1, 21).then_some(())));
    for option in [
        SizeOption::MaxMsgSize,
        SizeOption::MaxRmaSize,
        SizeOption::InjectMsgSize,
        SizeOption::InjectRmaSize,
    ] {
        assert_eq!(size(option), has(1, 22), "{option:?}");
    }
    assert_eq!(flag(BoolOption::EfaHomogeneousPeers), has(2, 2));
    assert_eq!(flag(BoolOption::EfaUseUnsolicitedWriteRecv), has(2, 5));
    let fabrics = hints().query(crate::side::library()).expect("EFA");
    let direct = fabrics
        .iter()
        .any(|info| info.fabric_name() == "efa-direct");
    assert_eq!(direct, has(2, 1));
}

/// Where the unsolicited kind is off, an immediate uses a posted receive on efa-direct.
pub(crate) fn solicited_immediates(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        pair.side.write(pair.memory.source(8), Some(6), pair.target);
        pair.side.silent();
        actor.link.meet();
        pair.side.one().done();
    } else {
        actor.link.meet();
        let spare = Memory::new(&pair.side.domain, 64);
        let context = pair.side.recv(spare.sink(0, 64));
        let event = pair.side.one().done();
        assert_eq!((event.context(), event.data()), (context, 6));
        assert!(
            event.flags().contains(CompletionFlags::REMOTE_WRITE),
            "{event:?}"
        );
        assert_eq!(spare.at(0), 0);
    }
    actor.link.meet();
}
