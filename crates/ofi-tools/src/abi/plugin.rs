//! A loaded plugin, called as a collectives library calls it.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::fmt;
use core::ptr::{NonNull, null, null_mut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{AbiError, CallError};
use super::flavor::{Flavor, version_of};
use super::library::{table_address, text_at};
use super::logger;
use super::open::{Open, forget};
use super::ops::{
    AcceptFn, ConnectFn, FiniFn, IflushFn, InitFn, IrecvFn, IsendFn, ListenFn, Ops, RegMrFn,
};
use super::props::PropBlock;
use super::sig::{CommConfig, Opaque};
use super::{Buffer, ListenComm, Net, RecvComm, Region, Request, SendComm, Span, nccl, neuron};

/// `NCCL_PTR_HOST`.
const PTR_HOST: c_int = 1;
/// The tag of every message: one receive is never grouped with another, so one tag does.
const TAG: c_int = 0x0f1;
/// No traffic class asked for.
static CONFIG: CommConfig = CommConfig { traffic_class: -1 };

/// One device, as the plugin describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) pci_path: Option<String>,
    pub(crate) guid: u64,
    pub(crate) ptr_support: i32,
    pub(crate) speed_mbps: i32,
    pub(crate) port: i32,
    pub(crate) latency_us: f32,
    pub(crate) max_comms: i32,
    pub(crate) max_recvs: i32,
    /// None where the version of the ABI does not say.
    pub(crate) reg_is_global: Option<bool>,
}

/// The handle that travels from a listener to a connector, in memory that never moves: the plugin
/// keeps the state of a connect inside it (protocol 2b).
pub(crate) struct Handle(Box<HandleBytes>);

#[repr(C, align(8))]
struct HandleBytes([u8; Handle::ROOM]);

impl Handle {
    /// Bytes of the largest handle; what listen was allowed to write is sent around.
    pub(crate) const BYTES: usize = 128;
    /// With a margin in which an overrun shows.
    const ROOM: usize = Self::BYTES + 64;
    const MARGIN: u8 = 0xa7;

    /// A handle received from a listener.
    pub(crate) fn received(bytes: &[u8; Self::BYTES]) -> Self {
        let mut room = [0; Self::ROOM];
        room[..Self::BYTES].copy_from_slice(bytes);
        Self(Box::new(HandleBytes(room)))
    }

    fn pointer(&mut self) -> *mut c_void {
        (&raw mut self.0.0).cast()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:02x?})", &self.0.0[..16])
    }
}

/// A plugin: loaded once, never unloaded.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(super) ops: Ops,
    version: u32,
    context: Opaque,
    pub(super) open: RefCell<Open>,
    /// Once it is set, nothing that could go on for long is begun or gone on with.
    stop: Arc<AtomicBool>,
}

impl Plugin {
    /// Loads the table `symbol` of the plugin at `path`.
    pub(crate) fn load(path: &Path, symbol: &str, flavor: Flavor) -> Result<Self, AbiError> {
        let version = version_of(symbol)?;
        let unknown = || AbiError::Version {
            family: flavor.name(),
            version,
            symbol: symbol.to_owned(),
        };
        if !(match flavor {
            Flavor::Neuron => 4..=6,
            Flavor::Nvidia => 6..=12,
        })
        .contains(&version)
        {
            return Err(unknown());
        }
        let at = table_address(path, symbol)?;
        let ops = match (flavor, version) {
            (Flavor::Neuron, 4) => table::<neuron::V4>(at).ops(),
            (Flavor::Neuron, 5) => table::<neuron::V5>(at).ops(),
            (Flavor::Neuron, 6) => table::<neuron::V6>(at).ops(),
            (Flavor::Nvidia, 6) => table::<nccl::V6>(at).ops(),
            (Flavor::Nvidia, 7) => table::<nccl::V7>(at).ops(),
            (Flavor::Nvidia, 8) => table::<nccl::V8>(at).ops(),
            (Flavor::Nvidia, 9) => table::<nccl::V9>(at).ops(),
            (Flavor::Nvidia, 10) => table::<nccl::V10>(at).ops(),
            (Flavor::Nvidia, 11 | 12) => table::<nccl::V11>(at).ops(version),
            _ => Err(unknown()),
        }?;
        Ok(Self {
            ops,
            version,
            context: null_mut(),
            open: RefCell::default(),
            stop: Arc::default(),
        })
    }

    /// Has posts, tests, connects and accepts fail once this is set: whoever polls is told so.
    pub(crate) fn stop_when(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    fn go_on(&self, call: &'static str) -> Result<(), CallError> {
        let code = if self.stop.load(Ordering::Relaxed) {
            CallError::STOPPED
        } else {
            0
        };
        CallError::check(call, code)
    }

    /// The name in the table.
    pub(crate) fn name(&self) -> String {
        text_at(self.ops.name).unwrap_or_else(|| "(no name)".to_owned())
    }

    /// Whether listen, connect and accept may block, so that each must be driven in turn.
    pub(crate) const fn blocking_setup(&self) -> bool {
        self.ops.blocking_setup
    }

    pub(crate) fn init(&mut self) -> Result<(), AbiError> {
        let log = logger::log;
        let code = match self.ops.init {
            // SAFETY: the function came from the table of this version, so it takes these
            // arguments (protocol 2a); the logger lives as long as the process. The same holds,
            // with the pointers named, for every call in this file.
            InitFn::Plain(f) => unsafe { f(log) },
            // SAFETY: as above; no profiler callback is offered (NULL is what NCCL passes then).
            InitFn::Profiled(f) => unsafe { f(log, null()) },
            // SAFETY: as above; `context` is a live out-parameter and CONFIG is static.
            InitFn::Context(f) => unsafe {
                f(&raw mut self.context, 1, &raw const CONFIG, log, null())
            },
        };
        CallError::check("init", code)?;
        self.open.borrow_mut().is_up = true;
        Ok(())
    }

    /// Tears the plugin down where the version has a function for it.
    pub(crate) fn fini(&mut self) -> Result<(), AbiError> {
        self.open.borrow_mut().is_up = false;
        let code = match self.ops.fini {
            FiniFn::None => 0,
            // SAFETY: a function of this table (see `init`), which takes no argument.
            FiniFn::Plain(f) => unsafe { f() },
            // SAFETY: a function of this table; the context is the one that init gave.
            FiniFn::Context(f) => unsafe { f(self.context) },
        };
        Ok(CallError::check("fini", code)?)
    }

    /// How many devices there are; at least one.
    pub(crate) fn devices(&self) -> Result<usize, AbiError> {
        let mut count: c_int = 0;
        // SAFETY: a function of this table (see `init`); `count` is a live out-parameter.
        let code = unsafe { (self.ops.devices)(&raw mut count) };
        CallError::check("devices", code)?;
        match usize::try_from(count) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(AbiError::DeviceCount { count }),
        }
    }

    pub(crate) fn device(&self, index: usize) -> Result<Device, AbiError> {
        let mut block = PropBlock::zeroed();
        // SAFETY: a function of this table (see `init`); the block is zeroed, aligned and larger
        // than the properties of any version (asserted in `props`).
        let code = unsafe { (self.ops.get_properties)(int(index), (&raw mut block).cast()) };
        CallError::check("getProperties", code)?;
        let p = self.ops.props.read(&block);
        Ok(Device {
            name: text_at(core::ptr::with_exposed_provenance(p.name))
                .unwrap_or_else(|| "?".to_owned()),
            pci_path: text_at(core::ptr::with_exposed_provenance(p.pci_path)),
            guid: p.guid,
            ptr_support: p.ptr_support,
            speed_mbps: p.speed_mbps,
            port: p.port,
            latency_us: p.latency_us,
            max_comms: p.max_comms,
            max_recvs: p.max_recvs,
            reg_is_global: p.reg_is_global,
        })
    }

    /// Starts to listen, and gives the handle for the other side.
    pub(crate) fn listen(
        &self,
        device: usize,
    ) -> Result<(ListenComm, [u8; Handle::BYTES]), AbiError> {
        let mut handle = Handle(Box::new(HandleBytes([0; Handle::ROOM])));
        let room = self.ops.handle_bytes;
        handle.0.0[room..].fill(Handle::MARGIN);
        let (at, mut comm) = (handle.pointer(), null_mut());
        let code = match self.ops.listen {
            // SAFETY: a function of this table (see `init`); the handle has at least the bytes that
            // this version allows, `comm` is a live out-parameter.
            ListenFn::Plain(f) => unsafe { f(int(device), at, &raw mut comm) },
            // SAFETY: as above, with the context that init gave.
            ListenFn::Context(f) => unsafe { f(self.context, int(device), at, &raw mut comm) },
        };
        CallError::check("listen", code)?;
        let made = NonNull::new(comm).map(NonNull::as_ptr);
        self.open.borrow_mut().listeners.extend(made);
        if let Some(at) = handle.0.0[room..].iter().position(|b| *b != Handle::MARGIN) {
            return Err(AbiError::HandleOverrun {
                room,
                at: room + at,
                version: self.version,
            });
        }
        let comm = NonNull::new(comm).ok_or(AbiError::NullResult {
            call: "listen",
            what: "the listen communicator",
        })?;
        let mut out = [0; Handle::BYTES];
        out[..room].copy_from_slice(&handle.0.0[..room]);
        Ok((ListenComm(comm), out))
    }

    /// One step of connecting: None until it is established. The handle is the same at each step.
    pub(crate) fn connect(
        &self,
        device: usize,
        handle: &mut Handle,
    ) -> Result<Option<SendComm>, AbiError> {
        self.go_on("connect")?;
        let (at, dev) = (handle.pointer(), int(device));
        let (mut comm, mut device_handle): (Opaque, Opaque) = (null_mut(), null_mut());
        let (out, extra) = (&raw mut comm, &raw mut device_handle);
        let code = match self.ops.connect {
            // SAFETY: a function of this table (see `init`); the handle stays at its address until
            // the connection stands, the others are live out-parameters.
            ConnectFn::Plain(f) => unsafe { f(dev, at, out) },
            // SAFETY: as above.
            ConnectFn::Device(f) => unsafe { f(dev, at, out, extra) },
            // SAFETY: as above; CONFIG is static.
            ConnectFn::Config(f) => unsafe { f(dev, &raw const CONFIG, at, out, extra) },
            // SAFETY: as above, with the context that init gave.
            ConnectFn::Context(f) => unsafe { f(self.context, dev, at, out, extra) },
        };
        CallError::check("connect", code)?;
        let made = NonNull::new(comm);
        let open = made.map(NonNull::as_ptr);
        self.open.borrow_mut().senders.extend(open);
        Ok(made.map(SendComm))
    }

    /// One step of accepting: None until a connection is established.
    pub(crate) fn accept(&self, listener: &ListenComm) -> Result<Option<RecvComm>, AbiError> {
        self.go_on("accept")?;
        let (mut comm, mut device_handle): (Opaque, Opaque) = (null_mut(), null_mut());
        let (at, out, extra) = (listener.0.as_ptr(), &raw mut comm, &raw mut device_handle);
        let code = match self.ops.accept {
            // SAFETY: a function of this table (see `init`); the listener is open, since closing
            // takes it by value; the others are live out-parameters.
            AcceptFn::Plain(f) => unsafe { f(at, out) },
            // SAFETY: as above.
            AcceptFn::Device(f) => unsafe { f(at, out, extra) },
        };
        CallError::check("accept", code)?;
        let made = NonNull::new(comm);
        let open = made.map(NonNull::as_ptr);
        self.open.borrow_mut().receivers.extend(open);
        Ok(made.map(RecvComm))
    }

    pub(crate) fn register_send(&self, c: &SendComm, region: Region) -> Result<Buffer, CallError> {
        self.register(c.0.as_ptr(), region)
    }

    pub(crate) fn register_recv(&self, c: &RecvComm, region: Region) -> Result<Buffer, CallError> {
        self.register(c.0.as_ptr(), region)
    }

    fn register(&self, comm: Opaque, region: Region) -> Result<Buffer, CallError> {
        let mut handle = null_mut();
        let at = region.address(0, region.len()).cast();
        let code = match self.ops.reg_mr {
            // SAFETY: a function of this table (see `init`); the region is mapped for as long as
            // the process lives and has exactly these bytes; `handle` is a live out-parameter.
            RegMrFn::Int(f) => unsafe { f(comm, at, int(region.len()), PTR_HOST, &raw mut handle) },
            // SAFETY: as above.
            RegMrFn::Size(f) => unsafe { f(comm, at, region.len(), PTR_HOST, &raw mut handle) },
        };
        CallError::check("regMr", code)?;
        self.open.borrow_mut().regions.push((comm, handle));
        Ok(Buffer { region, handle })
    }

    pub(crate) fn deregister_send(&self, c: &SendComm, b: Buffer) -> Result<Region, CallError> {
        self.deregister(c.0.as_ptr(), b)
    }

    pub(crate) fn deregister_recv(&self, c: &RecvComm, b: Buffer) -> Result<Region, CallError> {
        self.deregister(c.0.as_ptr(), b)
    }

    fn deregister(&self, comm: Opaque, buffer: Buffer) -> Result<Region, CallError> {
        forget(&mut self.open.borrow_mut().regions, &(comm, buffer.handle));
        // SAFETY: a function of this table (see `init`); the handle came from regMr on this
        // communicator and is given up here, since the buffer is taken by value.
        let code = unsafe { (self.ops.dereg_mr)(comm, buffer.handle) };
        CallError::check("deregMr", code)?;
        Ok(buffer.region)
    }

    pub(crate) fn close_send(&self, comm: SendComm) -> Result<(), CallError> {
        forget(&mut self.open.borrow_mut().senders, &comm.0.as_ptr());
        // SAFETY: a function of this table (see `init`); the communicator is given up by value.
        let code = unsafe { (self.ops.close_send)(comm.0.as_ptr()) };
        CallError::check("closeSend", code)
    }

    pub(crate) fn close_recv(&self, comm: RecvComm) -> Result<(), CallError> {
        forget(&mut self.open.borrow_mut().receivers, &comm.0.as_ptr());
        // SAFETY: a function of this table (see `init`); the communicator is given up by value.
        let code = unsafe { (self.ops.close_recv)(comm.0.as_ptr()) };
        CallError::check("closeRecv", code)
    }

    pub(crate) fn close_listen(&self, comm: ListenComm) -> Result<(), CallError> {
        forget(&mut self.open.borrow_mut().listeners, &comm.0.as_ptr());
        // SAFETY: a function of this table (see `init`); the communicator is given up by value.
        let code = unsafe { (self.ops.close_listen)(comm.0.as_ptr()) };
        CallError::check("closeListen", code)
    }
}

impl Net for Plugin {
    fn isend(&self, comm: &SendComm, span: Span<'_>) -> Result<Option<Request>, CallError> {
        self.go_on("isend")?;
        let mut request = null_mut();
        let out = &raw mut request;
        let at: *mut c_void = span.buffer.region.address(span.at, span.len).cast();
        let (comm, mh, len) = (comm.0.as_ptr(), span.buffer.handle, span.len);
        let code = match self.ops.isend {
            // SAFETY: a function of this table (see `init`); the span lies inside a region that is
            // registered under `mh` and never unmapped; `out` is a live out-parameter.
            IsendFn::Untagged(f) => unsafe { f(comm, at, int(len), mh, out) },
            // SAFETY: as above.
            IsendFn::Int(f) => unsafe { f(comm, at, int(len), TAG, mh, out) },
            // SAFETY: as above.
            IsendFn::Size(f) => unsafe { f(comm, at, len, TAG, mh, out) },
            // SAFETY: as above; no profiler handle.
            IsendFn::Profiled(f) => unsafe { f(comm, at, len, TAG, mh, null_mut(), out) },
        };
        CallError::check("isend", code)?;
        Ok(NonNull::new(request).map(Request))
    }

    fn irecv(&self, comm: &RecvComm, span: Span<'_>) -> Result<Option<Request>, CallError> {
        self.go_on("irecv")?;
        // The request is an input too: 0x1 would make completion optional (protocol 2a.1).
        let mut request = null_mut();
        let out = &raw mut request;
        let mut at: *mut c_void = span.buffer.region.address(span.at, span.len).cast();
        let (mut mh, comm) = (span.buffer.handle, comm.0.as_ptr());
        let (mut tag, mut small, mut len) = (TAG, int(span.len), span.len);
        let mut profile: Opaque = null_mut();
        let (data, mhs, tags) = (&raw mut at, &raw mut mh, &raw mut tag);
        let code = match self.ops.irecv {
            // SAFETY: a function of this table (see `init`); the span lies inside a region that is
            // registered under `mh` and never unmapped; `out` is a live out-parameter.
            IrecvFn::Single(f) => unsafe { f(comm, at, small, mh, out) },
            // SAFETY: as above; the arrays have one element each and live during the call.
            IrecvFn::Int(f) => unsafe { f(comm, 1, data, &raw mut small, tags, mhs, out) },
            // SAFETY: as above.
            IrecvFn::Size(f) => unsafe { f(comm, 1, data, &raw mut len, tags, mhs, out) },
            // SAFETY: as above; an array of one NULL profiler handle.
            IrecvFn::Profiled(f) => unsafe {
                f(
                    comm,
                    1,
                    data,
                    &raw mut len,
                    tags,
                    mhs,
                    &raw mut profile,
                    out,
                )
            },
        };
        CallError::check("irecv", code)?;
        Ok(NonNull::new(request).map(Request))
    }

    fn iflush(&self, comm: &RecvComm, span: Span<'_>) -> Result<Option<Request>, CallError> {
        let Some(flush) = self.ops.iflush else {
            return Ok(None);
        };
        let mut request = null_mut();
        let out = &raw mut request;
        let mut at: *mut c_void = span.buffer.region.address(span.at, span.len).cast();
        let (mut mh, comm) = (span.buffer.handle, comm.0.as_ptr());
        let mut len = int(span.len);
        let code = match flush {
            // SAFETY: as in `irecv`.
            IflushFn::Single(f) => unsafe { f(comm, at, len, mh, out) },
            // SAFETY: as in `irecv`.
            IflushFn::Many(f) => unsafe { f(comm, 1, &raw mut at, &raw mut len, &raw mut mh, out) },
        };
        CallError::check("iflush", code)?;
        Ok(NonNull::new(request).map(Request))
    }

    fn test(&self, request: &Request) -> Result<Option<usize>, CallError> {
        self.go_on("test")?;
        let (mut done, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: a function of this table (see `init`); the request was given by the plugin and
        // has not been reported done (its holders drop it then); the others are out-parameters of
        // one element, as one buffer was posted.
        let code = unsafe { (self.ops.test)(request.0.as_ptr(), &raw mut done, &raw mut size) };
        CallError::check("test", code)?;
        Ok((done != 0).then(|| usize::try_from(size).unwrap_or(usize::MAX)))
    }
}

/// The table at `at`, copied.
fn table<T: Copy>(at: NonNull<c_void>) -> T {
    // SAFETY: the symbol names a table of this version (protocol 2a): an object of at least these
    // bytes, aligned for pointers, that nobody writes while it is copied. Every field is a pointer
    // or an optional function pointer, for which any bytes of a pointer are valid.
    unsafe { at.cast::<T>().read() }
}

/// Sizes and device numbers are bounded far below this when the plan is made.
fn int(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_no_table_has_is_refused_before_the_file_is_touched() {
        let e = Plugin::load(
            Path::new("/nonexistent"),
            "ncclNetPlugin_v13",
            Flavor::Nvidia,
        );
        assert!(matches!(e, Err(AbiError::Version { version: 13, .. })));
    }
}
