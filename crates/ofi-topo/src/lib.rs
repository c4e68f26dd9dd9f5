#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # Picture
//!
//! ```text
//!   provider's list           rule of the user          devices() of the plugin
//!   [Nic, Nic, Nic, ..] --+   OnePerNic               +-> DeviceGroup { rails, leader }   0
//!      (any order)        +-> UserGroups("a,b;c,d") --+-> DeviceGroup { rails, leader }   1
//!                         |   ForceRails(k)           +-> ..
//!   sysfs under a root ---+   (pci path, product name, node_guid)
//! ```
//!
//! # Modules, in reading order
//!
//! * [`pci`]: the address `dddd:bb:dd.f` of a PCI function
//! * [`nic`]: what is known of one NIC, and the order NICs have whatever the provider's list does
//! * [`rule`]: what the user can ask for, parsed with errors that name the offending piece
//! * [`grouping`]: NICs and a rule to devices
//! * [`sysfs`]: the three facts read from the file system, under a root that the caller chooses
//! * [`error`]: everything that can go wrong, with the values and the way out

pub mod error;
pub mod grouping;
pub mod nic;
pub mod pci;
pub mod rule;
pub mod sysfs;

pub use error::TopoError;
pub use grouping::{DeviceGroup, Grouping, MAX_RAILS, group};
pub use nic::Nic;
pub use pci::PciAddress;
pub use rule::{Rule, UserGroups};
pub use sysfs::{NodeGuid, Sysfs};
