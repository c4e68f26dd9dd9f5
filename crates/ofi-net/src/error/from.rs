//! Typed errors of the crates below become coded ones. The only place where that happens.

use efa_fabric::{Attempt, Errno, FabricError, LoadError};
use ofi_rdma::{ConfigError, Error, FailedRequest, Failure, Mismatch, Why};

use super::{Code, NetError, hints};
use crate::report::request_name;

/// A refused command of the engine. A failure of the communicator is marked as reported: the engine's
/// event wrote it to the log when it happened.
impl From<Error> for NetError {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::NoSuchComm => Code::StaleComm,
            Error::NoSuchRequest => Code::StaleRequest,
            Error::OutOfIds => Code::OutOfIds,
            Error::AlreadyAccepted => Code::AlreadyAccepted,
            Error::TooLong { .. } => Code::TooLong,
            Error::TooManyFlushes => Code::TooManyFlushes,
            Error::KeyTooWide { .. } => Code::KeyTooWide,
            Error::BadHandle(_) => Code::CorruptHandle,
            Error::Unreachable(failure) => return Self::from(failure),
            Error::Failed(failure) => return Self::from(failure).mark_reported(),
        };
        Self::new(code, error.to_string())
    }
}

/// As above, for SENDRECV, where nothing answers a connection message: what can be wrong is said here.
impl From<ofi_sendrecv::Error> for NetError {
    fn from(error: ofi_sendrecv::Error) -> Self {
        use ofi_sendrecv::Error as E;
        let code = match error {
            E::Common(error) => return Self::from(error),
            E::BadTag { .. } => Code::CorruptHandle,
            E::OutOfTags(_) => Code::OutOfIds,
            E::Truncated { .. } => Code::Truncated,
        };
        Self::new(code, error.to_string())
    }
}

/// A provider that the protocol cannot work with.
impl From<ofi_sendrecv::ConfigError> for NetError {
    fn from(error: ofi_sendrecv::ConfigError) -> Self {
        Self::new(Code::DeviceOpen, error.to_string())
    }
}

/// The first failure of a communicator. Not marked as reported: whoever takes the engine's event
/// writes it.
impl From<Failure> for NetError {
    fn from(failure: Failure) -> Self {
        let (code, errno, hint) = classify(failure.why);
        let mut what = format!("communicator {}", failure.comm_id);
        if let Some(seq) = failure.seq {
            what.push_str(&format!(", message {seq}"));
        }
        if let Some(FailedRequest { key, kind, len }) = failure.request {
            let kind = request_name(kind);
            what.push_str(&format!(", request {key} ({kind} of {len} bytes)"));
        }
        what.push_str(&format!(": {}", failure.why));
        // Most of libfabric's numbers mean nothing to anybody: 266 is FI_ENOKEY.
        let named = number_of(failure.why).map(|number| Errno::from_code(number).to_string());
        let notes: Vec<String> = named.into_iter().chain(hint).collect();
        if !notes.is_empty() {
            what.push_str(&format!(" ({})", notes.join("; ")));
        }
        Self::new(code, what).with_errno(errno)
    }
}

/// Code, errno (0: the code's own) and a sentence where the numbers are known.
fn classify(why: Why) -> (Code, i32, Option<String>) {
    match why {
        Why::Operation { op, cause, .. } => {
            let hint = hints::of_operation(op, cause);
            (Code::Operation, cause.errno, hint)
        }
        Why::Unreachable { cause, .. } => (Code::Unreachable, 0, hints::of_cause(cause)),
        Why::Mismatch { what, .. } => (Code::Mismatch, 0, Some(variable_of(what).to_owned())),
        Why::Protocol(_) => (Code::PeerProtocol, 0, None),
        Why::ConnectTimeout { .. } => (Code::ConnectTimeout, 0, None),
        Why::Stalled { .. } => (Code::Stalled, 0, None),
    }
}

/// The provider's number, where there is one.
const fn number_of(why: Why) -> Option<i32> {
    match why {
        Why::Operation { cause, .. } | Why::Unreachable { cause, .. } => Some(cause.errno),
        _ => None,
    }
}

/// Where the number comes from that the two sides disagree on (decision 19).
const fn variable_of(what: Mismatch) -> &'static str {
    match what {
        Mismatch::Rails => {
            "OFI_NCCL_FORCE_NUM_RAILS, OFI_NCCL_NIC_GROUPS, OFI_NCCL_GROUP_BY, FI_EFA_IFACE, or the NICs and accelerators each host sees"
        }
        Mismatch::ControlRails => "OFI_NCCL_RR_CTRL_MSG",
        Mismatch::KeyWidth => "the provider and libfabric version of each host",
    }
}

/// Settings of an engine that cannot work together.
impl From<ConfigError> for NetError {
    fn from(error: ConfigError) -> Self {
        Self::new(Code::Contradiction, error.to_string())
    }
}

/// A libfabric call that failed, where nothing more telling is known: see [`NetError::fabric`].
impl From<FabricError> for NetError {
    fn from(error: FabricError) -> Self {
        Self::fabric(Code::Fabric, &error)
    }
}

impl NetError {
    /// A libfabric call that failed while doing what `code` is about; libfabric's errno reaches the
    /// translation.
    #[must_use]
    pub fn fabric(code: Code, error: &FabricError) -> Self {
        Self::new(code, error.to_string()).with_errno(error.errno().code())
    }
}

/// libfabric is not there, or is not libfabric: one line with every file tried.
impl From<LoadError> for NetError {
    fn from(error: LoadError) -> Self {
        match &error {
            LoadError::NotFound { tried } => {
                let shown = |a: &Attempt| format!("{} ({})", a.path.display(), a.reason);
                // Those that are not there are of no interest beside one that is.
                if let Some(there) = tried.iter().find(|attempt| attempt.is_there()) {
                    return Self::new(Code::LibfabricUnusable, shown(there));
                }
                let tried: Vec<String> = tried.iter().map(shown).collect();
                Self::new(Code::NoLibfabric, format!("tried {}", tried.join(", ")))
            }
            LoadError::MissingSymbol { .. } => {
                Self::new(Code::LibfabricUnusable, error.to_string())
            }
            other => Self::new(Code::NoLibfabric, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Code, NetError};
    use efa_fabric::{Attempt, LoadError};
    use ofi_rdma::{
        Cause, ConfigError, Error, FailedRequest, Failure, Lane, Mismatch, OpKind, ReqKey,
        RequestKind, Stage, Why,
    };

    fn failed(why: Why) -> NetError {
        Error::Failed(Failure {
            comm_id: 7,
            seq: Some(3),
            request: Some(FailedRequest {
                key: ReqKey::from_bits(3 << 32 | 12),
                kind: RequestKind::Send,
                len: 4096,
            }),
            why,
            peer: None,
        })
        .into()
    }

    #[test]
    fn a_providers_errno_reaches_the_translation() {
        let cause = Cause {
            errno: 107,
            provider_errno: 9,
        };
        let error = failed(Why::Operation {
            op: OpKind::Write,
            lane: Lane::data(2),
            cause,
        });
        assert_eq!((error.code(), error.errno()), (Code::Operation, -107));
        assert!(error.is_reported());
        let line = error.to_string();
        assert!(
            line.contains(
                "communicator 7, message 3, request 12.3 (send of 4096 bytes): Write on data rail 2"
            ),
            "{line}"
        );
        assert!(line.contains("(FI_ENOTCONN (107)"), "{line}");
        assert!(line.contains("queue pair is gone"), "{line}");
    }

    /// Nobody is there: dead, or never of our kind. After the first message it is the former.
    #[test]
    fn a_connection_message_to_nobody_names_fabric_and_protocol_beside_the_dead_peer() {
        let line = |op, errno, provider_errno| {
            let cause = Cause {
                errno,
                provider_errno,
            };
            let lane = Lane::data(0);
            failed(Why::Operation { op, lane, cause }).to_string()
        };
        const WORDS: &str = "of another fabric (efa, efa-direct) or protocol (OFI_NCCL_PROTOCOL)";
        for (errno, number) in [
            (107, 9),
            (107, 14),
            (103, 13),
            (103, 4126),
            (113, 15),
            (111, 111),
            (104, 4),
        ] {
            let conn = line(OpKind::Conn, errno, number);
            assert!(
                conn.contains(WORDS) && conn.contains("the peer process died"),
                "{conn}"
            );
            let write = line(OpKind::Write, errno, number);
            assert!(!write.contains(WORDS), "{write}");
        }
        // What this host lacks has to do with no peer.
        for (errno, number) in [(12, 12), (5, 4112), (125, 1), (22, 5)] {
            let conn = line(OpKind::Conn, errno, number);
            assert!(!conn.contains(WORDS), "{conn}");
        }
    }

    #[test]
    fn a_mismatch_names_both_values_and_the_variable() {
        let error = failed(Why::Mismatch {
            what: Mismatch::Rails,
            ours: 4,
            theirs: 2,
        });
        assert_eq!(
            (error.code(), error.errno()),
            (Code::Mismatch, -libc::EINVAL)
        );
        assert!(error.what().contains("4 here, 2 at the peer"), "{error}");
        assert!(error.what().contains("OFI_NCCL_FORCE_NUM_RAILS"), "{error}");
    }

    #[test]
    fn a_timeout_says_what_was_waited_for() {
        let why = Why::ConnectTimeout {
            waited_ms: 2000,
            stage: Stage::AwaitConnResp,
        };
        let error = failed(why);
        assert_eq!(
            (error.code(), error.errno()),
            (Code::ConnectTimeout, -libc::ETIMEDOUT)
        );
        assert!(
            error
                .what()
                .contains("2000 ms: waiting for the peer's answer"),
            "{error}"
        );
    }

    #[test]
    fn each_refusal_has_its_code() {
        let cases = [
            (Error::NoSuchComm, Code::StaleComm),
            (Error::NoSuchRequest, Code::StaleRequest),
            (Error::OutOfIds, Code::OutOfIds),
            (Error::AlreadyAccepted, Code::AlreadyAccepted),
            (
                Error::TooLong {
                    len: 1 << 40,
                    max: 1 << 31,
                },
                Code::TooLong,
            ),
            (
                Error::KeyTooWide {
                    rail: 1,
                    key: 1 << 40,
                },
                Code::KeyTooWide,
            ),
            (Error::BadHandle(1 << 20), Code::CorruptHandle),
        ];
        for (error, code) in cases {
            let coded = NetError::from(error);
            assert_eq!(coded.code(), code);
            assert!(!coded.is_reported());
        }
    }

    #[test]
    fn a_missing_library_is_one_line_with_all_that_was_tried() {
        let attempt = |path: &str| Attempt {
            path: path.into(),
            reason: format!("{path}: no such file"),
        };
        let tried = vec![
            attempt("libfabric.so.1"),
            attempt("/opt/amazon/efa/lib64/libfabric.so.1"),
        ];
        let line = NetError::from(LoadError::NotFound { tried }).to_string();
        assert!(
            line.starts_with("OFI-E0101 libfabric could not be loaded: tried libfabric"),
            "{line}"
        );
        assert!(
            line.contains("efa/lib64/libfabric.so.1: no such file)"),
            "{line}"
        );
        assert!(line.contains("apt-get install libfabric1"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    /// Field report ENV-04: rdma-core of another installation.
    #[test]
    fn a_library_that_is_there_is_told_from_one_that_is_not() {
        let lacking = Attempt {
            path: "libfabric.so.1".into(),
            reason: "/lib/libefa.so.1: version `EFA_1.2' not found (required by ..)".into(),
        };
        let absent = Attempt {
            path: "/nonexistent/libfabric.so.1".into(),
            reason: "/nonexistent/libfabric.so.1: whatever language".into(),
        };
        let tried = vec![lacking, absent];
        let line = NetError::from(LoadError::NotFound { tried }).to_string();
        assert!(line.starts_with("OFI-E0118 "), "{line}");
        assert!(line.contains("EFA_1.2"), "{line}");
        assert!(!line.contains("nonexistent"), "{line}");
    }

    #[test]
    fn a_contradiction_names_the_variables() {
        let error = NetError::from(ConfigError::EagerAboveStripe {
            eager: 9000,
            stripe: 100,
        });
        assert_eq!(error.code(), Code::Contradiction);
        assert!(
            error.what().contains("OFI_NCCL_EAGER_MAX_SIZE is 9000"),
            "{error}"
        );
    }
}
