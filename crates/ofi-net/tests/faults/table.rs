//! Functions of ours in the tables of a provider.
//!
//! Every object of libfabric has pointers to tables of functions (`fi_provider(3)`). [`install`] changes
//! one entry of the provider's table for fabrics; whoever is called in its place gives the domain that was opened
//! tables of its own, and so on.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use efa_fabric::sys::bindings as b;
use efa_fabric::{Caps, Fabric, Hints, Library, MrMode};
use std::ffi::CString;
use std::sync::OnceLock;

/// The functions of one class of objects: the provider's, and ours.
pub(crate) struct Table<T> {
    pair: OnceLock<(usize, usize)>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Copy + 'static> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            pair: OnceLock::new(),
            kind: PhantomData,
        }
    }

    pub(crate) fn original(&self) -> &'static T {
        let (original, _) = self.pair.get().expect("an object was opened before");
        // SAFETY: a table of the provider, which lives as long as its library: for good.
        unsafe { &*core::ptr::with_exposed_provenance(*original) }
    }

    /// Puts a changed copy of the table that `slot` points to in its place.
    ///
    /// # Safety
    /// `slot` is the pointer to a table in an open object; tables begin with their own size.
    pub(crate) unsafe fn hook(&self, slot: &mut *mut T, change: impl FnOnce(&mut T)) {
        let found = *slot;
        let (original, ours) = *self.pair.get_or_init(|| {
            // SAFETY: the caller's promise: the first member of every table.
            let bytes = unsafe { *found.cast::<usize>() }.max(size_of::<T>());
            let copy: &'static mut [u64] = vec![0; bytes.div_ceil(8)].leak();
            let copy = copy.as_mut_ptr().cast::<T>();
            // SAFETY: both have so many bytes, and the copy is new.
            unsafe { copy.cast::<u8>().copy_from(found.cast(), bytes) };
            // SAFETY: just written; nobody else knows it.
            change(unsafe { &mut *copy });
            (found.expose_provenance(), copy.expose_provenance())
        });
        if found.addr() == ours {
            return;
        }
        assert_eq!(
            found.addr(),
            original,
            "one table for all objects of a class"
        );
        *slot = core::ptr::with_exposed_provenance_mut(ours);
    }
}

/// Opens a domain: `fi_domain(3)`.
pub(crate) type OpenDomain = unsafe extern "C" fn(
    *mut b::fid_fabric,
    *mut b::fi_info,
    *mut *mut b::fid_domain,
    *mut c_void,
) -> c_int;

/// Has the provider that `FI_PROVIDER` names open domains by `domain` from now on; `fabrics` keeps its own
/// functions.
pub(crate) fn install(fabrics: &Table<b::fi_ops_fabric>, domain: OpenDomain) {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(std::path::PathBuf::from);
    let library = Library::load(path.as_deref()).expect("libfabric");
    let name = std::env::var("FI_PROVIDER").expect("a provider");
    let name = CString::new(name).expect("a name");
    let modes = MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    let hints = Hints::rdm(Caps::MSG | Caps::RMA)
        .provider(&name)
        .mr_mode(modes);
    let list = hints.query(library).expect("an entry");
    let fabric = Fabric::open(list.first()).expect("a fabric");
    // SAFETY: an open fabric.
    let table = unsafe { (*fabric.as_raw()).ops };
    // SAFETY: as above.
    let copy: &'static b::fi_ops_fabric = Box::leak(Box::new(unsafe { *table }));
    let copy = core::ptr::from_ref(copy).expose_provenance();
    fabrics.pair.set((copy, 0)).expect("installed once");
    make_writable(table.addr());
    // SAFETY: writable now, and no other thread opens anything yet.
    unsafe { (*table).domain = Some(domain) };
}

/// Providers keep their tables on pages that are read-only once they are loaded.
fn make_writable(address: usize) {
    // SAFETY: sysconf(3) takes any name.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page size");
    let start = core::ptr::with_exposed_provenance_mut(address / page * page);
    // SAFETY: mprotect(2): two mapped pages of data (the table may cross their border); nothing relies on
    // their being read-only.
    let code = unsafe {
        libc::mprotect(
            start,
            page + size_of::<b::fi_ops_fabric>(),
            libc::PROT_READ | libc::PROT_WRITE,
        )
    };
    assert_eq!(code, 0, "mprotect: {}", std::io::Error::last_os_error());
}
