//! One table as something to call: the arguments that all versions have, put where this one wants them.

use core::ffi::c_int;

use super::slots::{Entry, slots};

/// How the calls of a version look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) version: u32,
    /// Where each call stands; 0: the table lacks it.
    pub(crate) slots: Slots,
    /// Connects in one call, one buffer a call, no tags (Neuron's v4).
    pub(crate) is_v4: bool,
    /// Sizes of messages are `size_t`.
    pub(crate) is_wide: bool,
    /// A configuration for each connect (NCCL's v10).
    pub(crate) has_config: bool,
    /// init gives a context (NCCL's v11 and later).
    pub(crate) has_context: bool,
    /// Events of a profiler (NCCL's v10 and later).
    pub(crate) has_parents: bool,
}

/// The number of each call's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) count: usize,
    pub(crate) fini: usize,
    /// devices; getProperties, listen, connect, accept and regMr follow it.
    pub(crate) devices: usize,
    pub(crate) dmabuf: usize,
    /// deregMr; isend, irecv, iflush, test and the three closes follow it.
    pub(crate) dereg: usize,
    /// getMrKey; iwrite, iwriteInline and iread follow it.
    pub(crate) key: usize,
}

/// One message: what every version of isend, irecv and iflush takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) comm: usize,
    pub(crate) n: c_int,
    pub(crate) data: usize,
    pub(crate) size: i64,
    pub(crate) tag: c_int,
    pub(crate) mhandle: usize,
}

/// Which of the closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    Send,
    Recv,
    Listen,
}

/// A table of the plugin.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shape: Shape,
    entries: Vec<(usize, Entry)>,
}

/// A number as an argument: `int` parameters take its low half.
fn int(value: impl Into<i64>) -> usize {
    usize::from_ne_bytes(value.into().to_ne_bytes())
}

fn at<T>(place: &mut T) -> usize {
    core::ptr::from_mut(place).expose_provenance()
}

impl Table {
    pub(crate) fn new<T>(table: &'static T, shape: Shape) -> Self {
        let entries = slots(table, shape.slots.count);
        Self { shape, entries }
    }

    fn call(&self, slot: usize, arguments: &[usize]) -> c_int {
        let found = self.entries.iter().find(|(number, _)| *number == slot);
        let Some(&(_, entry)) = found else {
            panic!("v{} has nothing in slot {slot}", self.shape.version);
        };
        let a: [usize; 8] = core::array::from_fn(|i| arguments.get(i).copied().unwrap_or(0));
        // SAFETY: the arguments are those that this slot takes in this version, in their order, in
        // registers or stack words as C passes them; every address is NULL or of memory of this
        // driver that is large enough and outlives its use.
        unsafe { entry(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]) }
    }

    pub(crate) fn init(&self, context: Option<&mut usize>, logger: usize) -> c_int {
        let context = context.map_or(0, at);
        match self.shape.has_context {
            true => self.call(1, &[context, 7, 0, logger, 0]),
            false => self.call(1, &[logger, 0]),
        }
    }

    /// fini, or finalize.
    pub(crate) fn fini(&self, context: usize) -> c_int {
        self.call(self.shape.slots.fini, &[context])
    }

    pub(crate) fn devices(&self, count: Option<&mut c_int>) -> c_int {
        self.call(self.shape.slots.devices, &[count.map_or(0, at)])
    }

    pub(crate) fn properties(&self, dev: c_int, into: Option<&mut [u64; 32]>) -> c_int {
        let slot = self.shape.slots.devices + 1;
        self.call(slot, &[int(dev), into.map_or(0, at)])
    }

    pub(crate) fn listen(
        &self,
        (context, dev): (usize, c_int),
        handle: Option<&mut [u8; 128]>,
        comm: Option<&mut usize>,
    ) -> c_int {
        let (slot, dev) = (self.shape.slots.devices + 2, int(dev));
        let (handle, comm) = (handle.map_or(0, at), comm.map_or(0, at));
        match self.shape.has_context {
            true => self.call(slot, &[context, dev, handle, comm]),
            false => self.call(slot, &[dev, handle, comm]),
        }
    }

    pub(crate) fn connect(
        &self,
        (context, dev): (usize, c_int),
        handle: Option<&mut [u8; 128]>,
        comm: Option<&mut usize>,
    ) -> c_int {
        let (slot, dev) = (self.shape.slots.devices + 3, int(dev));
        let (handle, comm) = (handle.map_or(0, at), comm.map_or(0, at));
        match self.shape {
            Shape {
                has_context: true, ..
            } => self.call(slot, &[context, dev, handle, comm]),
            Shape {
                has_config: true, ..
            } => self.call(slot, &[dev, 0, handle, comm]),
            _ => self.call(slot, &[dev, handle, comm]),
        }
    }

    pub(crate) fn accept(&self, listener: usize, comm: Option<&mut usize>) -> c_int {
        let slot = self.shape.slots.devices + 4;
        self.call(slot, &[listener, comm.map_or(0, at)])
    }

    pub(crate) fn reg_mr(
        &self,
        comm: usize,
        (data, size): (usize, usize),
        kind: c_int,
        mhandle: Option<&mut usize>,
    ) -> c_int {
        let slot = self.shape.slots.devices + 5;
        let mhandle = mhandle.map_or(0, at);
        self.call(slot, &[comm, data, size, int(kind), mhandle])
    }

    pub(crate) fn reg_dmabuf(
        &self,
        comm: usize,
        (data, size): (usize, usize),
        fd: c_int,
        mhandle: Option<&mut usize>,
    ) -> c_int {
        let mhandle = mhandle.map_or(0, at);
        let arguments = [comm, data, size, 1, 0, int(fd), mhandle];
        self.call(self.shape.slots.dmabuf, &arguments)
    }

    pub(crate) fn dereg(&self, comm: usize, mhandle: usize) -> c_int {
        self.call(self.shape.slots.dereg, &[comm, mhandle])
    }

    pub(crate) fn isend(&self, message: &Message, request: Option<&mut usize>) -> c_int {
        let slot = self.shape.slots.dereg + 1;
        let Message {
            comm,
            data,
            size,
            tag,
            mhandle,
            ..
        } = *message;
        let (size, request) = (int(size), request.map_or(0, at));
        match self.shape {
            Shape { is_v4: true, .. } => self.call(slot, &[comm, data, size, mhandle, request]),
            Shape {
                has_parents: true, ..
            } => self.call(slot, &[comm, data, size, int(tag), mhandle, 0, request]),
            _ => self.call(slot, &[comm, data, size, int(tag), mhandle, request]),
        }
    }

    pub(crate) fn irecv(&self, message: &Message, request: Option<&mut usize>) -> c_int {
        let slot = self.shape.slots.dereg + 2;
        let request = request.map_or(0, at);
        if self.shape.is_v4 {
            return self.one(slot, message, request);
        }
        let Message {
            comm,
            n,
            tag,
            data,
            size,
            mhandle,
        } = *message;
        let mut arrays = Arrays::new(data, size, mhandle, self.shape.is_wide);
        let mut tags = [tag; ENTRIES];
        let [data, sizes, mhandles] = arrays.places();
        let tags = at(&mut tags);
        let n = int(n);
        if self.shape.has_parents {
            return self.call(slot, &[comm, n, data, sizes, tags, mhandles, 0, request]);
        }
        self.call(slot, &[comm, n, data, sizes, tags, mhandles, request])
    }

    pub(crate) fn iflush(&self, message: &Message, request: Option<&mut usize>) -> c_int {
        let slot = self.shape.slots.dereg + 3;
        let request = request.map_or(0, at);
        if self.shape.is_v4 {
            return self.one(slot, message, request);
        }
        let Message {
            comm,
            n,
            data,
            size,
            mhandle,
            ..
        } = *message;
        // Its sizes are `int` in every version.
        let mut arrays = Arrays::new(data, size, mhandle, false);
        let [data, sizes, mhandles] = arrays.places();
        self.call(slot, &[comm, int(n), data, sizes, mhandles, request])
    }

    /// irecv and iflush of v4.
    fn one(&self, slot: usize, message: &Message, request: usize) -> c_int {
        let Message {
            comm,
            data,
            size,
            mhandle,
            ..
        } = *message;
        self.call(slot, &[comm, data, int(size), mhandle, request])
    }

    pub(crate) fn test(
        &self,
        request: usize,
        done: Option<&mut c_int>,
        size: Option<&mut c_int>,
    ) -> c_int {
        let slot = self.shape.slots.dereg + 4;
        self.call(slot, &[request, done.map_or(0, at), size.map_or(0, at)])
    }

    pub(crate) fn close(&self, which: Close, comm: usize) -> c_int {
        let after_test = match which {
            Close::Send => 1,
            Close::Recv => 2,
            Close::Listen => 3,
        };
        self.call(self.shape.slots.dereg + 4 + after_test, &[comm])
    }

    pub(crate) fn key(&self, mhandle: usize, key: Option<&mut u64>) -> c_int {
        self.call(self.shape.slots.key, &[mhandle, key.map_or(0, at)])
    }

    /// iwrite, or iread: a local piece, and one of the peer.
    pub(crate) fn one_sided(
        &self,
        is_read: bool,
        message: &Message,
        remote: (usize, u64),
        request: Option<&mut usize>,
    ) -> c_int {
        let slot = self.shape.slots.key + if is_read { 3 } else { 1 };
        let Message {
            comm,
            data,
            size,
            mhandle,
            ..
        } = *message;
        let key = usize::from_ne_bytes(remote.1.to_ne_bytes());
        let request = request.map_or(0, at);
        self.call(
            slot,
            &[comm, data, int(size), mhandle, remote.0, key, request],
        )
    }

    pub(crate) fn write_inline(
        &self,
        message: &Message,
        remote: (usize, u64),
        request: Option<&mut usize>,
    ) -> c_int {
        let slot = self.shape.slots.key + 2;
        let Message {
            comm, data, size, ..
        } = *message;
        let key = usize::from_ne_bytes(remote.1.to_ne_bytes());
        let request = request.map_or(0, at);
        self.call(slot, &[comm, data, int(size), remote.0, key, request])
    }

    /// irecv and iflush with NULL for the arrays of which `missing` says.
    pub(crate) fn without_arrays(&self, is_flush: bool, comm: usize, missing: u8) -> c_int {
        let mut arrays = Arrays::new(0, 0, 0, self.shape.is_wide);
        let mut request = 0_usize;
        let [data, sizes, mhandles] = arrays.places();
        let given = |bit: u8, place: usize| if missing >> bit & 1 == 1 { 0 } else { place };
        let (data, sizes) = (given(0, data), given(1, sizes));
        let (mhandles, request) = (given(2, mhandles), at(&mut request));
        let slot = self.shape.slots.dereg + if is_flush { 3 } else { 2 };
        match (is_flush, self.shape.has_parents) {
            (true, _) => self.call(slot, &[comm, 1, data, sizes, mhandles, request]),
            // The tags are NULL too.
            (false, true) => self.call(slot, &[comm, 1, data, sizes, 0, mhandles, 0, request]),
            (false, false) => self.call(slot, &[comm, 1, data, sizes, 0, mhandles, request]),
        }
    }
}

/// As many as any count that is asked for may say, but for those that no array has.
const ENTRIES: usize = 8;

/// The arrays of a grouped call.
struct Arrays {
    data: [usize; ENTRIES],
    ints: [c_int; ENTRIES],
    sizes: [usize; ENTRIES],
    mhandles: [usize; ENTRIES],
    is_wide: bool,
}

impl Arrays {
    fn new(data: usize, size: i64, mhandle: usize, is_wide: bool) -> Self {
        let bytes = size.to_le_bytes();
        let low = c_int::from_le_bytes(core::array::from_fn(|i| bytes[i]));
        Self {
            data: [data; ENTRIES],
            ints: [low; ENTRIES],
            sizes: [int(size); ENTRIES],
            mhandles: [mhandle; ENTRIES],
            is_wide,
        }
    }

    fn places(&mut self) -> [usize; 3] {
        let sizes = match self.is_wide {
            true => at(&mut self.sizes),
            false => at(&mut self.ints),
        };
        [at(&mut self.data), sizes, at(&mut self.mhandles)]
    }
}
