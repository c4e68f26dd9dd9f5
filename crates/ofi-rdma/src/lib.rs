//! The rendezvous and eager protocol engine of a collective transport over libfabric, pure and deterministic
