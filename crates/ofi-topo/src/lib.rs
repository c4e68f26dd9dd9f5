#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # Picture
//!
//! ```text
//!   provider's list           rule of the user            devices() of the plugin
//!   [Nic, Nic, Nic, ..] --+   OnePerNic                 +-> DeviceGroup { rails, leader }   0
//!      (any order)        +-> UserGroups("a,b;c,d") ----+-> DeviceGroup { rails, leader }   1
//!                         |   ForceRails(k)             +-> ..
//!                         |   near accelerators
//!   sysfs under a root ---+    (Tree)                   +-> NCCL's topology file
//!   a dump of hwloc -----------^
//! ```
//!
//! # Modules, in reading order
//!
//! * [`pci`], [`link`]: the address `dddd:bb:dd.f` of a PCI function; how fast its link is
//! * [`nic`]: what is known of one NIC, and the order NICs have whatever the provider's list does
//! * [`rule`]: what the user can ask for, parsed with errors that name the offending piece
//! * [`grouping`]: NICs and a rule to devices
//! * [`tree`], [`accelerator`], [`near`]: PCI functions as a tree, which of them are accelerators, and NICs
//!   grouped by the nearest of them
//! * [`nccl_xml`]: what NCCL is told of devices with several NICs
//! * [`sysfs`]: facts and the tree, read from the file system under a root that the caller chooses
#![cfg_attr(
    feature = "hwloc-xml",
    doc = "* `hwloc_xml`: the tree from a dump of hwloc"
)]
#![cfg_attr(
    feature = "nccl-xml",
    doc = "* [`nccl_read`]: such a file read back, and held against what NCCL takes"
)]
#![cfg_attr(
    feature = "shapes",
    doc = "* [`shape`]: real instances as descriptions"
)]
//! * [`error`]: everything that can go wrong, with the values and the way out

pub mod accelerator;
pub mod error;
pub mod grouping;
#[cfg(feature = "hwloc-xml")]
mod hwloc_xml;
pub mod link;
#[cfg(feature = "nccl-xml")]
pub mod nccl_read;
pub mod nccl_xml;
pub mod near;
pub mod nic;
pub mod pci;
#[cfg(feature = "nccl-xml")]
mod plain_xml;
pub mod rule;
#[cfg(feature = "shapes")]
pub mod shape;
pub mod sysfs;
pub mod tree;

pub use accelerator::Accelerators;
pub use error::TopoError;
pub use grouping::{DeviceGroup, Grouping, MAX_RAILS, Remark, group};
pub use link::{Link, LinkSpeed};
pub use near::{group_near, nearest};
pub use nic::Nic;
pub use pci::PciAddress;
pub use rule::{Rule, UserGroups};
pub use sysfs::{NodeGuid, Sysfs};
pub use tree::{PciFunction, Tree};
