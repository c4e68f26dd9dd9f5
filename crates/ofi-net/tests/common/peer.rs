//! The other process of a scenario: started, given a handle, killed.

use super::{child, say, until};
use std::path::PathBuf;

const HANDLE: &str = "OFI_NET_TEST_HANDLE";

/// The handle that the other process was started with, in that process.
pub fn given_handle() -> Option<[u8; 128]> {
    let text = std::env::var(HANDLE).ok()?;
    let mut handle = [0; 128];
    for (byte, digits) in handle.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    Some(handle)
}

/// Another process with the same test and provider, which is given `handle`.
pub fn peer_process(name: &str, handle: &[u8; 128]) -> Child {
    peer_process_with(name, handle, &[])
}

/// The same, with more in its environment.
pub fn peer_process_with(name: &str, handle: &[u8; 128], more: &[(String, String)]) -> Child {
    let provider = std::env::var("FI_PROVIDER").unwrap();
    let hex: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = child(name, &provider);
    command.env(HANDLE, hex);
    command.envs(more.iter().map(|(name, value)| (name, value)));
    Child(command.spawn().unwrap())
}

fn death_order(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("ofi-net-test-die-{process}"))
}

/// In a process that [`peer_process`] started: ends it when that was ordered.
pub fn die_if_asked() {
    if std::env::var_os(HANDLE).is_some() && death_order(std::process::id()).exists() {
        std::process::abort();
    }
}

/// A process that is killed with the test.
pub struct Child(pub std::process::Child);

impl Child {
    /// Ends it without a word, wherever it is; but between two of its calls on shm of libfabric 1.x, which
    /// holds spin locks in shared memory: with one of them left behind, `fi_send` of the survivor never
    /// returns (seen as a stack on 1.17: `pthread_spin_lock` below `fi_send`).
    pub fn kill(mut self) {
        let locks = std::env::var("FI_PROVIDER").is_ok_and(|name| name == "shm")
            && super::version_is_below(efa_fabric::Version::new(2, 0));
        if locks {
            say(
                "skipped: a peer killed in the middle of a call; killed between two (shm of libfabric 1.x)",
            );
            let order = death_order(self.0.id());
            std::fs::write(&order, []).unwrap();
            until("the other process to die", || self.0.try_wait().unwrap());
            std::fs::remove_file(order).unwrap();
        }
    }

    pub fn finish(mut self) {
        let status = until("the other process", || self.0.try_wait().unwrap());
        assert!(status.success(), "the other process: {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _killed = self.0.kill().is_ok();
        let _reaped = self.0.wait().is_ok();
        remove_shared_memory(self.0.id());
    }
}

/// shm leaves its regions behind when its process is killed, or its endpoints are not closed.
pub fn remove_shared_memory(process: u32) {
    let Ok(files) = std::fs::read_dir("/dev/shm") else {
        return;
    };
    for file in files.flatten() {
        let name = file.file_name();
        if name.to_string_lossy().starts_with(&format!("{process}:")) {
            // An error says that somebody else removed it.
            let _removed = std::fs::remove_file(file.path()).is_ok();
        }
    }
}
