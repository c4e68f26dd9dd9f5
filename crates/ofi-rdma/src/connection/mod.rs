//! How communicators begin and end (protocol 2d, 2j).

mod accept;
mod adopt;
mod close;
mod connect;

pub use adopt::Adoption;
pub use connect::Target;
