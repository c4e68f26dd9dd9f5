//! Memory: limits of locked and shared memory, huge pages, fork, memory of GPUs.

use crate::doctor::code::Code;
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
    let limit = host
        .process
        .memlock
        .filter(|_| host.process.is_lock_bounded())?;
    let code = if limit < MEMLOCK_LEAST {
        Code::MemlockLow
    } else {
        Code::MemlockBounded
    };
    let line = format!("ulimit -l: {} KiB, and no CAP_IPC_LOCK", limit / 1024);
    let place = host.process.container.map(str::to_owned);
    Some(Finding::new(code, [line].into_iter().chain(place)))
}

fn shm(host: &Host) -> Option<Finding> {
    let size = host.devices.shm?;
    let nics = host.devices.efa_nics().count();
    let code = if size < SHM_LEAST {
        Code::ShmTiny
    } else if size <= SHM_DOCKER && nics >= MANY_NICS {
        Code::ShmSmall
    } else {
        return None;
    };
    let line = format!("/dev/shm: {} KiB, for {nics} EFAs", size / 1024);
    Some(Finding::new(code, [line]))
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

/// On NVIDIA instances the plugin itself sees to it (protocol 2h.5); on Neuron nobody does.
fn fork(host: &Host) -> Option<Finding> {
    let kernel = host
        .devices
        .kernel
        .filter(|kernel| *kernel < COPIES_ON_FORK)?;
    let line = format!(
        "kernel {kernel}; {}",
        host.settings.show("FI_EFA_FORK_SAFE")
    );
    let is_missing = host.side == Side::Neuron && !is_fork_safe(host);
    is_missing.then(|| Finding::new(Code::ForkUnsafe, [line]))
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
    let kernel = devices
        .kernel
        .filter(|_| host.side == Side::Nccl && devices.gpus > 0)?;
    let can_dmabuf = kernel >= HAS_DMABUF && !host.settings.is_on("OFI_NCCL_DISABLE_DMABUF");
    if can_dmabuf || PEERMEM.iter().any(|module| devices.has_module(module)) {
        return None;
    }
    let why = match kernel < HAS_DMABUF {
        true => format!("kernel {kernel} has no dma-buf for RDMA"),
        false => host.settings.show("OFI_NCCL_DISABLE_DMABUF"),
    };
    let modules = format!("none of the modules {} is loaded", PEERMEM.join(", "));
    Some(Finding::new(Code::NoDeviceMemory, [why, modules]))
}
