//! Safe libfabric: info, fabric, domain, address vector, completion queue, endpoint, memory region
