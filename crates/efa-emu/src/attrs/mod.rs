//! What the NICs say of themselves, and which of them fit what somebody looks for.
//!
//! | file | what |
//! |---|---|
//! | `profile` | the attributes of each fabric |
//! | `wanted` | hints, read from C |
//! | `fit` | hints against attributes, as libfabric's providers do it |
//! | `entry` | an answer, written for C |
//! | `nic` | the device's attributes, an object of its own |

mod entry;
mod fit;
mod nic;
mod profile;
mod wanted;

pub(crate) use entry::{Allocate, domain_name, list};
pub(crate) use fit::{answered_caps, is_offered};
pub(crate) use profile::{CQS, ENDPOINTS, Flavor, Profile};
pub(crate) use wanted::Wanted;
