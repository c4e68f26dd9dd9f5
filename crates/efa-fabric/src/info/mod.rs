//! What libfabric offers: a list of `fi_info`, each entry one way to open an endpoint.
//!
//! [`Info`] is a borrowed view of one entry, [`InfoBuf`] an owned copy that may be changed before it
//! is used, [`InfoList`] the answer of the library.

mod buf;
mod list;
mod nic;
mod view;

pub use buf::InfoBuf;
pub use list::{InfoIter, InfoList};
pub use nic::{Nic, PciAddress};
pub use view::{Info, Progress, Threading};
