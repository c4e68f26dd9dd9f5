//! Strings that a caller may keep for ever: the tables of the plugins hand out `char *` that nobody
//! frees (protocol 2a.1, getProperties). Each text is made once and never freed, so that asking again
//! costs nothing and init/fini in a loop does not leak.

use core::ffi::CStr;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

static STRINGS: Mutex<Vec<&'static CStr>> = Mutex::new(Vec::new());

/// The one copy of `text`, up to its first NUL.
pub(crate) fn intern(text: &str) -> &'static CStr {
    let text = text.split('\0').next().unwrap_or_default();
    let mut strings = STRINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = strings
        .iter()
        .find(|known| known.to_bytes() == text.as_bytes())
    {
        return found;
    }
    let made: &'static CStr = Box::leak(CString::new(text).unwrap_or_default().into_boxed_c_str());
    strings.push(made);
    made
}

#[cfg(test)]
mod tests {
    use super::intern;

    #[test]
    fn a_text_is_made_once_and_ends_at_a_nul() {
        assert_eq!(intern("eth0").as_ptr(), intern("eth0").as_ptr());
        assert_eq!(intern("eth\0one").to_bytes(), b"eth");
        assert_ne!(intern("eth1").as_ptr(), intern("eth0").as_ptr());
    }
}
