//! Memory: limits of locked and shared memory, huge pages, fork, memory of GPUs.

use crate::doctor::code::Code;
use crate::doctor::facts::shm::SHM;
use crate::doctor::facts::version::Version;
use crate::doctor::facts::{Host, Side};
use crate::doctor::finding::Finding;

/// Below this EFA's own buffers do not fit (default of Docker: 64 KiB; of systemd: 8 MiB).
const MEMLOCK_LEAST: u64 = 128 << 20;
/// Below this the provider's shared memory for one host does not fit.
const SHM_LEAST: u64 = 8 << 20;
/// Docker's default, which is too small for a host full of EFAs.
const SHM_DOCKER: u64 = 64 << 20;
const MANY_NICS: usize = 16;
/// The first kernel whose forks copy pinned pages at once (providers 6).
const COPIES_ON_FORK: Version = Version::new(5, 13, 0);
/// The first kernel with dma-buf for RDMA (protocol 2a.4).
const HAS_DMABUF: Version = Version::new(5, 12, 0);
const PEERMEM: [&str; 3] = ["nvidia_peermem", "efa_nv_peermem", "nv_peer_mem"];

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found: Vec<Finding> = fork_and_huge(host).into_iter().collect();
    if !host.devices.has_efa() || host.is_emulated {
        return found;
    }
    found.extend(memlock(host));
    found.extend(shm(host));
    found.extend(fork(host));
    found.extend(huge_pages(host));
    found.extend(device_memory(host));
    found
}

fn memlock(host: &Host) -> Option<Finding> {
    let process = &host.process;
    if !process.is_lock_bounded() {
        return None;
    }
    let here = |limit: u64| format!("ulimit -l: {} KiB, and no CAP_IPC_LOCK", limit / 1024);
    let is_low = |limit: u64| limit < MEMLOCK_LEAST;
    let lines = match (&process.session, process.memlock) {
        (None, None) => return None,
        (None, Some(limit)) => vec![here(limit)],
        (Some((Some(limit), at)), _) => {
            let limit = limit / 1024;
            vec![format!(
                "{at}: sessions of {} may lock {limit} KiB",
                process.user.show()
            )]
        }
        // A session has enough: what is not one inherits what is here.
        (Some((None, at)), Some(limit)) if is_low(limit) => {
            let session = format!(
                "{at}: no limit, for sessions that PAM starts; others have the limit above"
            );
            vec![here(limit), session]
        }
        (Some((None, _)), _) => return None,
    };
    let code = match process.locked() {
        Some(limit) if is_low(limit) => Code::MemlockLow,
        _ => Code::MemlockBounded,
    };
    let user = process.by.as_ref();
    let user = user.map(|by| format!("for user {} (by {by})", process.user.show()));
    let place = process.container.map(str::to_owned);
    Some(Finding::new(
        code,
        lines.into_iter().chain(user).chain(place),
    ))
}

fn shm(host: &Host) -> Option<Finding> {
    let shm = &host.shm;
    if let Some(fault) = &shm.fault {
        return Some(Finding::new(Code::ShmUnusable, [fault.clone()]));
    }
    let nics = host.devices.efa_nics().count();
    let Some((size, free)) = shm.bytes.zip(shm.free()) else {
        let line = format!(
            "nothing is mounted at {SHM}: it lies in {}",
            shm.within.as_ref()?
        );
        return Some(Finding::new(Code::ShmNotMounted, [line]));
    };
    let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
    let used = match shm.used {
        0 => String::new(),
        used => format!(", {} of them used", kib(used)),
    };
    let line = format!("{SHM}: {}{used}, for {nics} EFAs", kib(size));
    if size < SHM_LEAST {
        return Some(Finding::new(Code::ShmTiny, [line]));
    }
    if free < SHM_LEAST {
        let finding = Finding::new(Code::ShmTiny, [line, format!("{} are left", kib(free))]);
        return Some(finding.with_fix(
            "remove what dead processes left there (ls -l /dev/shm; fuser tells who has a file open), or make it larger: mount -o remount,size=.. /dev/shm",
        ));
    }
    let is_small = size <= SHM_DOCKER && nics >= MANY_NICS;
    is_small.then(|| Finding::new(Code::ShmSmall, [line]))
}

fn is_fork_safe(host: &Host) -> bool {
    ["FI_EFA_FORK_SAFE", "RDMAV_FORK_SAFE"]
        .iter()
        .any(|name| host.settings.is_on(name))
}

fn fork_and_huge(host: &Host) -> Option<Finding> {
    let is_huge = host.settings.is_on("FI_EFA_USE_HUGE_PAGE");
    let names = [
        "FI_EFA_FORK_SAFE",
        "RDMAV_FORK_SAFE",
        "FI_EFA_USE_HUGE_PAGE",
    ];
    let set = names
        .iter()
        .filter(|name| host.settings.get(name).is_some());
    let lines: Vec<String> = set.map(|name| host.settings.show(name)).collect();
    (is_huge && is_fork_safe(host)).then(|| Finding::new(Code::ForkAndHuge, lines))
}

/// On NVIDIA instances the reference's plugin, which is linked with libfabric, sets the variable itself
/// (protocol 2h.5); nobody does on Neuron, and ours never.
fn fork(host: &Host) -> Option<Finding> {
    let kernel = host
        .devices
        .kernel
        .filter(|kernel| *kernel < COPIES_ON_FORK)?;
    let line = format!(
        "kernel {kernel}; {}",
        host.settings.show("FI_EFA_FORK_SAFE")
    );
    let libraries = &host.libraries;
    let is_ours = libraries.loaded().is_some() && !libraries.is_linked && !libraries.is_foreign;
    let is_left = host.side == Side::Neuron || (is_ours && !host.devices.efas.is_empty());
    (is_left && !is_fork_safe(host)).then(|| Finding::new(Code::ForkUnsafe, [line]))
}

fn huge_pages(host: &Host) -> Option<Finding> {
    let is_asked = host.settings.is_on("FI_EFA_USE_HUGE_PAGE");
    let none = host.devices.huge_free == Some(0);
    let lines = [
        host.settings.show("FI_EFA_USE_HUGE_PAGE"),
        "HugePages_Free is 0 in /proc/meminfo".to_owned(),
    ];
    (is_asked && none).then(|| Finding::new(Code::NoHugePages, lines))
}

fn device_memory(host: &Host) -> Option<Finding> {
    let devices = &host.devices;
    if host.side != Side::Nccl || devices.gpus == 0 {
        return None;
    }
    // A module for its memory is not loaded without the driver.
    let mut drivers = PEERMEM.into_iter().chain(["nvidia"]);
    if !drivers.any(|module| devices.has_module(module)) {
        let line = format!(
            "{} GPUs are on the PCI bus, and the module nvidia is not loaded",
            devices.gpus
        );
        let finding = Finding::new(Code::NoDeviceMemory, [line]);
        return Some(
            finding.with_fix("modprobe nvidia, or install NVIDIA's driver for this kernel"),
        );
    }
    let why = no_dmabuf(host)?;
    if PEERMEM.iter().any(|module| devices.has_module(module)) {
        return None;
    }
    let modules = format!("none of the modules {} is loaded", PEERMEM.join(", "));
    Some(Finding::new(Code::NoDeviceMemory, [why, modules]))
}

/// Why memory of GPUs cannot be had by dma-buf, where it is known that it cannot.
fn no_dmabuf(host: &Host) -> Option<String> {
    let devices = &host.devices;
    if host.settings.is_on("OFI_NCCL_DISABLE_DMABUF") {
        return Some(host.settings.show("OFI_NCCL_DISABLE_DMABUF"));
    }
    if devices.is_closed {
        let what = "/proc/driver/nvidia/version: the driver is not NVIDIA's open one, and lends no memory by dma-buf";
        return Some(what.to_owned());
    }
    if !devices.without.is_empty() {
        let options = devices.without.join(" and ");
        return Some(format!(
            "this kernel was built without {options}: no dma-buf"
        ));
    }
    let kernel = devices.kernel.filter(|kernel| *kernel < HAS_DMABUF)?;
    Some(format!("kernel {kernel} has no dma-buf for RDMA"))
}
