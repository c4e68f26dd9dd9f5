//! One side of a rule: endpoints, memory, posts, and waiting for what comes of them.
//!
//! Memory and contexts live for ever: what the provider does to them late is never a use after free.

use core::ffi::{CStr, c_void};
use core::time::Duration;
use std::time::Instant;

use efa_fabric::{
    Access, Av, Caps, CompletionError, Context2, Cq, CqBind, CqEntry, CqPoll, Domain, Endpoint,
    Fabric, FabricError, Hints, InfoBuf, Library, MrMode, MrRequest, PeerAddr, Posted, Sink,
    Source, Target,
};

use crate::link::Link;
use crate::run;

/// How long anything may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Who plays a side of a rule.
pub(crate) struct Actor<'a> {
    pub(crate) fabric: run::Fabric,
    pub(crate) side: usize,
    pub(crate) link: &'a Link,
}

/// The library under test.
pub(crate) fn library() -> &'static Library {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(std::path::PathBuf::from);
    Library::load(path.as_deref()).expect("a libfabric")
}

pub(crate) fn modes() -> MrMode {
    MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY
}

/// Hints for what all of EFA can do.
pub(crate) fn hints() -> Hints {
    Hints::rdm(Caps::MSG | Caps::RMA)
        .provider(c"efa")
        .mr_mode(modes())
}

/// The entry of a NIC in a fabric.
pub(crate) fn entry(hints: &Hints, fabric: &str, nic: usize) -> InfoBuf {
    let list = hints.query(library()).expect("EFA");
    let mut of_fabric = list.iter().filter(|info| info.fabric_name() == fabric);
    let info = of_fabric.nth(nic).expect("the NIC");
    info.dup().expect("memory")
}

/// Registered memory of its own.
pub(crate) struct Memory {
    pub(crate) mr: efa_fabric::Mr,
    pub(crate) ptr: *mut u8,
    pub(crate) len: usize,
}

impl Memory {
    pub(crate) fn new(domain: &Domain, len: usize) -> Self {
        Self::with_access(domain, len, everything())
    }

    pub(crate) fn with_access(domain: &Domain, len: usize, access: Access) -> Self {
        let ptr = Box::leak(vec![0_u8; len].into_boxed_slice()).as_mut_ptr();
        Self::of(domain, ptr, len, access)
    }

    /// Registers memory once more.
    pub(crate) fn of(domain: &Domain, ptr: *mut u8, len: usize, access: Access) -> Self {
        let request = MrRequest::host(ptr, len, access);
        // SAFETY: the memory is never freed.
        let mr = unsafe { efa_fabric::Mr::register(domain, &request) }.expect("a region");
        Self { mr, ptr, len }
    }

    pub(crate) fn fill(&self, seed: u8) {
        for i in 0..self.len {
            // SAFETY: in bounds, and never freed; volatile, since a peer may look.
            unsafe { self.ptr.wrapping_add(i).write_volatile(byte(i, seed)) };
        }
    }

    /// Whether the bytes of a range are those of a fill, moved by so many.
    pub(crate) fn has(&self, range: core::ops::Range<usize>, seed: u8) -> bool {
        let start = range.start;
        range
            .into_iter()
            .all(|i| self.at(i) == byte(i - start, seed))
    }

    pub(crate) fn at(&self, i: usize) -> u8 {
        assert!(i < self.len);
        // SAFETY: in bounds, and never freed; volatile, since a peer may write.
        unsafe { self.ptr.wrapping_add(i).read_volatile() }
    }

    pub(crate) fn addr(&self) -> u64 {
        self.ptr.expose_provenance() as u64
    }

    pub(crate) fn source(&self, len: usize) -> Source {
        assert!(len <= self.len);
        Source {
            ptr: self.ptr,
            len,
            desc: self.mr.desc(),
        }
    }

    pub(crate) fn sink(&self, offset: usize, len: usize) -> Sink {
        assert!(offset + len <= self.len);
        Sink {
            ptr: self.ptr.wrapping_add(offset),
            len,
            desc: self.mr.desc(),
        }
    }
}

/// Every use of memory that there is.
pub(crate) fn everything() -> Access {
    Access::SEND
        | Access::RECV
        | Access::READ
        | Access::WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_WRITE
}

fn byte(i: usize, seed: u8) -> u8 {
    u8::try_from(i % 251).unwrap_or(0) ^ seed
}

// SAFETY: the pointer is to memory that lives for ever and is only used through volatile accesses.
unsafe impl Sync for Memory {}

/// What a queue said.
#[derive(Debug)]
pub(crate) enum Event {
    Done(CqEntry),
    Failed(CompletionError),
}

impl Event {
    pub(crate) fn done(self) -> CqEntry {
        match self {
            Self::Done(entry) => entry,
            Self::Failed(error) => panic!("{error}"),
        }
    }

    /// The two numbers of an error.
    pub(crate) fn failed(self) -> (i32, i32) {
        match self {
            Self::Failed(error) => (error.errno().code(), error.prov_errno()),
            Self::Done(entry) => panic!("no error: {entry:?}"),
        }
    }
}

/// An endpoint with what it needs.
pub(crate) struct Side {
    pub(crate) ep: Endpoint,
    pub(crate) cq: Cq,
    pub(crate) av: Av,
    pub(crate) domain: Domain,
    pub(crate) info: InfoBuf,
}

impl Side {
    pub(crate) fn new(info: InfoBuf) -> Self {
        Self::with(info, 4096, |_| {})
    }

    pub(crate) fn with(
        info: InfoBuf,
        entries: usize,
        set: impl FnOnce(&efa_fabric::EndpointSetup),
    ) -> Self {
        let fabric = Fabric::open(&info).expect("fabric");
        let domain = Domain::open(&fabric, &info).expect("domain");
        let cq = Cq::open(&domain, entries).expect("queue");
        let av = Av::open(&domain).expect("vector");
        let mut setup = Endpoint::open(&domain, &info).expect("endpoint");
        setup
            .bind_cq(&cq, CqBind::TRANSMIT | CqBind::RECV)
            .expect("bind");
        setup.bind_av(&av).expect("bind");
        set(&setup);
        let ep = setup.enable().expect("enable");
        Self {
            ep,
            cq,
            av,
            domain,
            info,
        }
    }

    /// A context that is never freed.
    pub(crate) fn context() -> *mut Context2 {
        Box::leak(Box::new(Context2::new()))
    }

    pub(crate) fn poll(&self) -> Vec<Event> {
        let mut entries = [CqEntry::EMPTY; 32];
        match self.cq.read_batch(&mut entries).expect("a queue") {
            CqPoll::Empty => Vec::new(),
            CqPoll::Entries(count) => {
                let got = entries.iter().take(count).copied();
                got.map(Event::Done).collect()
            }
            CqPoll::ErrorAvailable => {
                let error = self.cq.read_error().expect("a queue");
                error.into_iter().map(Event::Failed).collect()
            }
        }
    }

    /// The next so many events.
    pub(crate) fn wait(&self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let start = Instant::now();
        while events.len() < count {
            events.extend(self.poll());
            let so_far = events.len();
            assert!(
                start.elapsed() < DEADLINE,
                "{so_far} of {count}: {events:?}"
            );
            std::thread::yield_now();
        }
        assert_eq!(events.len(), count, "{events:?}");
        events
    }

    pub(crate) fn one(&self) -> Event {
        self.wait(1).remove(0)
    }

    /// Nothing comes, for some polls.
    pub(crate) fn silent(&self) {
        for _ in 0..2000 {
            let events = self.poll();
            assert!(events.is_empty(), "{events:?}");
        }
    }

    pub(crate) fn send(&self, from: Source, to: PeerAddr) -> *mut Context2 {
        let context = Self::context();
        accepted(self, || {
            // SAFETY: memory and context are never freed.
            unsafe { self.ep.post_send(from, to, context) }
        });
        context
    }

    pub(crate) fn recv(&self, into: Sink) -> *mut Context2 {
        let context = Self::context();
        // SAFETY: memory and context are never freed.
        let posted = unsafe { self.ep.post_recv(into, PeerAddr::ANY, context) };
        assert_eq!(posted, Ok(Posted::Accepted));
        context
    }

    pub(crate) fn write(&self, from: Source, data: Option<u64>, target: Target) -> *mut Context2 {
        let context = Self::context();
        accepted(self, || match data {
            // SAFETY: memory and context are never freed.
            Some(data) => unsafe { self.ep.post_writedata(from, data, target, context) },
            // SAFETY: as above.
            None => unsafe { self.ep.post_write(from, target, context) },
        });
        context
    }

    pub(crate) fn read(&self, into: Sink, target: Target) -> *mut Context2 {
        let context = Self::context();
        accepted(self, || {
            // SAFETY: memory and context are never freed.
            unsafe { self.ep.post_read(into, target, context) }
        });
        context
    }

    pub(crate) fn raw(&self) -> *mut efa_fabric::sys::bindings::fid_ep {
        self.ep.as_raw()
    }
}

/// Posts once; the queue must have room.
pub(crate) fn accepted(side: &Side, post: impl FnOnce() -> Result<Posted, FabricError>) {
    let posted = post();
    assert_eq!(posted, Ok(Posted::Accepted), "{}", side.info.domain_name());
}

/// A pair of connected sides, seen from one of them.
pub(crate) struct Pair {
    pub(crate) side: Side,
    pub(crate) memory: Memory,
    /// The other side's endpoint, and all of its memory.
    pub(crate) target: Target,
}

impl Actor<'_> {
    /// Waits for the other side's process to end: the link breaks then.
    pub(crate) fn wait_until_it_is_gone(&self) {
        let gone = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            while !self.link.hear().is_empty() {}
        }));
        assert!(gone.is_err(), "the other side lives");
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.fabric == run::Fabric::Direct
    }

    /// The entry of the fabric under test.
    pub(crate) fn info(&self) -> InfoBuf {
        self.info_with(&hints())
    }

    pub(crate) fn info_with(&self, hints: &Hints) -> InfoBuf {
        entry(hints, self.fabric.name(), 0)
    }

    /// Connects two sides that know each other, each with so many bytes.
    pub(crate) fn pair(&self, bytes: usize) -> Pair {
        self.pair_of(Side::new(self.info()), bytes)
    }

    pub(crate) fn pair_of(&self, side: Side, bytes: usize) -> Pair {
        let memory = Memory::new(&side.domain, bytes);
        let target = self.introduce(&side, &memory);
        self.link.meet();
        Pair {
            side,
            memory,
            target,
        }
    }

    /// Tells the other side of an endpoint and its memory, and learns of theirs.
    pub(crate) fn introduce(&self, side: &Side, memory: &Memory) -> Target {
        let name = side.ep.name().expect("name");
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let (addr, key) = (memory.addr(), memory.mr.key());
        self.link.tell(&format!("{name} {addr} {key}"));
        let (name, addr, key) = parse(&self.link.hear());
        let peer = side.av.insert(&name).expect("insert");
        Target { peer, addr, key }
    }
}

/// What [`Actor::introduce`] tells.
pub(crate) fn parse(line: &str) -> (Vec<u8>, u64, u64) {
    let mut fields = line.split(' ');
    let mut field = || fields.next().expect("a field");
    let name = field();
    let bytes = (0..name.len() / 2)
        .map(|i| u8::from_str_radix(&name[2 * i..2 * i + 2], 16).expect("hex"))
        .collect();
    let mut number = || field().parse().expect("a number");
    (bytes, number(), number())
}

/// Text of `strerror` for a provider's number, as the queue gives it.
pub(crate) fn strerror(cq: &Cq, prov_errno: i32) -> String {
    let raw = cq.as_raw();
    // SAFETY: fi_cq(3): an open queue, and no buffers.
    let text = unsafe {
        efa_fabric::sys::ops::fi_cq_strerror(
            raw,
            prov_errno,
            core::ptr::null::<c_void>(),
            core::ptr::null_mut(),
            0,
        )
    };
    // SAFETY: fi_cq(3): a text that ends.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
