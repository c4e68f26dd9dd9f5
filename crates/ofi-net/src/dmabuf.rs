//! Whether memory can be registered by dma-buf, and if not, why (protocol 2a.4, 2g.1).
//!
//! ```text
//! the user allows it, Linux >= 5.12     -> API 1.20 is asked for, else 1.18
//! and API >= 1.20, FI_HMEM              -> regMrDmaBuf registers
//! and a NIC, not an early EFA           -> said in the properties
//! ```
//!
//! All that is no promise: drivers of devices and of NICs have their say when a dma-buf is registered. Where
//! they say that they take none, a device goes by addresses from then on ([`DmaBufs`]).

use crate::config::Config;
use crate::efa;
use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use crate::stretch::{DmaBuf, MemoryKind};
use core::sync::atomic::{AtomicBool, Ordering};
use efa_fabric::{Caps, FabricError, Info, Version};
use ofi_topo::Sysfs;
use std::path::Path;
use std::sync::Arc;

/// Linux from which drivers export device memory as dma-buf for RDMA.
const LINUX_MIN: (u32, u32) = (5, 12);

/// `FI_EBADFLAGS`.
const EBADFLAGS: i32 = ofi_sys::errno::FI_EBADFLAGS;

/// EFA devices on which the reference does not offer it, as PCI device ids.
const EARLY_EFA: [&str; 3] = ["efa0", "efa1", "efa2"];

/// The API of libfabric to ask for.
pub(crate) fn api_version(config: &Config) -> Version {
    if allowed(config).is_ok() {
        Version::DMABUF
    } else {
        Version::new(1, 18)
    }
}

/// Whether a region can be registered by dma-buf with this entry.
///
/// # Errors
/// Why not, as the end of a sentence.
pub(crate) fn usable(config: &Config, info: &Info) -> Result<(), String> {
    allowed(config)?;
    let api = info.api_version();
    if api < Version::DMABUF {
        return Err(format!(
            "libfabric speaks API {api}, and 1.20 is the first with it"
        ));
    }
    if !info.caps().contains(Caps::HMEM) {
        let provider = info.provider_name();
        return Err(format!("provider {provider} has no FI_HMEM"));
    }
    Ok(())
}

/// Whether callers are told of it.
pub(crate) fn is_offered(config: &Config, info: &Info) -> bool {
    let device = info.nic().map(|nic| nic.device_id().map(str::to_owned));
    let early = |id: &str| EARLY_EFA.contains(&id.trim().trim_start_matches("0x"));
    match device {
        None => false,
        Some(id) if efa::is_efa(info) => id.is_some_and(|id| !early(&id)),
        Some(_) => true,
    }
    .then(|| usable(config, info))
    .is_some_and(|usable| usable.is_ok())
}

/// What a device learned of dma-bufs; all its domains share it.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    /// None can be had: addresses are used, and callers are told of no dma-bufs any more.
    given_up: AtomicBool,
    /// The log was told that one was refused.
    told: AtomicBool,
}

impl Lesson {
    /// Whether dma-bufs may still work.
    pub(crate) fn are_tried(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }
}

/// What becomes of dma-bufs that are refused on a device.
#[derive(Debug)]
pub(crate) struct DmaBufs {
    /// Of the device.
    pub(crate) lesson: Arc<Lesson>,
    /// What it is called in the log.
    pub(crate) label: String,
    /// Where its one line goes.
    pub(crate) log: Arc<dyn Log>,
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// Any dma-buf: there is no use in trying another one.
    All,
    /// This one, such as of memory of a device that the NIC cannot reach.
    This,
    /// The call: its descriptor is none, or there is no room. The address would hide that.
    Call,
}

/// By `fi_mr(3)` (EBADFLAGS: the flag is not known; ENOSYS: not supported) and what drivers of devices
/// and NICs have been seen to give: EOPNOTSUPP and EPROTONOSUPPORT where they lend no memory by dma-buf,
/// EFAULT where the file was passed over and the address looked at, EINVAL for a file or a range that they
/// cannot use.
fn about(errno: i32) -> About {
    match errno {
        libc::EOPNOTSUPP
        | libc::ENOSYS
        | libc::EPROTONOSUPPORT
        | libc::ENOPROTOOPT
        | libc::EFAULT
        | EBADFLAGS => About::All,
        libc::EINVAL => About::This,
        _ => About::Call,
    }
}

impl DmaBufs {
    /// Whether one is worth a try.
    pub(crate) fn are_tried(&self) -> bool {
        self.lesson.are_tried()
    }

    /// One was refused on a rail: whether its memory is to be registered by its address instead. The first
    /// time that is a line of the log.
    pub(crate) fn give_up(
        &self,
        (dmabuf, kind): (DmaBuf, MemoryKind),
        rail: usize,
        error: &FabricError,
    ) -> bool {
        let about = about(error.errno().code());
        // Memory of the host is within every NIC's reach: what is refused is a bad call.
        if about == About::Call || (about == About::This && kind == MemoryKind::Host) {
            return false;
        }
        if about == About::All {
            self.lesson.given_up.store(true, Ordering::Relaxed);
        }
        if !self.lesson.told.swap(true, Ordering::Relaxed) {
            log::warn(&*self.log, Subsys::Net, || {
                let Self { label, .. } = self;
                let DmaBuf { fd, offset } = dmabuf;
                let what = format!("{label}: dma-buf {fd}, offset {offset}, rail {rail}: {error}");
                NetError::new(Code::DmaBufRefused, what)
            });
        }
        true
    }
}

fn allowed(config: &Config) -> Result<(), String> {
    if !config.dmabuf {
        return Err("OFI_NCCL_DISABLE_DMABUF is set".to_owned());
    }
    let release = kernel_release(&config.fs_root);
    match major_minor(&release) {
        Some(version) if version >= LINUX_MIN => Ok(()),
        _ => Err(format!(
            "the kernel is {release:?}, and Linux 5.12 is needed"
        )),
    }
}

fn kernel_release(root: &Path) -> String {
    let line = Sysfs::new(root).line("proc/sys/kernel/osrelease");
    line.unwrap_or_default()
}

/// The version of the host's kernel, where it says one.
pub(crate) fn kernel(root: &Path) -> Option<(u32, u32)> {
    major_minor(&kernel_release(root))
}

fn major_minor(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Flavour;

    fn on(release: Option<&str>) -> Config {
        let name = release.unwrap_or("none");
        let root = std::env::temp_dir().join(format!("ofi-dmabuf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        if let Some(release) = release {
            std::fs::write(root.join("proc/sys/kernel/osrelease"), release).unwrap();
        }
        Config {
            fs_root: root,
            ..Config::new(Flavour::Neuron)
        }
    }

    #[test]
    fn kernel_and_user_decide_which_api_is_asked_for() {
        for (release, version) in [
            (Some("6.1.0-18-amd64\n"), Version::DMABUF),
            (Some("5.12.0"), Version::DMABUF),
            (Some("5.10.210-201.855.amzn2.x86_64"), Version::new(1, 18)),
            (None, Version::new(1, 18)),
        ] {
            let config = on(release);
            assert_eq!(api_version(&config), version, "{release:?}");
            let off = Config {
                dmabuf: false,
                ..config
            };
            assert_eq!(api_version(&off), Version::new(1, 18));
            assert!(allowed(&off).unwrap_err().contains("DISABLE_DMABUF"));
            std::fs::remove_dir_all(&off.fs_root).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_had_is_not_tried_again_and_a_bad_call_is_no_reason() {
        for errno in [libc::EOPNOTSUPP, libc::ENOSYS, libc::EPROTONOSUPPORT, 260] {
            assert_eq!(about(errno), About::All, "{errno}");
        }
        assert_eq!(about(libc::EINVAL), About::This);
        for errno in [libc::EBADF, libc::ENOMEM, libc::EAGAIN, libc::EACCES] {
            assert_eq!(about(errno), About::Call, "{errno}");
        }
    }
}
