//! The 32- and 64-bit immediate word of collective transports over libfabric: layouts, bounded fields, serial arithmetic
