//! What libfabric does not tell of an IP interface: its speed, and whether it reaches this host only.

use std::path::Path;

use ofi_topo::Sysfs;

/// `IFF_LOOPBACK` of netdevice(7).
const LOOPBACK: u32 = 0x8;

/// Bits per second from `/sys/class/net/<name>/speed` (Mb/s) below `root`; 0 where there is no such
/// interface, or the kernel does not know (-1: loopback, some virtual NICs).
pub(super) fn interface_speed_bps(root: &Path, name: &str) -> u64 {
    read(root, name, "speed")
        .parse::<u64>()
        .map_or(0, |mbps| mbps.saturating_mul(1_000_000))
}

/// Whether `/sys/class/net/<name>/flags` below `root` says so.
pub(super) fn is_loopback(root: &Path, name: &str) -> bool {
    let text = read(root, name, "flags");
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    u32::from_str_radix(digits, 16).is_ok_and(|flags| flags & LOOPBACK != 0)
}

/// Those of `names` that no interface of the host has; none where sysfs shows no interfaces. Addresses have
/// labels (`eth0:1`), which libfabric goes by and sysfs does not.
pub(super) fn strangers<'a>(root: &Path, names: &'a [String]) -> Vec<&'a str> {
    let is_there = |name: &str| !read(root, name, "flags").is_empty();
    if !is_there("lo") {
        return Vec::new();
    }
    let is_known = |name: &str| is_there(name.split_once(':').map_or(name, |(name, _)| name));
    let names = names.iter().map(String::as_str);
    names.filter(|name| !is_known(name)).collect()
}

/// An attribute of an interface; empty where there is none.
fn read(root: &Path, name: &str, attribute: &str) -> String {
    Sysfs::new(root)
        .interface(name, attribute)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{interface_speed_bps, is_loopback, strangers};

    #[test]
    fn interfaces_are_read_below_the_root_only() {
        let root = std::env::temp_dir().join(format!("ofi-net-link-{}", std::process::id()));
        let interface = |name: &str, speed: &str, flags: &str| {
            let dir = root.join("sys/class/net").join(name);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("speed"), speed).unwrap();
            std::fs::write(dir.join("flags"), flags).unwrap();
        };
        interface("eth0", "25000\n", "0x1003\n");
        interface("lo", "-1\n", "0x9\n");
        assert_eq!(interface_speed_bps(&root, "eth0"), 25_000_000_000);
        for name in ["lo", "nosuch", "", "../net/eth0", ".."] {
            assert_eq!(interface_speed_bps(&root, name), 0, "{name}");
            assert_eq!(is_loopback(&root, name), name == "lo", "{name}");
        }
        assert!(!is_loopback(&root, "eth0"));
        let names = ["eth0", "eth0:1", "eth7", "eth7:1", "lo", "../net/lo"].map(str::to_owned);
        assert_eq!(strangers(&root, &names), ["eth7", "eth7:1", "../net/lo"]);
        let nothing = root.join("nosuch");
        assert!(strangers(&nothing, &names).is_empty(), "no sysfs, no news");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
