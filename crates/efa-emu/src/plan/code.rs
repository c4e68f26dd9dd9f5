//! The errors that EFA reports in a completion: pairs of libfabric's `err` and the device's
//! `prov_errno` (providers 6, "errors").

/// `err` and `prov_errno` of an error entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// libfabric's, positive: an errno, or one of `rdma/fi_errno.h` from 256 on.
    pub err: i32,
    /// The provider's: a status of the device, or from 4096 on one of the provider's own.
    pub prov_errno: i32,
}

impl Code {
    const fn new(err: i32, prov_errno: i32) -> Self {
        Self { err, prov_errno }
    }

    /// The queue pair was stopped with the operation on it.
    pub const FLUSHED: Self = Self::new(125, 1);
    /// The local buffer is not of the region that its descriptor names.
    pub const BAD_LKEY: Self = Self::new(22, 5);
    /// The remote key or address is of no region, or the region does not allow it.
    pub const BAD_RKEY: Self = Self::new(22, 7);
    /// The peer's device gave up the operation.
    pub const ABORTED: Self = Self::new(103, 8);
    /// The peer has no such queue pair: it closed the endpoint.
    pub const BAD_QPN: Self = Self::new(107, 9);
    /// The peer posted no receive for as long as was tried (`FI_ENORX`).
    pub const RECEIVER_NOT_READY: Self = Self::new(269, 10);
    /// The operation does not fit what the peer offers.
    pub const BAD_LENGTH: Self = Self::new(90, 11);
    /// Nothing answers: the peer's host or process is gone.
    pub const UNRESPONSIVE: Self = Self::new(103, 13);
    /// The peer has not been told the address of this endpoint.
    pub const UNKNOWN_PEER: Self = Self::new(107, 14);
    /// There is no way to the peer.
    pub const UNREACHABLE: Self = Self::new(113, 15);
    /// The handshake of the provider failed.
    pub const HANDSHAKE_FAILED: Self = Self::new(103, 4126);

    /// All that have a name, with the name.
    pub const NAMED: [(&'static str, Self); 11] = [
        ("flushed", Self::FLUSHED),
        ("bad-lkey", Self::BAD_LKEY),
        ("bad-rkey", Self::BAD_RKEY),
        ("aborted", Self::ABORTED),
        ("bad-qpn", Self::BAD_QPN),
        ("receiver-not-ready", Self::RECEIVER_NOT_READY),
        ("bad-length", Self::BAD_LENGTH),
        ("unresponsive", Self::UNRESPONSIVE),
        ("unknown-peer", Self::UNKNOWN_PEER),
        ("unreachable", Self::UNREACHABLE),
        ("handshake-failed", Self::HANDSHAKE_FAILED),
    ];

    /// The code of a name, or of two numbers `ERR/PROV_ERRNO`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let named = Self::NAMED.iter().find(|(name, _)| *name == text);
        if let Some((_, code)) = named {
            return Some(*code);
        }
        let (err, prov_errno) = text.split_once('/')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse::<u16>().ok().map(i32::from))?
        };
        let err = number(err).filter(|err| *err != 0)?;
        Some(Self::new(err, number(prov_errno)?))
    }
}

/// The errnos by which a call can be refused, as `errno.h` of Linux numbers them; the last is libfabric's alone,
/// and `errno.h` has another number of that name.
const ERRNOS: [(&str, i32); 10] = [
    ("EIO", 5),
    ("ENOMEM", ENOMEM),
    ("ENODEV", 19),
    ("EINVAL", EINVAL),
    ("ENOSPC", 28),
    ("EOPNOTSUPP", 95),
    ("ENETDOWN", 100),
    ("ENOBUFS", 105),
    ("ENOTCONN", 107),
    ("ENOKEY", 266),
];

/// The codes in words, for who has to choose one.
pub(super) fn codes() -> String {
    let named = Code::NAMED.map(|(name, code)| {
        let Code { err, prov_errno } = code;
        format!("{name} ({err}/{prov_errno})")
    });
    format!(
        "{}, or two numbers ERR/PROV_ERRNO such as 22/7",
        named.join(", ")
    )
}

/// The errnos in words.
pub(super) fn errnos() -> String {
    let named = ERRNOS.map(|(name, _)| name).join(", ");
    format!("one of {named}")
}

pub(super) const ENOMEM: i32 = 12;
pub(super) const EINVAL: i32 = 22;

/// The errno of a name.
pub(super) fn errno(text: &str) -> Option<i32> {
    let named = ERRNOS.iter().find(|(name, _)| *name == text);
    named.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_are_read_by_name_and_by_number() {
        assert_eq!(Code::parse("bad-rkey"), Some(Code::BAD_RKEY));
        assert_eq!(Code::parse("22/7"), Some(Code::BAD_RKEY));
        assert_eq!(Code::parse("103/4126"), Some(Code::HANDSHAKE_FAILED));
        for bad in [
            "", "/", "22", "22/", "/7", "0/7", "-22/7", "22/7/1", "22/99999", "+1/2",
        ] {
            assert_eq!(Code::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_and_codes_are_told_apart() {
        for (i, (name, code)) in Code::NAMED.iter().enumerate() {
            let twins = Code::NAMED[i + 1..]
                .iter()
                .filter(|(n, c)| n == name || c == code);
            assert_eq!(twins.count(), 0, "{name}");
        }
    }
}
