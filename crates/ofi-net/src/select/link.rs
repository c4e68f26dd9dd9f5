//! The speed of an IP interface, which libfabric does not tell.

use std::fs;
use std::path::Path;

/// Bits per second from `/sys/class/net/<name>/speed` (Mb/s) below `root`; 0 where there is no such
/// interface, or the kernel does not know (-1: loopback, some virtual NICs).
pub(super) fn interface_speed_bps(root: &Path, name: &str) -> u64 {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return 0;
    }
    let file = root.join("sys/class/net").join(name).join("speed");
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim()
        .parse::<u64>()
        .map_or(0, |mbps| mbps.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::interface_speed_bps;

    #[test]
    fn speeds_are_read_below_the_root_only() {
        let root = std::env::temp_dir().join(format!("ofi-net-link-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            let dir = root.join("sys/class/net").join(name);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("speed"), text).unwrap();
        };
        file("eth0", "25000\n");
        file("lo", "-1\n");
        assert_eq!(interface_speed_bps(&root, "eth0"), 25_000_000_000);
        for name in ["lo", "nosuch", "", "../net/eth0", ".."] {
            assert_eq!(interface_speed_bps(&root, name), 0, "{name}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
