//! Opening the rails of a domain: `fi_fabric`, `fi_domain`, queue, endpoints, and what is refused before
//! anything fails because of it.

use crate::config::Config;
use crate::efa;
use crate::error::{Code, NetError};
use crate::gpu::Reach;
use crate::peers::{Peers, Shape};
use crate::rail::{LaneEnd, Sent};
use efa_fabric::{
    Av, Cq, CqBind, Domain as FiDomain, Endpoint, Fabric, FabricError, Info, MrMode, PeerAddr,
    consts,
};
use ofi_rdma::EpName;
use ofi_rdma::limits::CONN_BYTES;

/// Names tried for an endpoint: those that one killed process can have left behind, and some.
const NAMES_MAX: usize = 16;

/// One rail while it is being opened.
pub(crate) struct Rail {
    pub(crate) fi_domain: FiDomain,
    pub(crate) cq: Cq,
    pub(crate) data: Opened,
    pub(crate) control: Option<Opened>,
}

/// The address of an endpoint, in its own address vector, and what addresses look like there.
///
/// # Errors
/// It is too long for a connection message; what libfabric says.
pub(crate) fn own_address(
    endpoint: &Endpoint,
    av: &Av,
    info: &Info,
) -> Result<(PeerAddr, Shape), NetError> {
    let address = endpoint.name()?;
    let name = EpName::new(&address).ok_or_else(|| {
        let what = format!(
            "an address of {} bytes, and there is room for 56",
            address.len()
        );
        NetError::new(Code::AddressTooLong, what)
    })?;
    let own = av.insert(&address)?;
    let shape = Shape {
        format: info.addr_format(),
        own: name,
    };
    Ok((own, shape))
}

/// What an endpoint is opened on.
struct On<'a> {
    fi_domain: &'a FiDomain,
    cq: &'a Cq,
    config: &'a Config,
}

pub(crate) struct Opened {
    pub(crate) end: LaneEnd,
    pub(crate) name: EpName,
    /// Device memory, as far as this endpoint goes.
    pub(crate) device_memory: Reach,
}

/// Opens one rail.
///
/// # Errors
/// The call that failed; an entry that this crate cannot work with.
pub(crate) fn open_rail(
    info: &Info,
    config: &Config,
    with_control: bool,
) -> Result<Rail, NetError> {
    refuse(info)?;
    check_keys(info, config)?;
    let fabric = Fabric::open(info)?;
    let fi_domain = FiDomain::open(&fabric, info)?;
    let depth = config.cq_depth();
    let cq = Cq::open(&fi_domain, depth).map_err(|error| queue_refused(error, depth))?;
    let on = On {
        fi_domain: &fi_domain,
        cq: &cq,
        config,
    };
    let data = open_endpoint(&on, info)?;
    let control = match with_control {
        true if config.low_latency_tc => Some(open_low_latency(&on, info)?),
        true => Some(open_endpoint(&on, info)?),
        false => None,
    };
    Ok(Rail {
        fi_domain,
        cq,
        data,
        control,
    })
}

/// A queue that the provider does not make is as often as not one that is too deep.
pub(crate) fn queue_refused(error: FabricError, depth: usize) -> NetError {
    let context = format!("a completion queue of {depth} entries (OFI_NCCL_CQ_SIZE: lower it)");
    NetError::from(error).context(context)
}

/// Any call that failed while a device was being opened is told as that, with what can be wrong with a device.
pub(crate) fn not_opened(error: NetError) -> NetError {
    match error.code() {
        Code::Fabric => NetError::new(Code::DeviceOpen, error.what()).with_errno(error.errno()),
        _ => error,
    }
}

/// What this crate cannot work with, said before anything else fails because of it.
fn refuse(info: &Info) -> Result<(), NetError> {
    let refused = |what: &str| {
        let what = format!("{} {}: {what}", info.provider_name(), info.domain_name());
        Err(NetError::new(Code::DeviceOpen, what))
    };
    if info.mr_mode().contains(MrMode::ENDPOINT) {
        return refused(
            "regions must be bound to endpoints (FI_MR_ENDPOINT), which is not supported",
        );
    }
    if info.cq_data_size() < 4 {
        return refused("immediates have fewer than 4 bytes");
    }
    if info.max_msg_size() < CONN_BYTES {
        return refused("messages are shorter than a connection message, 528 bytes");
    }
    Ok(())
}

/// Keys that we choose have to fit those of the provider (protocol 2g.2).
fn check_keys(info: &Info, config: &Config) -> Result<(), NetError> {
    let (ours, theirs) = (usize::from(config.mr_key_size), info.mr_key_size());
    if info.provider_chooses_keys() || theirs >= ours {
        return Ok(());
    }
    let provider = info.provider_name();
    let what =
        format!("OFI_NCCL_MR_KEY_SIZE is {ours}, and keys of {provider} have {theirs} bytes");
    Err(NetError::new(Code::Contradiction, what))
}

/// A control endpoint of the low-latency traffic class, or an ordinary one where the provider does
/// not take the class (protocol 2d.1).
fn open_low_latency(on: &On<'_>, info: &Info) -> Result<Opened, NetError> {
    let mut classed = info.dup()?;
    classed.set_traffic_class(consts::FI_TC_LOW_LATENCY);
    open_endpoint(on, &classed).or_else(|_| open_endpoint(on, info))
}

/// Opens an endpoint. shm names endpoints by process id and a running number, and says `FI_EBUSY` to
/// a name whose earlier owner was killed and had the same id: the next number is tried then.
fn open_endpoint(on: &On<'_>, info: &Info) -> Result<Opened, NetError> {
    let mut opened = try_endpoint(on, info);
    for _ in 1..NAMES_MAX {
        match &opened {
            Err(error) if error.errno() == -libc::EBUSY => {
                opened = try_endpoint(on, info);
            }
            _ => break,
        }
    }
    opened
}

fn try_endpoint(on: &On<'_>, info: &Info) -> Result<Opened, NetError> {
    let On {
        fi_domain,
        cq,
        config,
    } = *on;
    let mut setup = Endpoint::open(fi_domain, info)?;
    let av = Av::open(fi_domain)?;
    setup.bind_cq(cq, CqBind::TRANSMIT | CqBind::RECV)?;
    setup.bind_av(&av)?;
    let device_memory = efa::prepare(&setup, info, config)?.memory;
    let endpoint = setup
        .enable()
        .map_err(|failed| NetError::from(failed.error))?;
    let (own, shape) = own_address(&endpoint, &av, info)?;
    let peers = Peers::new(av, shape);
    Ok(Opened {
        end: LaneEnd {
            endpoint,
            peers,
            own,
            sent: Sent::default(),
        },
        name: shape.own,
        device_memory,
    })
}
