//! Everything that can go wrong, with the values and the way out.

use std::io;
use std::path::PathBuf;

use crate::MAX_RAILS;

/// Why no devices could be made of the NICs, or why a fact could not be read.
///
/// Each message says what failed with which values and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopoError {
    /// The text is no PCI address.
    #[error(
        "\"{text}\" is not a PCI address: {reason}; \
         write it as `lspci -D` shows it, for example 0000:00:05.0"
    )]
    BadPciAddress {
        /// What was to be read.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// Two entries of the list cannot be told apart, so no stable order exists.
    #[error(
        "entries {first} and {second} of the NIC list are both \"{name}\" (PCI {pci}): \
         providers list a NIC once per address family and protocol; keep one entry of each"
    )]
    DuplicateNic {
        /// The name both have.
        name: String,
        /// The PCI address both have, or "unknown".
        pci: String,
        /// Caller's index of the one.
        first: usize,
        /// Caller's index of the other.
        second: usize,
    },

    /// Two entries carry the same index, so a rail could not say which it means.
    #[error("NICs \"{first}\" and \"{second}\" both have index {index}: give each its own")]
    DuplicateIndex {
        /// The index used twice.
        index: usize,
        /// Name of the one.
        first: String,
        /// Name of the other.
        second: String,
    },

    /// More rails on a device than the wire format has room for.
    #[error(
        "{what} asks for {rails} rails on a device, but messages carry at most {MAX_RAILS} \
         (the connection message has four entries): ask for 1 to {MAX_RAILS}"
    )]
    TooManyRails {
        /// Who asks: the rule in words.
        what: String,
        /// How many.
        rails: usize,
    },

    /// A forced number of rails that the NICs of a device cannot be dealt out to.
    #[error(
        "{forced} rails cannot be made of the {nics} NICs of device {device}: the number must be \
         smaller than {nics} (the first so many are used) or a multiple of it (they are repeated \
         in turn); the peers must use the same number"
    )]
    RailsDoNotFit {
        /// The forced number.
        forced: usize,
        /// NICs of the device.
        nics: usize,
        /// The device's index.
        device: usize,
    },

    /// A group of the user's specification has no member, or a member no name.
    #[error(
        "group {group} of \"{spec}\" {what}: write NIC names or PCI addresses, with ',' between \
         the rails of a device and ';' between devices, for example \"eth0,eth1;eth2,eth3\""
    )]
    EmptyGroupSpec {
        /// The whole specification.
        spec: String,
        /// Which group, counted from 1.
        group: usize,
        /// What is missing.
        what: &'static str,
    },

    /// The user's groups name a NIC that is not there.
    #[error(
        "group {group} names \"{item}\", which is no NIC of this host; there are: {known}. A NIC \
         may also be missing because a filter of interfaces or of providers dropped it"
    )]
    UnknownNic {
        /// Which group, counted from 1.
        group: usize,
        /// The name that matched nothing.
        item: String,
        /// The names and addresses that exist.
        known: String,
    },

    /// The user's groups name something that two NICs answer to.
    #[error(
        "group {group} names \"{item}\", which is both \"{first}\" and \"{second}\": \
         name the NIC by the other of name and PCI address"
    )]
    AmbiguousNic {
        /// Which group, counted from 1.
        group: usize,
        /// The name or address that matched twice.
        item: String,
        /// The one.
        first: String,
        /// The other.
        second: String,
    },

    /// One NIC in two groups of the user's specification.
    #[error(
        "\"{nic}\" is in group {first} and in group {second}: a NIC serves one device; \
         to have several rails on it, repeat it within one group"
    )]
    NicInTwoGroups {
        /// The NIC's name.
        nic: String,
        /// The one group, counted from 1.
        first: usize,
        /// The other.
        second: usize,
    },

    /// A file of sysfs could not be read or followed.
    #[error(
        "{what} could not be read from {}: {source}; is sysfs mounted, and visible in this \
         container?",
        path.display()
    )]
    Sysfs {
        /// Which fact.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// A path under the root leads out of it through a symbolic link.
    #[error(
        "{} leads to {}, outside the root {}: make the links of a copied sysfs relative",
        path.display(), target.display(), root.display()
    )]
    OutsideRoot {
        /// The path that was followed.
        path: PathBuf,
        /// Where it ended.
        target: PathBuf,
        /// The root it should have stayed in.
        root: PathBuf,
    },

    /// A file of sysfs does not hold what it should.
    #[error("{} holds \"{text}\", which is no {what}", path.display())]
    BadContent {
        /// What was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What it holds, cut to 64 characters.
        text: String,
    },

    /// A text that should be a dump of hwloc.
    #[error("this is no topology of hwloc: {what}; write one with `lstopo --whole-io file.xml`")]
    BadXml {
        /// What is wrong with it.
        what: String,
    },

    /// A text that should be a topology file of NCCL.
    #[error("this is no topology file of NCCL: {what}; `ofi topo emit` writes one")]
    BadNcclXml {
        /// What is wrong with it.
        what: String,
    },

    /// A device name that cannot be a name in sysfs.
    #[error("\"{name}\" cannot be a device name: it is empty or has a '/' or NUL, or is . or ..")]
    BadDeviceName {
        /// The name.
        name: String,
    },
}
