//! What is EFA's own (decision 15): options that other providers do not have, or crash on.

use crate::config::{Config, Protocol};
use crate::error::{Code, NetError};
use crate::gpu::{self, Answers, Reach};
use crate::open::not_opened;
use efa_fabric::{
    BoolOption, Domain, Endpoint, EndpointSetup, Fabric, FabricError, Info, SizeOption,
};

/// Whether an entry is of the EFA provider, real or emulated.
pub(crate) fn is_efa(info: &Info) -> bool {
    info.provider_name() == "efa"
}

/// What only an endpoint tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probed {
    /// Bytes of an inline one-sided write; `None`: as many as of a message.
    pub(crate) inline_max: Option<usize>,
    /// Of accelerators.
    pub(crate) gpu: Answers,
}

/// Opens an endpoint of a NIC for RDMA and closes it, which is the only way to learn whether it can be
/// used, and how long an inline one-sided write may be: EFA takes fewer bytes by a write than by a message,
/// and says how many of an endpoint only (`FI_OPT_INJECT_RMA_SIZE`, `fi_endpoint(3)`, from libfabric 1.22
/// on). The reference tries an endpoint at init too (protocol 2d.1).
///
/// Nobody else needs it but for device memory: their endpoints know no such option (tcp, net and shm of
/// 1.17, 1.22 and 2.5 asked).
///
/// # Errors
/// [`Code::DeviceOpen`] with the provider's number and text; what [`prepare`] refuses.
///
/// # Costs
/// An endpoint opened and closed.
pub(crate) fn probe(info: &Info, config: &Config) -> Result<Probed, NetError> {
    with_endpoint(info, |setup| {
        let gpu = prepare(setup, info, config)?;
        let inline_max = match is_efa(info) {
            true => setup.get_size(SizeOption::InjectRmaSize)?,
            false => None,
        };
        Ok(Probed { inline_max, gpu })
    })
}

/// Asks an endpoint that is opened for that alone.
///
/// # Errors
/// [`Code::DeviceOpen`] with the provider's number and text; those of `ask`.
pub(crate) fn with_endpoint<R>(
    info: &Info,
    ask: impl FnOnce(&EndpointSetup) -> Result<R, NetError>,
) -> Result<R, NetError> {
    let failed = |error: FabricError| {
        NetError::fabric(Code::DeviceOpen, &error).context(info.domain_name().to_owned())
    };
    let fabric = Fabric::open(info).map_err(failed)?;
    let domain = Domain::open(&fabric, info).map_err(failed)?;
    let setup = Endpoint::open(&domain, info).map_err(failed)?;
    ask(&setup).map_err(|error| not_opened(error).context(info.domain_name().to_owned()))
}

/// Sets the options of an endpoint that is not enabled yet, and checks what the protocol builds on
/// (protocol 2h.5, "endpoint hook"). What it says of accelerators.
///
/// # Errors
/// What the provider says to a value it should know; writes that are emulated by messages; no device
/// memory on an instance type that has it.
pub(crate) fn prepare(
    setup: &EndpointSetup,
    info: &Info,
    config: &Config,
) -> Result<Answers, NetError> {
    let answers = gpu::prepare(setup, (info, config), Protocol::Rdma);
    if is_efa(info) {
        let emulated = setup.get_bool(BoolOption::EfaEmulatedWrite)?;
        if let Some(why) = slow_writes(config, emulated) {
            return Err(NetError::new(Code::SlowWrites, why));
        }
    }
    require_memory(info, config, answers.memory)?;
    avoid_shared_memory(setup, info)?;
    Ok(answers)
}

/// Memory of devices, where the instance type has devices (protocol 2h.5): for both protocols.
///
/// # Errors
/// The network does not reach it.
pub(crate) fn require_memory(info: &Info, config: &Config, memory: Reach) -> Result<(), NetError> {
    let why = no_memory(config, memory).filter(|_| is_efa(info));
    why.map_or(Ok(()), |why| Err(NetError::new(Code::NoDeviceMemory, why)))
}

/// Trap 27: with the shared-memory path, flushes and eager copies through our own address would prove
/// nothing. All that SENDRECV asks of an endpoint.
///
/// # Errors
/// What the provider says to a value it should know.
pub(crate) fn avoid_shared_memory(setup: &EndpointSetup, info: &Info) -> Result<(), NetError> {
    if is_efa(info) {
        // `None` is a libfabric before 1.21, which has no such option.
        let _known: Option<()> = setup.set_bool(BoolOption::SharedMemoryPermitted, false)?;
    }
    Ok(())
}

/// Why an EFA endpoint is refused for its writes, if it is. `emulated`: whether they are; `None` where the
/// provider does not say, which is no answer that the reference takes.
fn slow_writes(config: &Config, emulated: Option<bool>) -> Option<&'static str> {
    match emulated {
        Some(false) => None,
        _ if !config.native_rdma_check => None,
        Some(true) => Some("this device writes by messages"),
        None => Some("libfabric does not say whether this device writes by itself"),
    }
}

/// Why it is refused for the memory that it does not reach.
fn no_memory(config: &Config, memory: Reach) -> Option<String> {
    let platform = config.platform().filter(|platform| platform.gdr_required)?;
    let why = memory.err().filter(|_| config.gdr_required_check)?;
    Some(format!("{why}, and {} has device memory", platform.family))
}

#[cfg(test)]
mod tests {
    use super::{no_memory, slow_writes};
    use crate::config::Config;
    use crate::params::{Flavour, parse};

    fn config(pairs: &[(&str, &str)]) -> Config {
        let (values, _) = parse(Flavour::Neuron, pairs.iter().copied());
        Config::from_values(&values, &mut Vec::new()).unwrap()
    }

    #[test]
    fn emulated_writes_are_refused_unless_told_otherwise() {
        let (checked, unchecked) = (
            config(&[]),
            config(&[("OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK", "1")]),
        );
        assert_eq!(slow_writes(&checked, Some(false)), None);
        for emulated in [Some(true), None] {
            assert!(slow_writes(&checked, emulated).is_some());
            assert_eq!(slow_writes(&unchecked, emulated), None);
        }
    }

    #[test]
    fn device_memory_is_required_where_the_instance_has_it() {
        let on = |product, disabled| {
            let config = config(&[
                ("OFI_NCCL_FORCE_PRODUCT_NAME", product),
                ("OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK", disabled),
            ]);
            no_memory(&config, Err("no"))
        };
        assert!(on("trn1.32xlarge", "0").unwrap().contains("trn1"));
        assert_eq!(on("trn1.32xlarge", "1"), None);
        assert_eq!(on("p3dn.24xlarge", "0"), None);
        assert_eq!(on("c5n.18xlarge", "0"), None);
    }
}
