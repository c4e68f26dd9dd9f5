//! The C edge: what libfabric calls. Every function is a guard around safe code: pointers are turned
//! into values, errnos into negative ones, and panics into `-FI_EOTHER`.
//!
//! | file | what |
//! |---|---|
//! | `provider` | `fi_prov_ini`, getinfo, fabric |
//! | `guard` | panics stop here |
//! | `old` | structs of callers, as old as they come |
//! | `object` | objects whose first field is a fid |
//! | `none` | operations that EFA does not have |
//! | `fabric`, `domain`, `av`, `cq`, `mr`, `ep` | the objects' operations |
//! | `options` | options of endpoints, per generation |
//! | `dmabuf` | what passes for memory of a device |
//! | `iov` | pieces of memory and their descriptors |
//! | `msg`, `tagged`, `rma` | posts |

mod av;
mod cq;
mod dmabuf;
mod domain;
mod ep;
mod fabric;
pub(crate) mod guard;
mod iov;
mod mr;
mod msg;
pub(crate) mod none;
mod object;
mod old;
mod options;
mod provider;
mod rma;
mod tagged;

/// Longest text about an error, in bytes.
pub(crate) const ERROR_TEXT_MAX: usize = 512;
