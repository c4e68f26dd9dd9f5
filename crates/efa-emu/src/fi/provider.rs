//! What libfabric finds: a provider named "efa" (fi_provider(3)).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::Ipv6Addr;
use core::ptr;
use std::sync::OnceLock;

use ofi_sys::bindings as b;
use ofi_sys::errno as e;

use super::fabric;
use super::guard::guarded;
use crate::attrs::{Allocate, Flavor, Wanted, list};
use crate::config::unknown;
use crate::engine::address::LEN;
use crate::engine::device;
use crate::engine::process::Process;
use crate::generation::Generation;

/// The newest API that a caller may ask for: whatever there will be.
const API_VERSION: u32 = (2 << 16) | 99;
const NAME: &CStr = c"efa";

/// A provider that libfabric may write to (its `context`).
struct Provider(core::cell::UnsafeCell<b::fi_provider>);

// SAFETY: written once before libfabric gets it, and by libfabric alone after.
unsafe impl Sync for Provider {}
// SAFETY: as above.
unsafe impl Send for Provider {}

static PROVIDER: OnceLock<Provider> = OnceLock::new();

/// The entry point that libfabric looks for in every file of FI_PROVIDER_PATH.
///
/// # Safety
/// Called by libfabric.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fi_prov_ini() -> *mut b::fi_provider {
    let provider = PROVIDER.get_or_init(|| {
        Provider(core::cell::UnsafeCell::new(b::fi_provider {
            version: loaded_by().provider_version(),
            fi_version: API_VERSION,
            context: b::fi_context::default(),
            name: NAME.as_ptr(),
            getinfo: Some(getinfo),
            fabric: Some(open_fabric),
            cleanup: Some(cleanup),
        }))
    });
    provider.0.get()
}

/// A function of the libfabric that loaded us, which is in the process already.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: dlopen(3) with RTLD_NOLOAD finds what is loaded, by soname, and loads nothing.
    let library = unsafe {
        libc::dlopen(
            c"libfabric.so.1".as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        )
    };
    // A program that is linked with libfabric statically exports it itself.
    let scope = if library.is_null() {
        libc::RTLD_DEFAULT
    } else {
        library
    };
    // SAFETY: dlsym(3): a handle that was just given, and never closed.
    let address = unsafe { libc::dlsym(scope, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn loaded_by() -> Generation {
    let Some(version) = symbol(c"fi_version") else {
        return Generation::of_packed((1 << 16) | 17);
    };
    // SAFETY: fi_version(3) of libfabric.
    let version = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(version) };
    Generation::of_packed(version())
}

fn allocate() -> Result<Allocate, c_int> {
    let dupinfo = symbol(c"fi_dupinfo").ok_or(e::FI_ENODATA)?;
    // SAFETY: fi_dupinfo(3) of libfabric, the newest version of it: structs of that layout.
    Ok(unsafe { core::mem::transmute::<*mut c_void, Allocate>(dupinfo) })
}

/// The process' state; a wrong environment is told once, and there is no EFA then.
#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say why it has no NICs"
)]
fn process() -> Result<&'static Process, c_int> {
    static TOLD: OnceLock<()> = OnceLock::new();
    static WARNED: OnceLock<()> = OnceLock::new();
    WARNED.get_or_init(|| {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        for name in unknown(names) {
            eprintln!("efa-emu: {name} is set and means nothing (crates/efa-emu/README.md has all variables)");
        }
    });
    match Process::get(loaded_by) {
        Ok(process) => Ok(process),
        Err(reason) => {
            TOLD.get_or_init(|| eprintln!("efa-emu: no NICs: {reason}"));
            Err(e::FI_ENODATA)
        }
    }
}

/// Says with which seed this process does the same again, once, if nobody chose one: when it opens
/// something, for who only looks at NICs (fi_info) draws nothing.
#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say what its seed is"
)]
pub(super) fn tell_seed(process: &Process) {
    static TOLD: OnceLock<()> = OnceLock::new();
    let config = process.config();
    if config.says_seed {
        let (seed, name) = (config.seed, &config.process);
        TOLD.get_or_init(|| {
            eprintln!("efa-emu: EFA_EMU_SEED={seed} does this again (process {name})");
        });
    }
}

/// A GID in text, where a node is named.
///
/// # Safety
/// A text that ends, or NULL.
unsafe fn node_address(node: *const c_char) -> Result<Option<[u8; LEN]>, c_int> {
    if node.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(node) };
    let gid: Option<Ipv6Addr> = text.to_str().ok().and_then(|text| text.parse().ok());
    let mut address = [0; LEN];
    address[..16].copy_from_slice(&gid.ok_or(e::FI_ENODATA)?.octets());
    Ok(Some(address))
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const b::fi_info,
    info: *mut *mut b::fi_info,
) -> c_int {
    /// `FI_SOURCE`: the node is this side.
    const SOURCE: u64 = ofi_sys::consts::FI_SOURCE;
    guarded(|| {
        let process = process()?;
        let allocate = allocate()?;
        // SAFETY: fi_getinfo(3): hints or NULL.
        let mut wanted = unsafe { Wanted::read(hints) };
        // SAFETY: fi_getinfo(3): a text or NULL.
        let node = unsafe { node_address(node) }?;
        let mut destination = wanted.as_ref().and_then(|wanted| wanted.destination);
        match node {
            Some(node) if flags & SOURCE != 0 => {
                wanted.get_or_insert_with(Wanted::anything).source = Some(node);
            }
            Some(node) => destination = Some(node),
            None => {}
        }
        let mut first = ptr::null_mut::<b::fi_info>();
        // From the last to the first, each before those that are there.
        for answer in list(process, wanted.as_ref()).into_iter().rev() {
            // SAFETY: fi_dupinfo(3) of the library that asks.
            let entry = unsafe { answer.write(process, allocate, (version, destination.as_ref())) };
            if entry.is_null() {
                break;
            }
            // SAFETY: just made, and ours.
            unsafe { (*entry).next = first };
            first = entry;
        }
        if first.is_null() {
            return Err(e::FI_ENODATA);
        }
        // SAFETY: fi_getinfo(3): where the list goes.
        unsafe { info.write(first) };
        Ok(())
    })
}

unsafe extern "C" fn open_fabric(
    attr: *mut b::fi_fabric_attr,
    fabric: *mut *mut b::fid_fabric,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let process = process()?;
        if attr.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_fabric(3): attributes with a name, or none.
        let name = unsafe { (*attr).name };
        if name.is_null() {
            return Err(e::FI_ENODATA);
        }
        // SAFETY: as above: a text that ends.
        let name = unsafe { CStr::from_ptr(name) };
        let flavor = Flavor::named(name).ok_or(e::FI_ENODATA)?;
        if !Flavor::of(process.generation()).contains(&flavor) {
            return Err(e::FI_ENODATA);
        }
        // SAFETY: fi_fabric(3): where the object goes.
        unsafe { fabric::open(process, flavor, fabric, context) }
    })
}

/// The process ends, or libfabric is unloaded.
unsafe extern "C" fn cleanup() {
    let _code = guarded(|| {
        device::stop();
        if let Some(process) = Process::existing() {
            process.count_traffic();
            process.remove_file();
        }
        Ok(())
    });
}
