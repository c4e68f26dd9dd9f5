//! PCI topology to NIC groups for collective transports
