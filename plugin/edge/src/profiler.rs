//! Events for NCCL's profiler: one for each request that was given a parent event, from its start
//! until `test` says that it is done, it fails, or its communicator goes (NCCL v10 and later;
//! `plugin/include/ofi_nccl_net.h` says what a profiler finds).
//!
//! Nothing here runs unless init was given a callback, and nothing for requests without a parent.

use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ofi_net::{CommWord, ReqWord};

use crate::abi::{self, NcclResult};

/// `ncclProfilerCallback_t`: the event in `*event`, what happens to it, its parent, who describes it
/// and how.
pub type ProfilerFn = unsafe extern "C" fn(
    event: *mut *mut c_void,
    kind: c_int,
    parent: *mut c_void,
    plugin: i64,
    description: *mut c_void,
) -> NcclResult;

/// What the descriptions are: the upper half of the low 32 bits says whose, as NCCL numbers its own
/// (1: InfiniBand, 2: sockets), the lower half their version.
pub const PLUGIN_ID: i64 = 0x0fab << 16 | 1;

/// Starts an event.
const START: c_int = 0;
/// Updates it and stops it. A library that knows only start and stop takes it for a stop.
const UPDATE_AND_STOP: c_int = 3;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// isend.
    Send = 0,
    /// irecv.
    Recv = 1,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// It was started.
    Started = 0,
    /// test said that it is done.
    Done = 1,
    /// test said that it failed.
    Failed = 2,
    /// Its communicator was closed, or the plugin finalised, before it was done.
    Closed = 3,
}

/// What a callback is given: `ofi_nccl_profiler_event_v1_t`. Valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Bytes that were written; a later version has more at the end.
    pub bytes: u32,
    /// A [`Direction`].
    pub direction: u32,
    /// A [`State`].
    pub state: u32,
    /// Bit i: rail i of the device carried a part of it. 0 at the start, and where nobody knows.
    pub rails: u32,
    /// At the start what the caller posted, then what was moved, bytes.
    pub size: u64,
    /// The communicator, as the caller knows it.
    pub comm: u64,
}

const DESCRIPTION_BYTES: u32 = 32;

const _: () = {
    assert!(size_of::<Description>() == DESCRIPTION_BYTES as usize);
    assert!(core::mem::offset_of!(Description, direction) == 4);
    assert!(core::mem::offset_of!(Description, state) == 8);
    assert!(core::mem::offset_of!(Description, rails) == 12);
    assert!(core::mem::offset_of!(Description, size) == 16);
    assert!(core::mem::offset_of!(Description, comm) == 24);
};

/// An event that was started and not stopped.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// What the callback left in `*event`; never looked at.
    event: usize,
    parent: usize,
    comm: CommWord,
    direction: Direction,
}

const SHARDS: usize = 16;

/// The open events of an instance.
#[derive(Debug)]
pub(crate) struct Events {
    callback: ProfilerFn,
    /// By request; in shards, so that threads with requests of their own do not wait for each other.
    open: [Mutex<HashMap<ReqWord, Open>>; SHARDS],
}

impl Events {
    /// # Safety
    /// `callback` must be callable from any thread until the value is dropped, with any parent that
    /// [`Events::started`] is given.
    pub(crate) unsafe fn new(callback: ProfilerFn) -> Self {
        Self {
            callback,
            open: core::array::from_fn(|_| Mutex::default()),
        }
    }

    /// A request was started. A callback that refuses has no event to stop later.
    pub(crate) fn started(
        &self,
        request: ReqWord,
        (direction, comm): (Direction, CommWord),
        size: usize,
        parent: *mut c_void,
    ) {
        let mut open = Open {
            event: 0,
            parent: parent.expose_provenance(),
            comm,
            direction,
        };
        if self.call(&mut open, START, State::Started, 0, size as u64) == abi::SUCCESS {
            self.shard(request).insert(request, open);
        }
    }

    /// A request is gone: done or failed.
    pub(crate) fn ended(&self, request: ReqWord, state: State, rails: u32, size: u64) {
        let open = self.shard(request).remove(&request);
        if let Some(mut open) = open {
            self.call(&mut open, UPDATE_AND_STOP, state, rails, size);
        }
    }

    /// A communicator is closed: what is open on it stops.
    pub(crate) fn closed(&self, comm: CommWord) {
        self.stop_where(|open| open.comm == comm);
    }

    /// Everything stops.
    pub(crate) fn stop_all(&self) {
        self.stop_where(|_| true);
    }

    fn stop_where(&self, goes: impl Fn(&Open) -> bool) {
        for shard in &self.open {
            let mut gone: Vec<Open> = Vec::new();
            lock(shard).retain(|_, open| {
                let stays = !goes(open);
                if !stays {
                    gone.push(*open);
                }
                stays
            });
            // Outside the lock: a profiler may take its time, or call us.
            for mut open in gone {
                self.call(&mut open, UPDATE_AND_STOP, State::Closed, 0, 0);
            }
        }
    }

    fn shard(&self, request: ReqWord) -> MutexGuard<'_, HashMap<ReqWord, Open>> {
        let bits = request.to_bits();
        let [mixed, ..] = (bits ^ bits >> 32).to_le_bytes();
        lock(&self.open[usize::from(mixed) % SHARDS])
    }

    fn call(
        &self,
        open: &mut Open,
        kind: c_int,
        state: State,
        rails: u32,
        size: u64,
    ) -> NcclResult {
        let mut description = Description {
            bytes: DESCRIPTION_BYTES,
            direction: open.direction as u32,
            state: state as u32,
            rails,
            size,
            comm: open.comm.to_bits(),
        };
        let mut event: *mut c_void = core::ptr::with_exposed_provenance_mut(open.event);
        // SAFETY: the contract of `new`; event and description outlive the call.
        let result = unsafe {
            (self.callback)(
                &raw mut event,
                kind,
                core::ptr::with_exposed_provenance_mut(open.parent),
                PLUGIN_ID,
                (&raw mut description).cast(),
            )
        };
        open.event = event.expose_provenance();
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Description, Direction, Events, PLUGIN_ID, START, State, UPDATE_AND_STOP, lock};
    use core::ffi::{c_int, c_void};
    use ofi_net::{CommWord, ReqWord};
    use std::sync::Mutex;

    type Call = (usize, c_int, usize, Description);
    /// Calls of all tests; each test looks at those with its own parents.
    static CALLS: Mutex<Vec<Call>> = Mutex::new(Vec::new());

    unsafe extern "C" fn record(
        event: *mut *mut c_void,
        kind: c_int,
        parent: *mut c_void,
        plugin: i64,
        description: *mut c_void,
    ) -> c_int {
        assert_eq!(plugin, PLUGIN_ID);
        // SAFETY: the callback is given what its type says.
        let description = unsafe { description.cast::<Description>().read() };
        // SAFETY: as above.
        let event = unsafe { &mut *event };
        if kind == START {
            assert!(event.is_null());
            *event = core::ptr::without_provenance_mut(parent.addr() + 1000);
        }
        lock(&CALLS).push((event.addr(), kind, parent.addr(), description));
        // Parent 13 is refused.
        c_int::from(parent.addr() == 13)
    }

    fn calls(parents: core::ops::Range<usize>) -> Vec<Call> {
        let all = lock(&CALLS);
        all.iter()
            .filter(|call| parents.contains(&call.2))
            .copied()
            .collect()
    }

    fn events() -> Events {
        // SAFETY: a function of this module, which looks at parents as numbers.
        unsafe { Events::new(record) }
    }

    fn parent(number: usize) -> *mut c_void {
        core::ptr::without_provenance_mut(number)
    }

    const COMM: CommWord = CommWord::from_bits(1 << 62 | 5);
    const OTHER: CommWord = CommWord::from_bits(1 << 62 | 6);

    #[test]
    fn an_event_starts_and_stops_once_with_what_moved() {
        let events = events();
        let request = ReqWord::from_bits(2 << 62 | 7);
        events.started(request, (Direction::Recv, COMM), 100, parent(1));
        events.ended(request, State::Done, 0b101, 60);
        events.ended(request, State::Done, 0b101, 60);
        events.stop_all();
        let seen = calls(1..2);
        let [(first, START, _, begin), (second, UPDATE_AND_STOP, _, end)] = seen[..] else {
            panic!("{seen:?}");
        };
        assert_eq!((first, second), (1001, 1001));
        assert_eq!((begin.state, begin.rails, begin.size), (0, 0, 100));
        assert_eq!(
            (end.state, end.rails, end.size, end.direction),
            (1, 5, 60, 1)
        );
        assert_eq!((end.bytes, end.comm), (32, COMM.to_bits()));
    }

    #[test]
    fn a_close_stops_what_is_open_on_it_and_nothing_else() {
        let events = events();
        for (number, comm) in [(20, COMM), (21, OTHER), (22, COMM)] {
            let request = ReqWord::from_bits(2 << 62 | number);
            let parent = parent(usize::try_from(number).unwrap());
            events.started(request, (Direction::Send, comm), 1, parent);
        }
        events.closed(COMM);
        assert_eq!(calls(20..21).len(), 2);
        assert_eq!(calls(21..22).len(), 1);
        assert_eq!(calls(22..23)[1].3.state, State::Closed as u32);
        events.stop_all();
        assert_eq!(calls(21..22).len(), 2);
    }

    #[test]
    fn a_refused_start_has_no_stop() {
        let events = events();
        let request = ReqWord::from_bits(2 << 62 | 9);
        events.started(request, (Direction::Send, COMM), 1, parent(13));
        events.ended(request, State::Failed, 0, 0);
        assert_eq!(calls(13..14).len(), 1);
    }
}
