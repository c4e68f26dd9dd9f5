//! `/dev/shm`, in which EFA's provider and NCCL have what processes of one host share.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::mounts::Mounts;
use super::root::{Absent, Root};
use super::user::{Access, User};

pub(crate) const SHM: &str = "/dev/shm";
/// Unit of `st_blocks`, stat(2).
const BLOCK_BYTES: u64 = 512;

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shm {
    /// Bytes that it may hold, where it is bounded.
    pub(crate) bytes: Option<u64>,
    /// Bytes that files in it have, as far as who looks sees them.
    pub(crate) used: u64,
    /// Why nothing can be made in it.
    pub(crate) fault: Option<String>,
    /// Where it lies, where nothing is mounted just there.
    pub(crate) within: Option<String>,
}

impl Shm {
    pub(crate) fn read(root: &Root, mounts: &Mounts, user: &User) -> Self {
        let real = root.real(Path::new(SHM));
        let place = real.as_deref().unwrap_or_else(|_| Path::new(SHM));
        let mount = mounts.at(place);
        // Of a copy of a host, which has no tmpfs, the mounts say that it was there.
        let is_gone = mounts.is_told()
            && mount.is_none()
            && matches!(real, Err(Absent::Missing | Absent::Dangling { .. }));
        let read_only = mounts.of(place).filter(|mount| mount.has("ro"));
        let fault = if is_gone {
            Some(format!("there is no {SHM}"))
        } else if let Some(mount) = read_only {
            Some(format!(
                "{} is mounted read-only ({})",
                mount.point.display(),
                mount.kind
            ))
        } else {
            real.as_ref().ok().and_then(|real| denied(root, real, user))
        };
        let around = mounts.of(place).filter(|_| mount.is_none() && !is_gone);
        Self {
            bytes: ofi_net::shm_bytes(&root.text("/proc/mounts").unwrap_or_default()),
            used: real
                .as_ref()
                .map(|real| used(&root.outside(real)))
                .unwrap_or(0),
            within: around.map(|around| format!("{} ({})", around.point.display(), around.kind)),
            fault,
        }
    }

    /// Bytes that are left, where that is known.
    pub(crate) fn free(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.saturating_sub(self.used))
    }
}

/// Making a file takes both.
fn denied(root: &Root, real: &Path, user: &User) -> Option<String> {
    let meta = std::fs::metadata(root.outside(real)).ok()?;
    let bits = (meta.uid(), meta.gid(), meta.mode() & 0o7777);
    let may = user.may(Access::ReadWrite, bits) && user.may(Access::Search, bits);
    let (owner, group, mode) = bits;
    (!may).then(|| {
        let user = user.show();
        format!("{SHM} has mode {mode:o}, owner {owner}, group {group}; the user is {user}")
    })
}

fn used(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(dir) else {
        return 0;
    };
    let files = files.flatten().filter_map(|file| file.metadata().ok());
    let bytes = files.map(|file| file.blocks().saturating_mul(BLOCK_BYTES));
    bytes.fold(0, u64::saturating_add)
}
