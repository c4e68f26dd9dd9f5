//! Which protocol the devices speak (protocol 2h.2). Two hosts have to come to the same answer, since
//! nothing in a handle tells them apart.
//!
//! ```text
//! OFI_NCCL_PROTOCOL, or the v4 table  >  the instance type's, on EFA  >  RDMA if it found several NICs a
//! device  >  SENDRECV  >  RDMA on single NICs
//! ```

use crate::config::{Config, Protocol};
use crate::device::Device;
use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use crate::sendrecv::SendRecv;
use efa_fabric::Library;
use std::sync::Arc;

/// The devices, of one protocol.
#[derive(Debug)]
pub(crate) enum Found {
    /// RDMA.
    Rdma(Vec<Device>),
    /// SENDRECV.
    SendRecv(SendRecv),
}

impl Found {
    const fn protocol(&self) -> Protocol {
        match self {
            Self::Rdma(_) => Protocol::Rdma,
            Self::SendRecv(_) => Protocol::SendRecv,
        }
    }
}

/// Loads libfabric and finds devices; the protocol and why is one line of the log.
///
/// # Errors
/// No provider fits the protocol that is asked for, or any; the NICs cannot be grouped as asked.
pub(crate) fn discover(config: &Config, log: &Arc<dyn Log>) -> Result<Found, NetError> {
    let library = Library::load(config.libfabric_path.as_deref())?;
    let (found, why) = match decided(config) {
        Some((Protocol::Rdma, why)) => (rdma(config, log)?, why),
        Some((Protocol::SendRecv, why)) => (sendrecv(config, library, log)?, why),
        None => by_nics(config, library, log)?,
    };
    log::info(&**log, Subsys::Init, || {
        let protocol = found.protocol();
        format!("protocol {protocol}: {why}; peers have to speak it too (OFI_NCCL_PROTOCOL)")
    });
    Ok(found)
}

fn rdma(config: &Config, log: &Arc<dyn Log>) -> Result<Found, NetError> {
    Device::discover(config, &**log).map(Found::Rdma)
}

fn sendrecv(
    config: &Config,
    library: &'static Library,
    log: &Arc<dyn Log>,
) -> Result<Found, NetError> {
    SendRecv::discover(config, library, log).map(Found::SendRecv)
}

/// What is asked for, by the user or by the instance type.
fn decided(config: &Config) -> Option<(Protocol, String)> {
    if let Some(protocol) = config.protocol {
        return Some((protocol, "asked for".to_owned()));
    }
    // Protocol 2l: of no meaning beside another provider.
    let on_efa = matches!(config.fi_provider.as_deref(), None | Some("efa"));
    let platform = config.platform().filter(|_| on_efa)?;
    let family = platform.family;
    Some((
        platform.protocol,
        format!("default of instance type {family}"),
    ))
}

/// RDMA only pays where a device has several NICs, and that is where the reference chooses it.
fn by_nics(
    config: &Config,
    library: &'static Library,
    log: &Arc<dyn Log>,
) -> Result<(Found, String), NetError> {
    let found = Device::discover(config, &**log);
    let most = found.iter().flatten().map(Device::rails).max().unwrap_or(0);
    if most > 1 {
        let why = format!("devices have up to {most} rails");
        return Ok((Found::Rdma(found?), why));
    }
    // Settings that contradict themselves or the NICs are about RDMA: to speak something else instead would
    // hide them, and peers with good settings would not be reached.
    if let Err(error) = &found {
        if matches!(
            error.code(),
            Code::Grouping | Code::Contradiction | Code::EarlyCompletion
        ) {
            return found.map(|devices| (Found::Rdma(devices), String::new()));
        }
    }
    match (sendrecv(config, library, log), found) {
        (Ok(other), _) => Ok((other, "one NIC a device".to_owned())),
        (Err(error), Ok(devices)) => {
            let why = format!("one NIC a device, and SENDRECV cannot be had ({error})");
            Ok((Found::Rdma(devices), why))
        }
        // The first answer is about the provider that the user wants.
        (Err(_), Err(error)) => Err(error),
    }
}
