//! What can go wrong in a call, and the one place where return codes become values.
//!
//! Back-pressure is not here: a post that the provider cannot take now is [`Posted::Busy`], so a
//! [`FabricError`] never holds FI_EAGAIN.

use core::ffi::c_int;
use core::fmt;

use ofi_sys::{Library, errno as e};

/// An error number of fi_errno(3), positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(c_int);

impl Errno {
    /// No entry fits, or nothing is there.
    pub const ENODATA: Self = Self(e::FI_ENODATA);
    /// Invalid argument.
    pub const EINVAL: Self = Self(e::FI_EINVAL);
    /// Something still uses the object.
    pub const EBUSY: Self = Self(e::FI_EBUSY);
    /// Out of memory, or of a queue's entries.
    pub const ENOMEM: Self = Self(e::FI_ENOMEM);
    /// Access refused: a bad key or range.
    pub const EACCES: Self = Self(e::FI_EACCES);
    /// Not implemented.
    pub const ENOSYS: Self = Self(e::FI_ENOSYS);
    /// Unknown option.
    pub const ENOPROTOOPT: Self = Self(e::FI_ENOPROTOOPT);
    /// Not supported.
    pub const EOPNOTSUPP: Self = Self(e::FI_EOPNOTSUPP);
    /// No connection to the peer.
    pub const ENOTCONN: Self = Self(e::FI_ENOTCONN);
    /// The peer refused.
    pub const ECONNREFUSED: Self = Self(e::FI_ECONNREFUSED);
    /// The connection broke.
    pub const ECONNRESET: Self = Self(e::FI_ECONNRESET);
    /// The connection was given up.
    pub const ECONNABORTED: Self = Self(e::FI_ECONNABORTED);
    /// Cancelled, or flushed by the closing of an endpoint.
    pub const ECANCELED: Self = Self(e::FI_ECANCELED);
    /// A message was longer than its buffer.
    pub const ETRUNC: Self = Self(e::FI_ETRUNC);
    /// A buffer is too small.
    pub const ETOOSMALL: Self = Self(e::FI_ETOOSMALL);
    /// The key is taken or unknown.
    pub const ENOKEY: Self = Self(e::FI_ENOKEY);
    /// An object of another domain.
    pub const EDOMAIN: Self = Self(e::FI_EDOMAIN);
    /// More bytes than the operation takes.
    pub const EMSGSIZE: Self = Self(e::FI_EMSGSIZE);
    /// The receiver was not ready.
    pub const ENORX: Self = Self(e::FI_ENORX);
    /// A queue overran.
    pub const EOVERRUN: Self = Self(e::FI_EOVERRUN);

    /// The number for a code of any sign: the man pages say positive in a completion and negative
    /// from a call, and shm gives -265 in a completion.
    #[must_use]
    pub const fn from_code(code: c_int) -> Self {
        Self(code.saturating_abs())
    }

    /// The number, positive.
    #[must_use]
    pub const fn code(self) -> c_int {
        self.0
    }

    /// Its name, "FI_ETRUNC".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match e::errno_name(self.0) {
            Some(name) => name,
            None => "unlisted",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)?;
        match Library::get() {
            Some(library) => write!(f, ", {}", library.strerror(self.0).to_string_lossy()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

/// A call that failed: which, with which values, and the error number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricError {
    op: &'static str,
    errno: Errno,
    values: Option<Box<str>>,
}

impl FabricError {
    /// FI_EAGAIN of a call that has no other way to say "not now" becomes FI_EBUSY: the type never
    /// holds FI_EAGAIN.
    pub(crate) fn new(op: &'static str, errno: Errno) -> Self {
        let errno = if errno.0 == e::FI_EAGAIN {
            Errno::EBUSY
        } else {
            errno
        };
        Self {
            op,
            errno,
            values: None,
        }
    }

    /// Adds the values that the call was made with.
    #[must_use]
    pub(crate) fn with(mut self, values: impl fmt::Display) -> Self {
        self.values = Some(values.to_string().into_boxed_str());
        self
    }

    /// The libfabric function that failed.
    #[must_use]
    pub const fn op(&self) -> &'static str {
        self.op
    }

    /// The error number; never FI_EAGAIN.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.errno
    }

    /// Whether nothing fits the hints: the one case in which asking again with fewer makes sense.
    #[must_use]
    pub fn is_no_data(&self) -> bool {
        self.errno == Errno::ENODATA
    }

    /// Whether the provider does not know what was asked for, in any of the three ways in which
    /// providers say so.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.errno,
            Errno::ENOPROTOOPT | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS
        )
    }

    /// What to look at first, for the failures that have a usual cause.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match (self.op, self.errno) {
            ("fi_getinfo", Errno::ENODATA) => {
                "no provider has all of this; `fi_info` lists what there is, and FI_PROVIDER or \
                 FI_PROVIDER_PATH in the environment may hide providers"
            }
            ("fi_getinfo", Errno::ENOSYS) => "the library is older than the API asked for",
            ("fi_mr_regattr", Errno::ENOMEM) => {
                "locked memory may be limited (`ulimit -l`), the device may be out of regions, or the \
                 region has more pages than it takes (huge pages are fewer)"
            }
            ("fi_mr_regattr", Errno::ENOKEY) => "another region of this domain has this key",
            ("fi_recv" | "fi_recvmsg", Errno::ENOMEM) => {
                "more receives are posted than the receive queue holds (Info::rx_size)"
            }
            (_, Errno::ENOMEM) => "memory or device resources are exhausted",
            _ => return None,
        })
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if let Some(values) = &self.values {
            write!(f, " of {values}")?;
        }
        write!(f, " failed: {}", self.errno)?;
        self.advice()
            .map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl core::error::Error for FabricError {}

/// What became of a post that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a busy provider has not taken the operation: it must be posted again"]
pub enum Posted {
    /// The provider has the operation, and will report its completion (unless injected).
    Accepted,
    /// The provider cannot take it now (FI_EAGAIN) and nothing happened: read the completion queue,
    /// then post again. Not bounded: with a dead peer some providers say this forever.
    Busy,
}

/// Return code of a call that is not a post: 0 or a negative errno.
pub(crate) fn check(op: &'static str, code: c_int) -> Result<(), FabricError> {
    if code == 0 {
        Ok(())
    } else {
        Err(FabricError::new(op, Errno::from_code(code)))
    }
}

/// Return code of a post.
#[inline]
pub(crate) fn check_post(op: &'static str, code: isize) -> Result<Posted, FabricError> {
    if code == 0 {
        return Ok(Posted::Accepted);
    }
    refused(op, code)
}

/// The rare ways of a post, out of line.
#[cold]
fn refused(op: &'static str, code: isize) -> Result<Posted, FabricError> {
    let errno = errno_of(code);
    if errno.0 == e::FI_EAGAIN {
        Ok(Posted::Busy)
    } else {
        Err(FabricError::new(op, errno))
    }
}

/// The errno in a negative return code of word size.
pub(crate) fn errno_of(code: isize) -> Errno {
    Errno::from_code(c_int::try_from(code).unwrap_or(e::FI_EOTHER))
}

/// An object that could not be closed, together with the reason. It is still open.
pub struct CloseFailed<T> {
    /// Why.
    pub error: FabricError,
    /// The object, to try again with.
    pub object: T,
}

impl<T> fmt::Debug for CloseFailed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseFailed")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for CloseFailed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "still open: {}", self.error)
    }
}

impl<T> core::error::Error for CloseFailed<T> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eagain_is_back_pressure_and_never_an_error() {
        assert_eq!(check_post("fi_send", -11), Ok(Posted::Busy));
        assert_eq!(check_post("fi_send", 0), Ok(Posted::Accepted));
        for code in 1..=300 {
            let (Err(error), _) = (check("fi_close", -code), ()) else {
                panic!("{code}")
            };
            assert_ne!(error.errno().code(), e::FI_EAGAIN);
        }
    }

    #[test]
    fn the_sign_of_a_code_does_not_matter() {
        assert_eq!(Errno::from_code(-265), Errno::ETRUNC);
        assert_eq!(Errno::from_code(265), Errno::ETRUNC);
        assert_eq!(Errno::from_code(c_int::MIN).code(), c_int::MAX);
    }

    #[test]
    fn the_message_names_call_values_number_and_advice() {
        let error = FabricError::new("fi_mr_regattr", Errno::ENOMEM).with("4096 bytes");
        let text = error.to_string();
        assert!(
            text.starts_with("fi_mr_regattr of 4096 bytes failed: FI_ENOMEM (12)"),
            "{text}"
        );
        assert!(
            text.contains("ulimit -l") && text.contains("huge pages"),
            "{text}"
        );
    }

    #[test]
    fn a_post_result_fits_in_five_words() {
        assert!(size_of::<Result<Posted, FabricError>>() <= 5 * size_of::<usize>());
    }
}
