//! What is EFA's own (decision 15): options that other providers do not have, or crash on.

use efa_fabric::{BoolOption, EndpointSetup, FabricError, Info};

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
