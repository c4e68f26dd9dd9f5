//! Which protocol the devices speak (protocol 2h.2). Two hosts have to come to the same answer, since
//! nothing in a handle tells them apart.
//!
//! ```text
//! OFI_NCCL_PROTOCOL, or the v4 table  >  the instance type's, on EFA  >  RDMA if it found several NICs a
//! device  >  SENDRECV  >  RDMA on single NICs
//! ```

use crate::config::{Config, Protocol};
use crate::device::{Device, Devices};
use crate::error::{Code, NetError};
use crate::log::{self, Held, Log, Subsys};
use crate::select;
use crate::sendrecv::SendRecv;
use crate::startup::{Phase, Startup};
use crate::watch::Watch;
use efa_fabric::{Library, Version};
use std::sync::Arc;

/// The devices, of one protocol.
#[derive(Debug)]
pub(crate) enum Found {
    /// RDMA.
    Rdma(Devices),
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

/// Loads libfabric and finds devices; the protocol and why is one line of the log. What it cost is added
/// to `startup`.
///
/// # Errors
/// libfabric is missing or too old; no provider fits the protocol that is asked for, or any; the NICs cannot
/// be grouped as asked.
pub(crate) fn discover(
    config: &Config,
    startup: &mut Startup,
    (log, watch): (&Arc<dyn Log>, &Arc<Watch>),
) -> Result<Found, NetError> {
    let load = || Library::load(config.libfabric_path.as_deref());
    let library = startup.time(Phase::Library, load)?;
    refuse_old(library)?;
    let mut finder = Finder {
        config,
        library,
        startup,
        log,
        watch,
    };
    let (mut found, why) = finder.find().inspect_err(|_| select::forget())?;
    startup.time(Phase::Devices, || match &mut found {
        Found::Rdma(devices) => devices.probe(config, &**log),
        Found::SendRecv(other) => {
            other.probe(config);
            Ok(())
        }
    })?;
    log::info(&**log, Subsys::Init, || {
        let protocol = found.protocol();
        format!("protocol {protocol}: {why}; peers have to speak it too (OFI_NCCL_PROTOCOL)")
    });
    Ok(found)
}

/// Older ones have other structures, and none was ever tried.
const LIBFABRIC_MIN: Version = Version::new(1, 17);

fn refuse_old(library: &Library) -> Result<(), NetError> {
    let version = Version::of(library);
    if version >= LIBFABRIC_MIN {
        return Ok(());
    }
    let path = library.path().display();
    let what = format!("{path} is libfabric {version}, and {LIBFABRIC_MIN} is needed");
    Err(NetError::new(Code::LibfabricTooOld, what))
}

/// What is asked for, by the user or by the instance type.
pub(crate) fn decided(config: &Config) -> Option<(Protocol, String)> {
    if let Some(protocol) = config.protocol {
        return Some((protocol, "asked for".to_owned()));
    }
    // Protocol 2l: of no meaning beside another provider.
    // libfabric takes its filter in capitals too: a host with FI_PROVIDER=EFA speaks as its peers do.
    let filter = config.fi_provider.as_deref();
    let on_efa = filter.is_none_or(|filter| filter.eq_ignore_ascii_case("efa"));
    let platform = config.platform().filter(|_| on_efa)?;
    let family = platform.family;
    Some((
        platform.protocol,
        format!("default of instance type {family}"),
    ))
}

/// Whether the user gives devices several rails, which decides for RDMA where it can be had.
fn has_several_by_hand(config: &Config) -> bool {
    let groups = config.nic_groups.as_deref();
    config.force_num_rails.is_some_and(|rails| rails > 1)
        || groups.is_some_and(|groups| groups.contains(','))
}

/// What looking for devices takes.
struct Finder<'a> {
    config: &'a Config,
    library: &'static Library,
    startup: &'a mut Startup,
    log: &'a Arc<dyn Log>,
    watch: &'a Arc<Watch>,
}

impl Finder<'_> {
    /// Devices of the protocol that is decided, or of the one that the NICs decide for; and why.
    fn find(&mut self) -> Result<(Found, String), NetError> {
        let log = &**self.log;
        match decided(self.config) {
            Some((Protocol::Rdma, why)) => Ok((Found::Rdma(self.rdma(false, log)?), why)),
            Some((Protocol::SendRecv, why)) => {
                Ok((Found::SendRecv(self.sendrecv(false, log)?), why))
            }
            None => self.by_nics(),
        }
    }

    fn rdma(&mut self, open: bool, log: &dyn Log) -> Result<Devices, NetError> {
        Device::discover((self.config, open), self.library, self.startup, log)
    }

    fn sendrecv(&mut self, open: bool, log: &dyn Log) -> Result<SendRecv, NetError> {
        let devices = SendRecv::discover((self.config, open), self.library, self.startup, log);
        Ok(SendRecv::new(devices?, self.log, self.watch))
    }

    /// RDMA only pays where a device has several NICs, and that is where the reference chooses it.
    fn by_nics(&mut self) -> Result<(Found, String), NetError> {
        let log = self.log;
        // What is looked at for both protocols would be told of twice.
        let (first, second) = (Held::new(&**log), Held::new(&**log));
        let found = self.rdma(!has_several_by_hand(self.config), &first);
        let lists = found.iter().flat_map(|devices| &devices.list);
        let most = lists.map(Device::rails).max().unwrap_or(0);
        if most > 1 {
            let why = format!("devices have up to {most} rails");
            Held::release([first]);
            return Ok((Found::Rdma(found?), why));
        }
        // Settings that contradict themselves or the NICs are about RDMA: to speak something else instead
        // would hide them, and peers with good settings would not be reached.
        if let Err(error) = &found {
            if matches!(
                error.code(),
                Code::Grouping | Code::Contradiction | Code::EarlyCompletion
            ) {
                Held::release([first]);
                return found.map(|devices| (Found::Rdma(devices), String::new()));
            }
        }
        match (self.sendrecv(true, &second), found) {
            (Ok(other), Ok(_)) => {
                // That accelerators are not seen can be why there is one NIC a device.
                Held::release([first.warnings(), second]);
                Ok((Found::SendRecv(other), "one NIC a device".to_owned()))
            }
            (Ok(other), Err(_)) => {
                Held::release([first, second]);
                Ok((Found::SendRecv(other), "one NIC a device".to_owned()))
            }
            (Err(error), Ok(devices)) => {
                Held::release([second, first]);
                let why = format!("one NIC a device, and SENDRECV cannot be had ({error})");
                Ok((Found::Rdma(devices), why))
            }
            // The first answer is about the provider that the user wants.
            (Err(_), Err(error)) => {
                Held::release([first, second]);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decided;
    use crate::config::Config;
    use crate::params::Flavour;

    /// Two ranks that differ in capitals alone would else speak different protocols.
    #[test]
    fn the_default_of_an_instance_type_counts_however_efa_is_written() {
        let with = |filter: Option<&str>| {
            let config = Config {
                product_name: Some("p4d.24xlarge".to_owned()),
                fi_provider: filter.map(str::to_owned),
                ..Config::new(Flavour::Nccl)
            };
            decided(&config).map(|(protocol, _)| protocol)
        };
        assert!(with(None).is_some());
        for filter in ["efa", "EFA", "Efa"] {
            assert_eq!(with(Some(filter)), with(None), "{filter}");
        }
        assert_eq!(with(Some("tcp")), None);
    }
}
