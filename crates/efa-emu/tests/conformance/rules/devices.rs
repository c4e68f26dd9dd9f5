//! Memory of devices, which NICs reach and processors need not.

use core::ffi::c_int;
use core::ptr;

use efa_fabric::{
    BoolOption, Dmabuf, Errno, Memory as Whose, Mr, MrRequest, Sink, Source, Target, Version,
};

use crate::side::{Actor, Memory, Side, everything};

const BYTES: usize = 3 * 4096;

/// An anonymous file that passes for a dma-buf.
fn dmabuf() -> c_int {
    // SAFETY: memfd_create(2): a name that ends.
    let fd = unsafe { libc::memfd_create(c"dmabuf".as_ptr(), 0) };
    assert!(fd >= 0);
    let bytes = libc::off_t::try_from(BYTES).expect("a length");
    // SAFETY: ftruncate(2): a descriptor that was just made.
    assert_eq!(unsafe { libc::ftruncate(fd, bytes) }, 0);
    fd
}

/// A mapping of it, kept for good.
fn map(fd: c_int, rights: c_int) -> *mut u8 {
    // SAFETY: mmap(2): a new mapping.
    let at = unsafe { libc::mmap(ptr::null_mut(), BYTES, rights, libc::MAP_SHARED, fd, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn request(addr: *const u8, len: usize, memory: Whose) -> MrRequest {
    MrRequest {
        memory,
        ..MrRequest::host(addr, len, everything())
    }
}

/// Registers memory that is never unmapped.
fn register(side: &Side, request: &MrRequest) -> Result<Mr, Errno> {
    // SAFETY: the memory is never unmapped, and is what it says for the emulated device.
    let registered = unsafe { Mr::register(&side.domain, request) };
    registered.map_err(|error| error.errno())
}

/// Sends and writes from and into addresses that no processor may touch: `seen` is what is there.
fn moves(side: &Side, mr: &Mr, named: *mut u8, seen: *mut u8) {
    let own = Memory::new(&side.domain, 1000);
    own.fill(5);
    let peer = side.av.insert(&side.ep.name().expect("name"));
    let peer = peer.expect("insert");
    let sink = |at: *mut u8, len| Sink {
        ptr: at,
        len,
        desc: mr.desc(),
    };
    // A message into it, then a write of it to further behind, then a read of that.
    side.recv(sink(named, 1000));
    side.send(own.source(1000), peer);
    side.wait(2).into_iter().for_each(|event| {
        event.done();
    });
    let target = Target {
        peer,
        addr: named.wrapping_add(5000).expose_provenance() as u64,
        key: mr.key(),
    };
    let source = Source {
        ptr: named,
        len: 1000,
        desc: mr.desc(),
    };
    side.write(source, None, target);
    side.one().done();
    let into = Memory::new(&side.domain, 1000);
    side.read(into.sink(0, 1000), target);
    side.one().done();
    assert!(into.has(0..1000, 5));
    for (i, at) in [(0, seen), (5000, seen.wrapping_add(5000))] {
        for n in [0, 500, 999] {
            // SAFETY: within the mapping; volatile, since the NIC writes there.
            let byte = unsafe { at.wrapping_add(n).read_volatile() };
            assert_eq!(byte, own.at(n), "{i}, {n}");
        }
    }
}

/// By address, and by dma-buf with addresses of other pages; a device that is not there is ENOSYS.
pub(crate) fn reached_by_nics_alone(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    for memory in [Whose::Cuda(0), Whose::Neuron(-1)] {
        let fd = dmabuf();
        let (seen, named) = (
            map(fd, libc::PROT_READ | libc::PROT_WRITE),
            map(fd, libc::PROT_NONE),
        );
        let mr = register(&side, &request(named, BYTES, memory)).expect("a region");
        moves(&side, &mr, named, seen);
        let dmabuf = Some(Dmabuf { fd, offset: 4096 });
        let elsewhere = map(self::dmabuf(), libc::PROT_NONE);
        let within = MrRequest {
            dmabuf,
            ..request(elsewhere.wrapping_add(4096), BYTES - 4096, memory)
        };
        let by_dmabuf = register(&side, &within);
        // SAFETY: close(2): the descriptor is not used any more.
        assert_eq!(unsafe { libc::close(fd) }, 0);
        if side.info.api_version() < Version::DMABUF {
            assert_eq!(by_dmabuf.err(), Some(Errno::EOPNOTSUPP));
            continue;
        }
        let mr = by_dmabuf.expect("a region");
        moves(
            &side,
            &mr,
            elsewhere.wrapping_add(4096),
            seen.wrapping_add(4096),
        );
    }
    let other = request(map(dmabuf(), libc::PROT_NONE), BYTES, Whose::Rocr);
    assert_eq!(register(&side, &other).err(), Some(Errno::ENOSYS));
}

/// `EFA_EMU_LACKS=cuda,dmabuf,write`.
pub(crate) fn without_some(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    let fd = dmabuf();
    let named = map(fd, libc::PROT_NONE);
    let cuda = register(&side, &request(named, BYTES, Whose::Cuda(0)));
    assert_eq!(cuda.err(), Some(Errno::ENOSYS));
    let neuron = request(named, BYTES, Whose::Neuron(-1));
    let within = MrRequest {
        dmabuf: Some(Dmabuf { fd, offset: 0 }),
        ..neuron
    };
    assert_eq!(register(&side, &within).err(), Some(Errno::EOPNOTSUPP));
    register(&side, &neuron).expect("by address");
    let setup = super::options::setup(actor);
    let asked = setup.set_bool(BoolOption::CudaApiPermitted, false);
    assert_eq!(asked, Ok(None), "no CUDA");
    let emulated = |option| setup.get_bool(option);
    assert_eq!(emulated(BoolOption::EfaEmulatedWrite), Ok(Some(true)));
    assert_eq!(emulated(BoolOption::EfaEmulatedRead), Ok(Some(false)));
}
