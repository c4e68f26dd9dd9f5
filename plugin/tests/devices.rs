//! Memory of devices, through the tables: `device.c` on the emulated EFA, with addresses that nobody may
//! touch, and on a provider that has no such memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness;

/// NICs of a generation that the reference offers dma-bufs with.
const FOURTH: (&str, &str) = ("EFA_EMU_SHAPE", "custom:nics=1,generation=4");
/// The first libfabric with dma-bufs.
const DMABUF: (u32, u32) = (1, 20);
const SENDRECV: (&str, &str) = ("OFI_NCCL_PROTOCOL", "SENDRECV");

/// On the emulated EFA. `cuda`: the driver's library can be found.
pub(crate) fn run(plugin: &Path, arguments: &[&str], cuda: bool, settings: &[(&str, &str)]) {
    on("efa", plugin, arguments, cuda, settings);
}

fn on(provider: &str, plugin: &Path, arguments: &[&str], cuda: bool, settings: &[(&str, &str)]) {
    let driver = cuda.then(harness::fake_cuda).flatten();
    let plugins: [PathBuf; 1] = [plugin.into()];
    let change = |command: &mut Command| {
        if let Some(driver) = driver {
            let others = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
            let path = format!("{}:{others}", driver.display());
            command.env("LD_LIBRARY_PATH", path.trim_end_matches(':'));
        }
        command.envs([FOURTH]).envs(settings.iter().copied());
    };
    harness::run_on(provider, (&plugins, "device", arguments), change);
}

/// Whether dma-bufs can be tried; says it where not.
fn has_dmabuf(plugin: &Path) -> bool {
    let has = !harness::libfabric_is_below(plugin, DMABUF);
    if !has {
        println!("skipped: dma-bufs, which came with libfabric 1.20");
    }
    has
}

/// Messages of all lengths, by address and by dma-buf, over both protocols.
pub(crate) fn messages(plugin: &Path, versions: &[&str]) {
    let hows: &[&str] = match has_dmabuf(plugin) {
        true => &["address", "dmabuf"],
        false => &["address"],
    };
    for version in versions {
        for how in hows {
            run(plugin, &[version, how], true, &[]);
            run(plugin, &[version, how], true, &[SENDRECV]);
        }
    }
    // As much as there can be, of what is sent before its receive.
    let eager = ("OFI_NCCL_EAGER_MAX_SIZE", "8192");
    run(plugin, &[versions[0], "address"], true, &[eager]);
    let rails = ("OFI_NCCL_FORCE_NUM_RAILS", "4");
    run(plugin, &[versions[0], "address"], true, &[rails, eager]);
}

/// A NIC or kernel that lends no memory by dma-buf: by address, with one warning.
pub(crate) fn fall_back(plugin: &Path, version: &str) {
    if has_dmabuf(plugin) {
        let lacks = ("EFA_EMU_LACKS", "dmabuf");
        run(plugin, &[version, "refused"], true, &[lacks]);
        run(plugin, &[version, "refused"], true, &[lacks, SENDRECV]);
        run(plugin, &[version, "bad"], true, &[]);
        run(plugin, &[version, "bad"], true, &[SENDRECV]);
    }
}

/// Field report REG-05: memory that ptrSupport offers is refused with EINVAL.
pub(crate) fn refused(plugin: &Path, version: &str) {
    let plan = ("EFA_EMU_PLAN", "mr-error errno=EINVAL size=1048577..2M");
    run(plugin, &[version, "einval"], true, &[plan]);
    run(plugin, &[version, "einval"], true, &[plan, SENDRECV]);
}

/// No device, or no NIC that reaches its memory: a code, and all else goes on.
pub(crate) fn none(plugin: &Path, version: &str) {
    for provider in ["tcp", "shm"] {
        on(provider, plugin, &[version, "nodevice"], true, &[]);
        on(provider, plugin, &[version, "nodevice"], true, &[SENDRECV]);
    }
    for lacks in ["hmem", "rma"] {
        let settings = [("EFA_EMU_LACKS", lacks), SENDRECV];
        run(plugin, &[version, "nodevice"], true, &settings);
    }
}
