//! From errors to result codes: the table of protocol 2a.1, and the results that a call has whatever
//! the error was.

use ofi_net::error::{Code, NetError};

use crate::abi;
use crate::abi::NcclResult;

/// Why a call fails: what the caller gets, and what the log gets.
#[derive(Debug)]
pub struct Fail {
    pub(crate) result: NcclResult,
    pub(crate) error: NetError,
    /// Neither logged by the call nor a reason to abort: close after fini (protocol 2a.1), and what the logger
    /// is refused.
    pub(crate) quiet: bool,
}

impl Fail {
    /// A failure whose result is fixed by the call, not by the errno.
    #[must_use]
    pub fn fixed(result: NcclResult, code: Code, what: impl Into<String>) -> Self {
        Self {
            result,
            error: NetError::new(code, what),
            quiet: false,
        }
    }

    /// A NULL argument: `result` is 3 for most, 4 for some (protocol 2a.1, 2l).
    #[must_use]
    pub fn null(result: NcclResult, argument: &str) -> Self {
        Self::fixed(result, Code::NullArgument, format!("{argument} is NULL"))
    }

    /// The same failure with another result.
    #[must_use]
    pub fn with_result(mut self, result: NcclResult) -> Self {
        self.result = result;
        self
    }

    /// The result the caller gets.
    #[must_use]
    pub const fn result(&self) -> NcclResult {
        self.result
    }

    /// The error behind it.
    #[must_use]
    pub const fn error(&self) -> &NetError {
        &self.error
    }

    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }
}

impl From<NetError> for Fail {
    fn from(error: NetError) -> Self {
        let result = match error.code() {
            Code::NotInitialised => abi::INVALID_ARGUMENT,
            _ => of_errno(error.errno()),
        };
        Self {
            result,
            error,
            quiet: false,
        }
    }
}

/// The translation of an internal return code (0 or a negative errno).
#[must_use]
pub const fn of_errno(errno: i32) -> NcclResult {
    match errno.wrapping_neg() {
        0 => abi::SUCCESS,
        libc::EINVAL => abi::INTERNAL_ERROR,
        libc::EMSGSIZE => abi::INVALID_USAGE,
        libc::ECONNABORTED
        | libc::ECONNRESET
        | libc::ECONNREFUSED
        | libc::ENOTCONN
        | libc::EHOSTDOWN
        | libc::EHOSTUNREACH => abi::REMOTE_ERROR,
        _ => abi::SYSTEM_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Fail, NetError, of_errno};

    #[test]
    fn the_table_of_protocol_2a1() {
        let remote = [
            libc::ECONNABORTED,
            libc::ECONNRESET,
            libc::ECONNREFUSED,
            libc::ENOTCONN,
            libc::EHOSTDOWN,
            libc::EHOSTUNREACH,
        ];
        assert_eq!(of_errno(0), 0);
        assert_eq!(of_errno(-libc::EINVAL), 3);
        assert_eq!(of_errno(-libc::EMSGSIZE), 5);
        assert!(remote.iter().all(|&errno| of_errno(-errno) == 6));
        // Everything else, positive values and libfabric's own numbers included.
        let other = [
            -libc::EIO,
            -libc::ETIMEDOUT,
            -265,
            4,
            libc::EINVAL,
            i32::MIN,
            i32::MAX,
        ];
        assert!(other.iter().all(|&errno| of_errno(errno) == 2));
    }

    /// 0 to 6 is what all versions of both tables know; a failure is never success, nor 1, which is CUDA's.
    #[test]
    fn every_error_has_a_result_that_callers_know() {
        let results = (-512..=512).filter(|&errno| errno != 0).map(of_errno);
        let codes = Code::ALL.iter();
        let codes = codes.map(|&code| Fail::from(NetError::new(code, "x")).result());
        for result in results.chain(codes) {
            assert!((2..=6).contains(&result), "{result}");
        }
    }

    #[test]
    fn not_initialised_is_an_invalid_argument() {
        assert_eq!(
            Fail::from(NetError::new(Code::NotInitialised, "x")).result(),
            4
        );
        assert_eq!(
            Fail::from(NetError::new(Code::StaleRequest, "x")).result(),
            3
        );
        assert_eq!(Fail::from(NetError::new(Code::TooLong, "x")).result(), 5);
        assert_eq!(
            Fail::from(NetError::new(Code::AlreadyInitialised, "x")).result(),
            2
        );
    }
}
