//! What pairs of error numbers are known to mean: libfabric's, and the provider's own behind it.

use efa_fabric::Errno;
use ofi_rdma::{Cause, OpKind};

use super::efa::efa_status;

/// EFA's numbers of the device end here, and those of its provider start there (`efa.rs`).
const DEVICE_LAST: i32 = 18;
const PROVIDER_FIRST: i32 = 4096;

const ECANCELED: i32 = libc::ECANCELED;
const ENOTCONN: i32 = libc::ENOTCONN;
const EINVAL: i32 = libc::EINVAL;
const ECONNABORTED: i32 = libc::ECONNABORTED;
const EHOSTUNREACH: i32 = libc::EHOSTUNREACH;
const EIO: i32 = libc::EIO;
const EREMOTEIO: i32 = libc::EREMOTEIO;

const FI_ETRUNC: i32 = Errno::ETRUNC.code();
const FI_ENORX: i32 = Errno::ENORX.code();

/// Beside a peer that died, when a connection is only being made: fabrics of one provider do not reach each
/// other's endpoints, and what they answer is that there is none.
const OTHER_KIND: &str =
    "or the peer's endpoint is of another fabric (efa, efa-direct) or protocol (OFI_NCCL_PROTOCOL)";

/// A sentence for an operation that failed with a pair of numbers; `None` where nothing is known.
pub(super) fn of_operation(op: OpKind, cause: Cause) -> Option<String> {
    let known = of_cause(cause);
    let is_nobody = matches!(
        cause.errno,
        ENOTCONN | ECONNABORTED | EHOSTUNREACH | libc::ECONNREFUSED | libc::ECONNRESET
    );
    if op != OpKind::Conn || !is_nobody {
        return known;
    }
    let notes: Vec<String> = known.into_iter().chain([OTHER_KIND.to_owned()]).collect();
    Some(notes.join("; "))
}

/// A sentence for a pair of numbers that is known; `None` for all others.
pub(super) fn of_cause(cause: Cause) -> Option<String> {
    let (errno, number) = (cause.errno, cause.provider_errno);
    let known = of_errno(errno);
    match efa_status(number).filter(|_| is_of_efa(errno, number)) {
        // What only follows says so, and what is behind it is told elsewhere.
        Some(efa) if efa.likely.is_empty() => Some(format!("EFA: {}", efa.meaning)),
        Some(efa) => Some(format!("EFA: {}; likely: {}", efa.meaning, efa.likely)),
        None => known.map(str::to_owned),
    }
}

/// Whether the pair is one that EFA's provider gives. Small numbers are errnos elsewhere (tcp says 107/107
/// or 125/2), so the device's count only with the errno that EFA gives with them (providers.md 6), or with
/// one that says nothing.
const fn is_of_efa(errno: i32, number: i32) -> bool {
    match number {
        1 => errno == ECANCELED,
        5 | 7 => matches!(errno, EINVAL | EIO),
        9 | 14 => matches!(errno, ENOTCONN | EIO),
        8 | 13 => matches!(errno, ECONNABORTED | EIO),
        10 => matches!(errno, FI_ENORX | EIO),
        11 => matches!(errno, FI_ETRUNC | libc::EMSGSIZE | EIO),
        15 => matches!(errno, EHOSTUNREACH | EIO),
        2..=DEVICE_LAST => matches!(errno, EIO | EREMOTEIO | libc::EOPNOTSUPP | libc::EMSGSIZE),
        _ => number >= PROVIDER_FIRST,
    }
}

const fn of_errno(errno: i32) -> Option<&'static str> {
    Some(match errno {
        FI_ETRUNC => {
            "a receive buffer is smaller than what the peer sent: set OFI_NCCL_EAGER_MAX_SIZE alike on all ranks"
        }
        ENOTCONN => {
            "the connection to the peer is gone: its process ended, or TCP cut it because of an access with a key that is not valid any more"
        }
        libc::ECONNREFUSED => "nobody listens at the peer's address: its process ended",
        libc::ECONNRESET => "the peer's process ended in the middle of a message",
        ECANCELED => {
            "it was given back because its endpoint or connection went; another error is the cause"
        }
        libc::ENOMEM => "memory or locked memory ran out: ulimit -l",
        EHOSTUNREACH | libc::ENETUNREACH => "there is no route to the peer's address",
        libc::ETIMEDOUT => {
            "the peer did not answer: a firewall or security group may drop the traffic"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Cause, of_cause};

    fn said(errno: i32, provider_errno: i32) -> String {
        let cause = Cause {
            errno,
            provider_errno,
        };
        of_cause(cause).unwrap_or_default()
    }

    #[test]
    fn numbers_of_efa_are_decoded_and_those_of_others_are_not_taken_for_them() {
        for (errno, number, words) in [
            (22, 7, "EFA: the remote key is not valid"),
            (107, 9, "EFA: the peer's queue pair is gone"),
            (
                103,
                13,
                "EFA: the peer does not answer any more; likely: the peer's process",
            ),
            (
                103,
                4126,
                "EFA: the peer's host answers and the provider's handshake failed",
            ),
            (5, 4112, "ulimit -l unlimited"),
            (5, 2, "EFA: the queue pair of this host"),
            (269, 10, "EFA: the peer had no receive posted"),
            (125, 1, "EFA: given back"),
            (113, 15, "EFA: the peer never answered"),
        ] {
            assert!(
                said(errno, number).contains(words),
                "{errno}/{number}: {}",
                said(errno, number)
            );
        }
        for (errno, number) in [
            (107, 107),
            (107, 32),
            (125, 2),
            (125, 107),
            (111, 111),
            (104, 4),
        ] {
            let said = said(errno, number);
            assert!(
                !said.is_empty() && !said.contains("EFA"),
                "{errno}/{number}: {said}"
            );
        }
        assert_eq!(said(71, 0), "");
    }
}
