//! What processes share: one file of memory each, which peers map and use without the owner's help.
//!
//! | file | what |
//! |---|---|
//! | `layout` | the segment: header, regions, who is known to whom, endpoints |
//! | `presence` | who is there, as the kernel's locks say |
//! | `lock` | a spin lock that survives the death of its holder |
//! | `mapping` | creating, finding and cleaning up segments |
//! | `room` | pages get their room before they are touched |
//! | `regions` | registered memory, by keys that go stale |
//! | `device` | memory of an emulated device, which only NICs reach |
//! | `hazard` | operations that are using a region now |
//! | `known` | which addresses an address vector has |
//! | `receives` | posted receives, claimed by senders |
//! | `unexpected` | messages that came before their receives |
//! | `events` | what peers did to endpoints, by the completion queue it shows in |
//! | `copy` | moving bytes between processes |
//! | `pipe` | moving bytes within a process where that call is forbidden |
//! | `relay` | moving bytes where the system permits no direct copy |
//! | `serve` | the owner's part of that |
//! | `wake` | the thread that serves relays sleeps until it is wanted |

pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod hazard;
pub(crate) mod known;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod mapping;
mod pipe;
pub(crate) mod presence;
pub(crate) mod receives;
pub(crate) mod regions;
pub(crate) mod relay;
pub(crate) mod room;
pub(crate) mod serve;
pub(crate) mod unexpected;
pub(crate) mod wake;
