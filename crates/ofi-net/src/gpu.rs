//! What accelerators need of an endpoint (protocol 2d.1, 2h.5): their memory within its reach, with no
//! call to CUDA, and for NCCL's GPUs, which look at data while it comes in, its bytes in order.
//!
//! A call to CUDA inside of a call of NCCL may wait for a kernel that waits for NCCL, so that a provider
//! is asked to make none (`FI_OPT_CUDA_API_PERMITTED`, `fi_endpoint(3)`): one that says it cannot has no
//! CUDA memory as far as we go.

use crate::config::{Config, Protocol};
use crate::efa;
use crate::log::{self, Log, Subsys};
use crate::params::Flavour;
use efa_fabric::{BoolOption, Caps, EndpointSetup, Info};

/// Whether device memory is within reach, or why not, as the end of a sentence.
pub(crate) type Reach = Result<(), &'static str>;

/// An instance type whose RDMA the reference asks for no order (protocol 2h.5).
const P5EN: &str = "p5en.48xlarge";

/// What an endpoint said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Device memory.
    pub(crate) memory: Reach,
    /// Bytes land in order within 128 bytes that are aligned, where that matters.
    pub(crate) in_order: bool,
}

impl Answers {
    /// What is good to know of them, for the log. The reference writes `NCCL_PROTO` itself where there is no
    /// order, which has stopped jobs of which not all ranks did, and NCCLs that have tuners: here it is
    /// the user's to set, on all ranks.
    pub(crate) fn tell(self, (info, config): (&Info, &Config), log: &dyn Log) {
        if config.flavour != Flavour::Nccl {
            return;
        }
        if let Err(why) = self.memory {
            log::info(log, Subsys::Init, || format!("no CUDA memory: {why}"));
        }
        if efa::is_efa(info) && !self.in_order {
            log::info(log, Subsys::Init, || {
                "the bytes of a message land in any order: NCCL_PROTO=Simple, on all ranks, is the one \
                 protocol of NCCL that needs none"
                    .to_owned()
            });
        }
    }
}

/// What an entry promises of device memory, before an endpoint is asked.
pub(crate) fn promised(info: &Info) -> Reach {
    let caps = info.caps();
    if !caps.contains(Caps::HMEM) {
        return Err("this provider has no FI_HMEM");
    }
    if !caps.contains(Caps::RMA) {
        return Err("this provider has no FI_RMA, by which device memory is flushed");
    }
    Ok(())
}

/// Whether only an endpoint tells: of memory that an entry promises, and of order on EFA.
pub(crate) fn has_to_ask(info: &Info, config: &Config) -> bool {
    config.flavour == Flavour::Nccl && (promised(info).is_ok() || efa::is_efa(info))
}

/// Sets the options of an endpoint that is not enabled yet, and says what came of it.
pub(crate) fn prepare(
    setup: &EndpointSetup,
    (info, config): (&Info, &Config),
    protocol: Protocol,
) -> Answers {
    let memory = promised(info);
    if config.flavour != Flavour::Nccl {
        return Answers {
            memory,
            in_order: true,
        };
    }
    Answers {
        memory: memory.and_then(|()| without_calls(setup)),
        in_order: order(setup, (info, config), protocol),
    }
}

/// `fi_endpoint(3)`: EOPNOTSUPP where CUDA memory needs calls to CUDA, EINVAL without library or device.
fn without_calls(setup: &EndpointSetup) -> Reach {
    match setup.set_bool(BoolOption::CudaApiPermitted, false) {
        Ok(Some(())) => Ok(()),
        _ => Err(
            "this provider reaches no CUDA memory without calls to CUDA, or there is no CUDA device \
             (FI_OPT_CUDA_API_PERMITTED)",
        ),
    }
}

fn order(setup: &EndpointSetup, (info, config): (&Info, &Config), protocol: Protocol) -> bool {
    let is_rdma = protocol == Protocol::Rdma;
    let knows_better = is_rdma && config.product_name.as_deref() == Some(P5EN);
    if !efa::is_efa(info) || knows_better {
        return true;
    }
    let option = match is_rdma {
        true => BoolOption::EfaWriteInOrderAligned128,
        false => BoolOption::EfaSendrecvInOrderAligned128,
    };
    matches!(setup.set_bool(option, true), Ok(Some(())))
}
