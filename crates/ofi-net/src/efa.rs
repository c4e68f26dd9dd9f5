//! What is EFA's own (decision 15): options that other providers do not have, or crash on.

use efa_fabric::{
    BoolOption, Domain, Endpoint, EndpointSetup, Fabric, FabricError, Info, SizeOption,
};

/// Whether an entry is of the EFA provider, real or emulated.
pub(crate) fn is_efa(info: &Info) -> bool {
    info.provider_name() == "efa"
}

/// Longest message that is sent by inject (decision 33), if any is.
///
/// Elsewhere nothing is: an inject that fails tells nobody, and `ofi_rxm` of libfabric 1.17 follows the
/// context of a failed one, which is null (seen when an endpoint closes with injects in flight).
pub(crate) fn inject_max(info: &Info) -> Option<usize> {
    is_efa(info).then(|| info.inject_size())
}

/// Most bytes of an inline one-sided write. EFA takes fewer by a write than by a message, and an
/// endpoint says how many (`FI_OPT_INJECT_RMA_SIZE`, `fi_endpoint(3)`, from libfabric 1.22 on);
/// nobody else here knows the option (tcp, net and shm of 1.17, 1.22 and 2.5 asked).
///
/// # Costs
/// On EFA it opens and closes an endpoint.
pub(crate) fn inline_write_max(info: &Info) -> usize {
    if !is_efa(info) {
        return info.inject_size();
    }
    // A NIC that cannot be opened says why when it is used.
    asked(info)
        .unwrap_or_default()
        .unwrap_or_else(|| info.inject_size())
}

fn asked(info: &Info) -> Result<Option<usize>, FabricError> {
    let fabric = Fabric::open(info)?;
    let domain = Domain::open(&fabric, info)?;
    Endpoint::open(&domain, info)?.get_size(SizeOption::InjectRmaSize)
}

/// Sets the options of an endpoint that is not enabled yet.
///
/// # Errors
/// What the provider says to a value it should know.
pub(crate) fn prepare(setup: &EndpointSetup, info: &Info) -> Result<(), FabricError> {
    if is_efa(info) {
        // Trap 27: with the shared-memory path, flushes and eager copies through our own address
        // would prove nothing. `None` is a libfabric before 1.21, which has no such option.
        let _known: Option<()> = setup.set_bool(BoolOption::SharedMemoryPermitted, false)?;
    }
    Ok(())
}
