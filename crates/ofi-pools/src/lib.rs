//! Freelist, id pool and registration cache for RDMA transports
