//! What pairs of error numbers are known to mean. The pairs are those of the EFA provider
//! (libfabric's sources, providers.md 6), which gives the device's own status as `prov_errno`.

use ofi_rdma::Cause;

/// A sentence for a pair of numbers that is known; `None` for all others.
pub(super) const fn of_cause(cause: Cause) -> Option<&'static str> {
    Some(match (cause.errno, cause.provider_errno) {
        (22, 5) => "the device does not know the local key: the buffer was deregistered too early",
        (22, 7) => "the peer's device does not know the remote key: its buffer was deregistered",
        (107, 9) => "the peer's queue pair is gone: its process ended or restarted",
        (107, 14) => "the peer does not know this endpoint yet",
        (103, 8) => "the device aborted the operation",
        (103, 13) => {
            "the peer does not answer: its process or host died, or a security group drops the traffic"
        }
        (103, 4126) => "the provider's handshake with the peer failed",
        (113, 15) => "the peer's host cannot be reached from this one",
        (_, 4112) => "the provider could not post its buffers: raise the limit of locked memory",
        (265, _) => {
            "a receive buffer is smaller than what the peer sent: set OFI_NCCL_EAGER_MAX_SIZE alike on all ranks"
        }
        (107, _) => {
            "the connection to the peer is gone: its process ended, or TCP cut it because of an access with a key that is not valid any more"
        }
        (111, _) => "nobody listens at the peer's address: its process ended",
        _ => return None,
    })
}
