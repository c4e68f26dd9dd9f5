//! The life of a message (protocol 2e), one hop a file.

mod backoff;
mod complete;
mod demux;
mod direct;
mod eager;
mod flush;
mod irecv;
mod isend;
mod offer;
mod one_sided;
mod post;
mod pump;
mod test;

pub(crate) use backoff::Backoff;
pub use demux::RxFate;
pub use irecv::RecvBuf;
pub use isend::SendBuf;
pub use one_sided::OneSided;
pub use post::Post;
pub use pump::Pending;
pub use test::{Done, Test};

use crate::key::ReqKey;

/// What became of an isend, irecv or one-sided call that is not in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is a request now.
    Admitted(ReqKey),
    /// Back-pressure: nothing was consumed, call again later (decision 10).
    NotNow(NotNow),
}

/// Why not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotNow {
    /// The connection is not made yet (v4 connects in later calls, decision 18).
    Connecting,
    /// As many messages are in flight as the protocol allows.
    InFlightCap,
    /// Operations of this communicator wait for the provider.
    PostsWaiting,
    /// The provider is busy, and what was asked for cannot wait: an inline write.
    ProviderBusy,
}
