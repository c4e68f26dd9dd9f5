#![doc = include_str!("../README.md")]
//!
//! # Map, in reading order
//!
//! | module | what |
//! |---|---|
//! | [`properties`], [`layout`] | structs and tables of the ABI, checked while compiling |
//! | `entries` | the entry points that several tables share and Neuron's do not have |
//! | `contexts` | those with a context |
//! | `v6` to `v12` | the seven tables |
//! | `name` | what the tables are called |

use layout::{NetV6, NetV7, NetV8, NetV9, NetV10, NetV11, NetV12};
use name::NAME;
use ofi_plugin_edge::sig::Table;

mod contexts;
mod entries;
pub mod layout;
mod name;
pub mod properties;
mod v10;
mod v11;
mod v12;
mod v6;
mod v7;
mod v8;
mod v9;

/// NCCL's net table, version 6.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v6: Table<NetV6> = v6::table();

/// NCCL's net table, version 7.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: Table<NetV7> = v7::table();

/// NCCL's net table, version 8.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v8: Table<NetV8> = v8::table();

/// NCCL's net table, version 9.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v9: Table<NetV9> = v9::table();

/// NCCL's net table, version 10.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v10: Table<NetV10> = v10::table();

/// NCCL's net table, version 11.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v11: Table<NetV11> = v11::table();

/// NCCL's net table, version 12.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v12: Table<NetV12> = v12::table();
