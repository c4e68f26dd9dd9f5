//! What the shm provider lives in: where /dev/shm has no room for its regions libfabric lists no shm at all
//! (1.17: none with 4 MiB, seen), which looks like a provider that is not there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Unit of `st_blocks`, stat(2).
const BLOCK_BYTES: u64 = 512;

/// One clause on `/dev/shm` below `root`, for who asked for shm and has none; `None` where it has no bound.
pub(super) fn room(root: &Path) -> Option<String> {
    let Ok(files) = fs::read_dir(root.join("dev/shm")) else {
        return Some("there is no /dev/shm, which shm needs".to_owned());
    };
    let mounts = fs::read_to_string(root.join("proc/mounts")).ok()?;
    let bound = bound(&mounts)? >> 10;
    let files = files.flatten().filter_map(|file| file.metadata().ok());
    let used = files.map(|file| file.blocks().saturating_mul(BLOCK_BYTES));
    let used = used.fold(0, u64::saturating_add) >> 10;
    Some(format!(
        "/dev/shm has {bound} KiB, {used} of them used: libfabric lists no shm where its regions have no \
         room (docker: --shm-size=1g)"
    ))
}

/// Bytes that `/dev/shm` may hold, by the text of `/proc/mounts`: of mounts over each other the last one is
/// what is seen. `None`: no such mount, or one without a bound.
///
/// ```
/// let mounts = "proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n";
/// assert_eq!(ofi_net::shm_bytes(mounts), Some(64 << 20));
/// ```
#[must_use]
pub fn bound(mounts: &str) -> Option<u64> {
    let lines = mounts.lines().map(str::split_ascii_whitespace);
    let options = |mut line: core::str::SplitAsciiWhitespace<'_>| {
        (line.nth(1)? == "/dev/shm").then(|| line.nth(1).unwrap_or_default().to_owned())
    };
    let last = lines.filter_map(options).next_back()?;
    let size = (last.split(',')).find_map(|option| option.strip_prefix("size="))?;
    let digits = size.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match size.strip_prefix(digits)? {
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::{bound, room};
    use std::fs;
    use std::io::Write as _;

    #[test]
    fn bounds_are_read_as_the_kernel_writes_them() {
        let of = |text: &str| bound(text);
        assert_eq!(of("tmpfs /dev/shm tmpfs rw,size=1g\n"), Some(1 << 30));
        assert_eq!(of("tmpfs /dev/shm tmpfs rw,size=7,x 0 0\n"), Some(7));
        let over = "tmpfs /dev/shm tmpfs rw,size=1g 0 0\nt /dev/shm tmpfs rw,size=64k 0 0\nt /dev t size=9\n";
        assert_eq!(of(over), Some(64 << 10), "the last is what is seen");
        for none in [
            "",
            "short",
            "t /dev/shm",
            "t /dev/shm tmpfs rw,nosuid 0 0",
            "t /dev/shm tmpfs size=,rw",
            "t /dev/shm tmpfs size=k",
            "t /dev/shm tmpfs size=99999999999999999999k",
            "t /dev/shm tmpfs size=18446744073709551615g",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn room_is_told_with_what_is_used() {
        let root = tempfile::tempdir().unwrap();
        let says = || room(root.path());
        assert!(says().unwrap().starts_with("there is no /dev/shm"));
        fs::create_dir_all(root.path().join("dev/shm")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        assert_eq!(says(), None, "nobody knows a bound");
        let mounts = "tmpfs /dev/shm tmpfs rw,size=64k 0 0\n";
        fs::write(root.path().join("proc/mounts"), mounts).unwrap();
        let text = says().unwrap();
        assert!(
            text.starts_with("/dev/shm has 64 KiB, 0 of them used: "),
            "{text}"
        );
        let mut file = fs::File::create(root.path().join("dev/shm/full")).unwrap();
        file.write_all(&[1; 8192]).unwrap();
        // Its blocks may come later.
        file.sync_all().unwrap();
        let text = says().unwrap();
        assert!(
            !text.contains(" 0 of them used") && !text.contains('\n'),
            "{text}"
        );
    }
}
