//! Devices, rails and communicators: the protocol engine joined to libfabric
