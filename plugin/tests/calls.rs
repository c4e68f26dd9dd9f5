//! What calls that fail say to the collectives library's logger.

use std::path::Path;

use super::harness;

/// Calls that fail say why, once each: with one table and with another.
pub(crate) fn told(plugin: &Path, versions: [&str; 2]) {
    let plugins = [plugin.into()];
    for protocol in ["RDMA", "SENDRECV"] {
        let settings = [("OFI_NCCL_PROTOCOL", protocol)];
        for (version, what) in versions.into_iter().zip(["devices", "regions"]) {
            harness::run(&plugins, "told", &[version, what], &settings);
        }
        let on = |provider: &str, what: &str, more: (&str, &str)| {
            let arguments = [versions[0], what];
            harness::run_on(provider, (&plugins, "told", &arguments), |command| {
                command.envs(settings).env(more.0, more.1);
            });
        };
        on("shm", "keys", ("OFI_NCCL_MR_KEY_SIZE", "1"));
        for (what, plan) in [
            ("refused", "mr-error errno=ENOMEM size=2M.."),
            ("taken", "mr-error errno=ENOKEY size=2M.."),
            ("endpoint", "mr-error errno=ENOMEM"),
        ] {
            on("efa", what, ("EFA_EMU_PLAN", plan));
        }
    }
}
