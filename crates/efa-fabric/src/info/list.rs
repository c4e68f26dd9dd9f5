//! The list that `fi_getinfo` gives.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use ofi_sys::Library;
use ofi_sys::bindings::fi_info;

use crate::info::Info;

/// The library's answer to [`Hints`](crate::Hints): at least one entry, best first. Freed when
/// dropped.
pub struct InfoList {
    library: &'static Library,
    head: NonNull<fi_info>,
}

// SAFETY: the list is plain memory of the library that nothing else refers to, and it is never
// changed after it was made; fi_freeinfo may be called from any thread.
unsafe impl Send for InfoList {}
// SAFETY: as above; shared references only read it.
unsafe impl Sync for InfoList {}

impl InfoList {
    /// Takes over a list; `None` for null.
    ///
    /// # Safety
    ///
    /// `head` is null, or a list made by this library that nobody else uses or frees.
    pub(crate) unsafe fn from_raw(library: &'static Library, head: *mut fi_info) -> Option<Self> {
        NonNull::new(head).map(|head| Self { library, head })
    }

    /// The entries in the library's order.
    #[must_use]
    pub fn iter(&self) -> InfoIter<'_> {
        InfoIter {
            next: Some(self.head),
            list: PhantomData,
        }
    }

    /// The first entry.
    #[must_use]
    pub fn first(&self) -> &Info {
        // SAFETY: the head is a live fi_info for as long as the list is borrowed.
        unsafe { Info::from_raw(self.head) }
    }

    /// The library that made the list.
    #[must_use]
    pub const fn library(&self) -> &'static Library {
        self.library
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        // SAFETY: the list belongs to this object alone and is freed once, here.
        unsafe { self.library.freeinfo(self.head.as_ptr()) }
    }
}

impl<'a> IntoIterator for &'a InfoList {
    type Item = &'a Info;
    type IntoIter = InfoIter<'a>;

    fn into_iter(self) -> InfoIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for InfoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Iterator over an [`InfoList`].
#[derive(Clone, Debug)]
pub struct InfoIter<'a> {
    next: Option<NonNull<fi_info>>,
    list: PhantomData<&'a InfoList>,
}

impl<'a> Iterator for InfoIter<'a> {
    type Item = &'a Info;

    fn next(&mut self) -> Option<&'a Info> {
        let current = self.next?;
        // SAFETY: `current` is an entry of a list that is borrowed for 'a.
        let info: &'a Info = unsafe { Info::from_raw(current) };
        self.next = NonNull::new(info.raw().next);
        Some(info)
    }
}
