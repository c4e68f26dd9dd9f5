//! What the tables are called: "Libfabric", or an older name of the reference's that the user asks for.
//!
//! NCCL compares the names of its plugins with `NCCL_NET` before it calls anything, so the name has to
//! be right when the library has been loaded. A function in `.init_array` sees to it: it compares
//! strings and writes pointers, allocates nothing, and cannot fail. An entry of the environment that
//! another thread changes at this moment is the only hazard, and the loader's caller's.

use core::ffi::{CStr, c_char};

/// What all tables are called, unless the user says otherwise.
pub(crate) const NAME: &CStr = c"Libfabric";

/// Values of `NCCL_NET` that the tables take for their name (protocol 2a.3, field report ENV-21).
const FORMER: [&CStr; 3] = [c"AWS Libfabric", c"OFI", c"ofi"];

/// glibc calls what is in this section when the library is loaded, before dlopen(3) returns.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = take_name;

extern "C" fn take_name() {
    // SAFETY: a name that ends; what comes back is NULL or a string that ends.
    let value = unsafe { libc::getenv(c"NCCL_NET".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: it is not NULL.
    let value = unsafe { CStr::from_ptr(value) };
    if let Some(name) = wanted(value) {
        // SAFETY: nobody but the loader knows the library yet.
        unsafe { rename(name) };
    }
}

fn wanted(value: &CStr) -> Option<&'static CStr> {
    FORMER.into_iter().find(|name| *name == value)
}

/// # Safety
/// No one else reads or writes the tables meanwhile.
unsafe fn rename(name: &'static CStr) {
    let first_words: [*mut *const c_char; 7] = [
        crate::ncclNetPlugin_v6.as_ptr().cast(),
        crate::ncclNetPlugin_v7.as_ptr().cast(),
        crate::ncclNetPlugin_v8.as_ptr().cast(),
        crate::ncclNetPlugin_v9.as_ptr().cast(),
        crate::ncclNetPlugin_v10.as_ptr().cast(),
        crate::ncclNetPlugin_v11.as_ptr().cast(),
        crate::ncclNetPlugin_v12.as_ptr().cast(),
    ];
    for word in first_words {
        // SAFETY: the first word of every table is its name (checked in `layout`); the tables live in
        // writable data.
        unsafe { word.write(name.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn only_names_the_reference_had_are_taken() {
        assert_eq!(wanted(c"OFI"), Some(c"OFI"));
        assert_eq!(wanted(c"ofi"), Some(c"ofi"));
        assert_eq!(wanted(c"AWS Libfabric"), Some(c"AWS Libfabric"));
        for other in [
            c"",
            c"Libfabric",
            c"IB",
            c"Socket",
            c"OFI2",
            c"aws libfabric",
        ] {
            assert_eq!(wanted(other), None);
        }
    }
}
