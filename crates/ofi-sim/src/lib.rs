//! Deterministic simulation of hosts that run the ofi-rdma engine
