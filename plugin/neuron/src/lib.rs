#![doc = include_str!("../README.md")]
//!
//! # Map, in reading order
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | structs and tables of the ABI, checked while compiling |
//! | `one_sided` | the entry points that v5 and v6 have beyond those of `ofi_plugin_edge::entries` |
//! | `v4`, `v5`, `v6` | the three tables |
//! | `properties` | device properties in the tables' shapes |

use core::ffi::CStr;

use layout::{NetV4, NetV5, NetV6};
use ofi_plugin_edge::sig::Table;

pub mod layout;
mod one_sided;
mod properties;
mod v4;
mod v5;
mod v6;

/// What all tables are called (protocol 2a.2).
const NAME: &CStr = c"AWS Libfabric";

/// Neuron's net table, version 4.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v4: Table<NetV4> = v4::table();

/// Neuron's net table, version 5.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v5: Table<NetV5> = v5::table();

/// Neuron's net table, version 6.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v6: Table<NetV6> = v6::table();
