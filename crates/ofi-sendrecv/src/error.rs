//! What can go wrong with a command. The words for failures of a communicator are those of
//! [`ofi_rdma::Failure`]: one vocabulary for both protocols, where `comm_id` is the tag here.

use ofi_rdma::Failure;

/// A refused command, or the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    clippy::error_impl_error,
    reason = "read as ofi_sendrecv::Error, the one error of every command"
)]
pub enum Error {
    /// What both protocols have: see there.
    #[error(transparent)]
    Common(#[from] ofi_rdma::Error),
    /// The handle's number is no tag.
    #[error(
        "the connection handle names tag {tag}, outside 1..={max}: it is of RDMA, where this side speaks SENDRECV, or damaged"
    )]
    BadTag {
        /// The number in the handle.
        tag: u32,
        /// The largest tag.
        max: u32,
    },
    /// Every tag was given to a listener (protocol 2c.10: they are never used again).
    #[error("all {0} tags of this endpoint were given to listeners")]
    OutOfTags(u32),
    /// The message did not fit the receive, and what the provider made of that is not known: the end of
    /// this request, and of its communicator.
    #[error("a message for tag {tag} is longer than its receive of {room} bytes")]
    Truncated {
        /// Whose.
        tag: u32,
        /// Bytes of the receive.
        room: u64,
    },
}

impl Error {
    pub(crate) const fn failed(failure: Failure) -> Self {
        Self::Common(ofi_rdma::Error::Failed(failure))
    }

    pub(crate) const NO_SUCH_COMM: Self = Self::Common(ofi_rdma::Error::NoSuchComm);
    pub(crate) const NO_SUCH_REQUEST: Self = Self::Common(ofi_rdma::Error::NoSuchRequest);
}
