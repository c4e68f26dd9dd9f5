//! EFA's own error numbers, as a completion has them in `prov_errno`: 0 to 18 are the device's status,
//! 4096 and more the provider's. Which number means what was asked of libfabric 1.22.0 and 2.5.1
//! themselves; the words are ours. Of the numbers within both ranges that neither knows no more is said than that.

/// One number.
#[derive(Clone, Copy, Debug)]
pub struct EfaStatus {
    /// `prov_errno` of a completion.
    pub number: i32,
    /// What it says.
    pub meaning: &'static str,
    /// What that is due to, most of the time; empty where nobody but the provider's authors can say.
    pub likely: &'static str,
}

const fn status(number: i32, meaning: &'static str, likely: &'static str) -> EfaStatus {
    EfaStatus {
        number,
        meaning,
        likely,
    }
}

const UNTOLD_STATUS: &str = "a status of the device that libfabric up to 2.5 has no word for";
const NEWER: &str =
    "a device, driver or libfabric that is newer: see dmesg, and update the EFA installer";
const GONE: &str =
    "the buffer was deregistered while it was in use, or the two sides believe different sizes";
const FULL: &str = "more operations are under way than the provider has room for";
const VERSIONS: &str = "the libfabric of the two hosts differs";
const DEAD: &str = "the peer's process or host died, or a security group drops the traffic (it needs a rule that allows all traffic from itself)";

/// Every number that is known, in order.
pub const EFA_STATUS: &[EfaStatus] = &[
    status(0, "no error of the device", ""),
    status(
        1,
        "given back when the queue pair went",
        "its endpoint closed; another error is the cause",
    ),
    status(
        2,
        "the queue pair of this host has an internal error",
        "a fault of the device or its driver: see dmesg",
    ),
    status(
        3,
        "the device does not have this operation",
        "an older EFA or driver than the other host's",
    ),
    status(
        4,
        "the address handle is not valid here",
        "the peer's address was removed while it was in use",
    ),
    status(5, "the local key is not valid for these bytes", GONE),
    status(
        6,
        "longer than the device takes",
        "a limit of the device that the provider did not tell",
    ),
    status(7, "the remote key is not valid for these bytes", GONE),
    status(
        8,
        "the peer reset the connection",
        "the peer's endpoint closed: look at its log",
    ),
    status(
        9,
        "the peer's queue pair is gone or broken",
        "the peer's process ended or restarted",
    ),
    status(
        10,
        "the peer had no receive posted",
        "the peer makes no progress: it is busy, or stopped",
    ),
    status(
        11,
        "longer than the peer's receive",
        "OFI_NCCL_EAGER_MAX_SIZE differs between ranks",
    ),
    status(
        12,
        "the peer's device answered what was not expected",
        "a fault of the device or its driver: see dmesg of both hosts",
    ),
    status(13, "the peer does not answer any more", DEAD),
    status(
        14,
        "the peer does not know this host's address",
        "the peer did not take this host's connection yet, or dropped it",
    ),
    status(
        15,
        "the peer never answered",
        "wrong subnet or security group, or the peer has no EFA",
    ),
    status(16, UNTOLD_STATUS, NEWER),
    status(17, UNTOLD_STATUS, NEWER),
    status(18, "the two devices do not have a feature alike", VERSIONS),
    status(
        4096,
        "an error that the provider has no number for",
        "a fault of the provider: FI_LOG_LEVEL=warn has its words",
    ),
    status(4097, "a packet of a withdrawn kind", VERSIONS),
    status(4098, "a packet of a kind that is not valid", VERSIONS),
    status(4099, "a packet of an unknown kind", VERSIONS),
    status(4100, "a packet could not be posted", FULL),
    status(4101, "a packet could not be sent", FULL),
    status(4102, "an untagged message could not be handled", ""),
    status(4103, "a tagged message could not be handled", ""),
    status(4104, "a packet came twice", ""),
    status(
        4105,
        "the provider is out of memory",
        "the memory of the host or of its control group is used up",
    ),
    status(
        4106,
        "a region could not be deregistered",
        "an operation on it is under way",
    ),
    status(4107, "a receive entry could not be copied", ""),
    status(4108, "no receive entry is left", FULL),
    status(4109, "no send entry is left", FULL),
    status(
        4110,
        "an address could not be inserted",
        "the device is out of address handles, or the subnet is wrong",
    ),
    status(
        4111,
        "the address of an access to memory is not valid",
        GONE,
    ),
    status(
        4112,
        "the provider could not post its own receives",
        "locked memory is limited: ulimit -l unlimited; docker: --ulimit memlock=-1",
    ),
    status(4113, "the provider's handshake could not be sent", DEAD),
    status(4114, "work could not be posted to the send queue", FULL),
    status(4115, "the sizes of a message disagree", VERSIONS),
    status(4116, "a read could not be posted", FULL),
    status(4117, "a read by RDMA could not be posted", FULL),
    status(4118, "a type of data that is not valid", ""),
    status(
        4119,
        "a completion of a send could not be written",
        "the completion queue is full: OFI_NCCL_CQ_SIZE",
    ),
    status(
        4120,
        "a completion of a receive could not be written",
        "the completion queue is full: OFI_NCCL_CQ_SIZE",
    ),
    status(4121, "the queue of datagrams could not be read", ""),
    status(
        4122,
        "the provider's path over shared memory failed",
        "/dev/shm is full: docker --shm-size=1g",
    ),
    status(
        4123,
        "a completion of shared memory could not be written",
        "the completion queue is full: OFI_NCCL_CQ_SIZE",
    ),
    status(4124, "the peer does not answer any more", DEAD),
    status(
        4125,
        "a packet that does not go with receives without copies",
        VERSIONS,
    ),
    status(
        4126,
        "the peer's host answers and the provider's handshake failed",
        "the peer's process died, or the libfabric of the two hosts differs",
    ),
    status(
        4127,
        "an error of the provider that libfabric up to 2.5 has no word for",
        NEWER,
    ),
];

/// The row of a number.
#[must_use]
pub const fn efa_status(number: i32) -> Option<&'static EfaStatus> {
    let mut at = 0;
    while at < EFA_STATUS.len() {
        if EFA_STATUS[at].number == number {
            return Some(&EFA_STATUS[at]);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{EFA_STATUS, efa_status};

    #[test]
    fn numbers_ascend_and_every_one_of_both_ranges_that_is_known_has_its_words() {
        assert!(
            EFA_STATUS
                .windows(2)
                .all(|pair| pair[0].number < pair[1].number)
        );
        for number in (0..=18).chain(4096..=4127) {
            let status = efa_status(number).unwrap();
            assert!(
                !status.meaning.is_empty() && status.meaning.is_ascii(),
                "{number}"
            );
            assert!(status.likely.is_ascii(), "{number}");
        }
        for unknown in [-1, 19, 107, 4095, 4128] {
            assert!(efa_status(unknown).is_none(), "{unknown}");
        }
    }
}
