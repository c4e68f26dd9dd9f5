//! What is EFA's own (decision 15): options that other providers do not have, or crash on.

use efa_fabric::{BoolOption, EndpointSetup, FabricError, Info};

/// Whether an entry is of the EFA provider, real or emulated.
pub(crate) fn is_efa(info: &Info) -> bool {
    info.provider_name() == "efa"
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
