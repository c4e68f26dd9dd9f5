//! What tells hosts apart, in GUIDs and in the topology file for NCCL: the same in every process of a host.
//!
//! ```text
//! boot id of the kernel  >  all of: machine id, host name, EC2 instance id, MAC addresses  >  nothing (said)
//! ```
//!
//! Of the second kind no one is enough: images carry their machine id, and many hosts are called localhost.

use std::path::Path;

use ofi_topo::Sysfs;

/// What is said where nothing tells this host from others.
pub(crate) const NOTHING: &str = "nothing tells this host from others (no boot_id, machine-id, host name or MAC address can \
                                  be read, as where /proc and /sys are not mounted): GUIDs of devices are those of \
                                  other such hosts, and so is host_hash in the topology file";

/// The kernel's number for this run of it: that of no other host.
const BOOT: &str = "proc/sys/kernel/random/boot_id";
/// What else may differ between hosts.
const OTHERS: [&str; 3] = ["etc/machine-id", "proc/sys/kernel/hostname", "etc/hostname"];
/// Nitro hosts have the instance's id here (i-0123456789abcdef0), other makers anything.
const ASSET: &str = "sys/devices/virtual/dmi/id/board_asset_tag";
/// Names that many hosts have, and the machine id of an image that was not started yet.
const NO_NAMES: [&str; 5] = [
    "",
    "localhost",
    "localhost.localdomain",
    "(none)",
    "uninitialized",
];

/// A number for the host below `root`, as the NCCL plugin writes it into `host_hash` of the topology file; `None`
/// where nothing tells it from others.
///
/// # Costs
/// Reads some small files.
#[must_use]
pub fn hash(root: &Path) -> Option<u64> {
    let parts = parts(root);
    (!parts.is_empty()).then(|| hashed(&parts).value())
}

/// The beginning of a hash of something on this host.
pub(crate) fn of(root: &Path) -> Fnv {
    hashed(&parts(root))
}

fn hashed(parts: &[String]) -> Fnv {
    let mut hash = Fnv::new();
    for part in parts {
        hash.add(part.as_bytes());
    }
    hash
}

fn parts(root: &Path) -> Vec<String> {
    let sysfs = Sysfs::new(root);
    let line = |file: &&str| {
        sysfs
            .line(file)
            .filter(|line| !NO_NAMES.contains(&line.as_str()))
    };
    if let Some(boot) = line(&BOOT) {
        return vec![boot];
    }
    let asset = line(&ASSET).filter(|tag| tag.starts_with("i-"));
    let mut parts: Vec<String> = OTHERS.iter().filter_map(line).chain(asset).collect();
    parts.extend(addresses(root));
    parts
}

/// MAC addresses of interfaces that are devices, in order: those of bridges and of containers come and go.
fn addresses(root: &Path) -> Vec<String> {
    let sysfs = Sysfs::new(root);
    let interfaces = root.join("sys/class/net");
    let entries = std::fs::read_dir(&interfaces)
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let of_devices = names.filter(|name| interfaces.join(name).join("device").exists());
    let addresses = of_devices.filter_map(|name| sysfs.interface(&name, "address"));
    let is_none = |address: &str| address.chars().all(|c| c == '0' || c == ':');
    let mut addresses: Vec<String> = addresses.filter(|address| !is_none(address)).collect();
    addresses.sort_unstable();
    addresses
}

/// FNV-1a, 64 bits: the same in every process and version, unlike the hashes of std.
pub(crate) struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // The length keeps ("ab", "c") apart from ("a", "bc").
        for &byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) const fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{ASSET, BOOT, OTHERS, hash, of};
    use std::collections::HashSet;
    use std::path::Path;

    /// A host of these files.
    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{text}\n")).unwrap();
        }
        root
    }

    const MAC: &str = "sys/class/net/eth0/address";
    const DEVICE: &str = "sys/class/net/eth0/device/vendor";

    /// Each source alone, and beside a machine id that all hosts have from their image, tells two hosts apart.
    #[test]
    fn each_source_tells_hosts_apart() {
        let image = ("etc/machine-id", "00112233445566778899aabbccddeeff");
        for (file, one, other) in [
            (BOOT, "11111111-1111", "22222222-2222"),
            (OTHERS[0], "aa", "bb"),
            (OTHERS[1], "ip-10-0-0-1", "ip-10-0-0-2"),
            (OTHERS[2], "ip-10-0-0-1", "ip-10-0-0-2"),
            (ASSET, "i-0123456789abcdef0", "i-0123456789abcdef1"),
            (MAC, "02:00:00:00:00:01", "02:00:00:00:00:02"),
        ] {
            let with = |text| {
                let device = (DEVICE, "0x1d0f");
                let alone = hash(host(&[(file, text), device]).path());
                let imaged = hash(host(&[image, (file, text), device]).path());
                [alone.unwrap(), imaged.unwrap()]
            };
            let ([a, b], [c, d]) = (with(one), with(other));
            assert!(a != c && b != d, "{file}");
            assert_eq!([a, b], with(one), "{file}");
        }
    }

    /// What many hosts have alike counts for nothing, and that nothing does is an answer.
    #[test]
    fn what_hosts_have_alike_is_no_source() {
        let none = [
            (BOOT, ""),
            (OTHERS[0], "uninitialized"),
            (OTHERS[1], "localhost"),
            (OTHERS[2], "(none)"),
            (ASSET, "Not Specified"),
            (MAC, "00:00:00:00:00:00"),
            (DEVICE, "0x1d0f"),
            // A bridge: no device.
            ("sys/class/net/docker0/address", "02:42:00:00:00:01"),
        ];
        for files in [&none[..], &[]] {
            assert_eq!(hash(host(files).path()), None, "{files:?}");
        }
        assert_eq!(hash(Path::new("/nonexistent")), None);
        let known = host(&[(BOOT, "1")]);
        assert_eq!(hash(known.path()), Some(of(known.path()).value()));
        // The boot id is enough: containers of a host have other names.
        let pod = host(&[(BOOT, "1"), (OTHERS[1], "pod")]);
        assert_eq!(hash(pod.path()), hash(known.path()));
        let all: HashSet<_> = [&known, &host(&[(BOOT, "2")])]
            .map(|host| hash(host.path()))
            .into();
        assert_eq!(all.len(), 2);
    }
}
