//! What the emulated devices do, without C: objects, operations, progress.
//!
//! | file | what |
//! |---|---|
//! | `address` | the 32 bytes that name an endpoint |
//! | `process` | what a process has one of: segment, NICs, peers |
//! | `peer` | another process, or this one |
//! | `nic` | a NIC of this process: its plan and counters |
//! | `domain` | what regions and queues belong to |
//! | `vector` | address vectors |
//! | `queue` | completion queues |
//! | `endpoint` | endpoints: what they are bound to, and their life |
//! | `op` | an operation, and the order in which operations go |
//! | `post` | taking operations |
//! | `progress` | which operations go now |
//! | `exec` | what an operation does |
//! | `unexpected` | messages that come before their receives |
//! | `receive` | posting and cancelling receives |
//! | `breakage` | a panic ends an endpoint, not the process and not the thread |
//! | `device` | the thread that makes progress when nobody calls |
//! | `text` | what the provider's error numbers mean |

pub(crate) mod address;
mod breakage;
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod endpoint;
pub(crate) mod exec;
pub(crate) mod nic;
pub(crate) mod op;
pub(crate) mod peer;
pub(crate) mod post;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod text;
mod unexpected;
pub(crate) mod vector;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere does not make what it held useless: every entry is whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
