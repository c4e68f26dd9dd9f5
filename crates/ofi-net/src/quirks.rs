//! What old libfabrics need, told from their version and from what their entries say.

use efa_fabric::{Info, Library, Version, consts};

/// Before this version, TCP reports no lengths of incoming writes and its registrations race.
const TCP_GREW_UP: Version = Version::new(1, 18);

fn is_older(than: Version) -> bool {
    Library::get().is_some_and(|library| Version::of(library) < than)
}

fn speaks_ip(info: &Info) -> bool {
    let formats = [
        consts::FI_SOCKADDR,
        consts::FI_SOCKADDR_IN,
        consts::FI_SOCKADDR_IN6,
    ];
    formats.contains(&info.addr_format())
}

/// Whether an incoming write without a length says nothing: socket providers before 1.18 report 0
/// for all of them (decision 16).
pub(crate) fn lengths_missing(info: &Info) -> bool {
    is_older(TCP_GREW_UP) && speaks_ip(info)
}

/// Whether memory must not be registered while another thread makes progress, although the provider
/// offers `FI_THREAD_SAFE`: `net` of 1.17 then loses keys now and then, so that a peer's write goes
/// nowhere and closing the region says `FI_ENOKEY`. Registering is quick there.
pub(crate) fn registration_races(info: &Info) -> bool {
    lengths_missing(info)
}

/// First version whose tcp keeps its connection when a message is longer than its receive.
const TCP_DROPS_REST: Version = Version::new(1, 22);

/// Whether the rest of a message that did not fit its receive is gone, with what fits in place: where a
/// provider does not say it by length and overflow (`None`: go by those). Measured, see
/// `efa_fabric::CompletionError::is_truncated`.
pub(crate) fn drops_rest_of_truncated(info: &Info) -> Option<bool> {
    match info.provider_name() {
        "tcp" => Some(!is_older(TCP_DROPS_REST)),
        // It says length and overflow, and yet gives the rest of some messages to the next receive.
        layered if layered.ends_with("ofi_rxm") => Some(false),
        _ => None,
    }
}

/// Whether data arrives only inside calls into the library although the provider says that it moves data
/// by itself (`FI_PROGRESS_AUTO`): so do `net` of 1.17 and `tcp` of 1.22 and 2.5.1. Who waits for bytes
/// without calling waits for ever.
pub(crate) fn moves_in_calls_only(info: &Info) -> bool {
    speaks_ip(info)
}

/// What the user should know of shm before libfabric 2.0: it holds spin locks in memory that it shares
/// with its peers. With one left behind by a peer that was killed, `fi_send` never returns (seen on 1.17),
/// and no deadline of ours can end a call.
pub(crate) fn advice(provider: &str, version: Version) -> Option<String> {
    let locks = provider == "shm" && version < Version::new(2, 0);
    locks.then(|| {
        format!(
            "shm of libfabric {version} shares locks between processes: if a peer is killed, a call here may \
             never return; end the whole job then, or use tcp, or shm of libfabric 2.0 or newer"
        )
    })
}

/// First kernel whose forks copy pinned pages at once, so that EFA's provider has no fear of them.
const COPIES_ON_FORK: (u32, u32) = (5, 13);

/// What the user of EFA should know of an older kernel: where `FI_EFA_FORK_SAFE` is not set, libfabric ends a
/// process that forks while its memory is registered. The reference sets the variable in its NCCL plugin;
/// this one leaves the environment alone (decision 21).
pub(crate) fn forks(kernel: Option<(u32, u32)>) -> Option<String> {
    let (major, minor) = kernel.filter(|kernel| *kernel < COPIES_ON_FORK)?;
    Some(format!(
        "kernel {major}.{minor}, older than 5.13: libfabric ends a process that forks (data loaders) unless \
         FI_EFA_FORK_SAFE=1 is set where it is started"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Version, advice, forks};

    #[test]
    fn kernels_that_do_not_copy_on_fork_are_told_of() {
        for old in [(4, 14), (5, 10), (5, 12)] {
            assert!(forks(Some(old)).unwrap().contains("FI_EFA_FORK_SAFE=1"));
        }
        for fine in [None, Some((5, 13)), Some((5, 15)), Some((6, 1))] {
            assert_eq!(forks(fine), None);
        }
    }

    #[test]
    fn only_shm_before_two_has_advice() {
        let old = advice("shm", Version::new(1, 22)).unwrap();
        assert!(old.contains("1.22") && old.contains("killed"), "{old}");
        assert_eq!(advice("shm", Version::new(2, 0)), None);
        assert_eq!(advice("tcp", Version::new(1, 17)), None);
    }
}
