//! Sequences of calls through the tables that the plugins export, legal and not: bytes are calls.
//!
//! ```text
//! bytes --> settings, tables, calls (steps, wrong) --> the plugin --> libfabric --> the emulated EFA
//!               what each must answer (model) <-----------'            both ends in this process
//! ```
//!
//! Looked at, after each call and at the end of a sequence ([`end`]):
//!
//! * a result is one of the ABI's, a call that is wrong is an error, and one that is right is none;
//! * no panic, not even one that the plugin catches at its edge ([`world`]);
//! * what a done receive has is what was sent, all of it, nothing beside it, in order, with its size;
//! * matched requests end, in calls: nothing here has a thread;
//! * what is not there any more (closed, done, deregistered, of an earlier life) is an error;
//! * after a failure here a connection there goes on (the witness); after the last call nothing is open.
//!
//! **Left out**, since no plugin could tell: addresses that are no memory of the caller's (data, arrays, handles,
//! places for results), memory that is given back while the network uses it, two calls at once on one communicator
//! (`plugin/tests/threads.c` is about threads), calls in a forked child (`abi.c`). Words are numbers here, never addresses: any
//! number may stand for a communicator, a request, a memory handle or a context.

#[path = "../slots.rs"]
#[expect(dead_code, reason = "some of it is for the test of panics alone")]
mod slots;

mod after;
mod end;
mod input;
mod messages;
mod model;
mod one_sided;
mod requests;
mod steps;
pub(crate) mod table;
mod witness;
mod world;
mod wrong;

use std::sync::{Mutex, PoisonError};

use input::Input;
use table::Table;
use world::World;

/// Calls of one sequence, at most.
const STEPS_MAX: usize = 250;

/// The process's, kept from one sequence to the next: to begin and to end one costs more than a sequence.
static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// One sequence: `tables` are those of one plugin.
pub(crate) fn check(tables: fn() -> Vec<Table>, bytes: &[u8]) {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let world = world.get_or_insert_with(|| World::new(tables()));
    let mut input = Input::new(bytes);
    world.choose(&mut input);
    let mut sequence = steps::Sequence::new(world);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        sequence.step(&mut input);
    }
    sequence.end(&mut input);
}

/// Ends the life that is under way: nothing may be open then. What was done, in words.
#[cfg_attr(fuzzing, expect(dead_code, reason = "a fuzzer has no end"))]
pub(crate) fn finish() -> String {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut world) = world.take() else {
        return "nothing".to_owned();
    };
    world.finish();
    world.told()
}
