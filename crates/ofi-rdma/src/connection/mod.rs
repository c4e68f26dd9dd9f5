//! How communicators begin and end (protocol 2d, 2j).

mod accept;
mod close;
mod connect;

pub use connect::Target;
