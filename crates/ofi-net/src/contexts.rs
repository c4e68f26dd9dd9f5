//! Operation contexts: the `fi_context2` that the provider may use while an operation is in flight,
//! and whose address is all that a completion carries (decision 31).
//!
//! The contexts lie in one reservation of pages, so that the way back from address to operation is a
//! subtraction: an address that is not a context, or a context that is not in use, is told apart
//! without touching memory. Unused ones cost no memory.

use crate::pages::Pages;
use efa_fabric::Context2;
use ofi_pools::Slot;
use ofi_rdma::{Lane, Token};

/// Operations that can be in flight at once on one domain, receives included. Beyond it posting is
/// answered "busy".
const CONTEXTS_MAX: u32 = 1 << 17;

const CONTEXT_BYTES: usize = size_of::<Context2>();
const NIL: u32 = u32::MAX;

/// Whose operation a context carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An operation of the engine that uses no buffer of ours.
    Post(Token),
    /// A control message, sent from a slot of ours that is free again once it completes.
    Control(Token, Slot),
    /// A receive, posted on `lane` with the buffer `slot`.
    Receive(Lane, Slot),
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Free { next: u32 },
    InUse(Owner),
}

/// The contexts of one domain.
#[derive(Debug)]
pub(crate) struct Contexts {
    pages: Pages,
    entries: Vec<Entry>,
    free: u32,
    in_use: u32,
}

impl Contexts {
    /// Reserves address space for all contexts there can be.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub(crate) fn new() -> Result<Self, i32> {
        let pages = Pages::map(CONTEXTS_MAX as usize * CONTEXT_BYTES)?;
        // Without it the first operation would make 2 MiB resident. A kernel without huge pages
        // refuses the advice, which is as good.
        let _advised: bool = pages.small_pages();
        Ok(Self {
            pages,
            entries: Vec::new(),
            free: NIL,
            in_use: 0,
        })
    }

    /// A context for one operation of `owner`; `None` when all are in flight.
    #[inline]
    pub(crate) fn take(&mut self, owner: Owner) -> Option<*mut Context2> {
        let index = match self.entries.get(self.free as usize) {
            Some(&Entry::Free { next }) => core::mem::replace(&mut self.free, next),
            _ => self.grow()?,
        };
        *self.entries.get_mut(index as usize)? = Entry::InUse(owner);
        self.in_use += 1;
        Some(self.address(index))
    }

    /// Ends the operation whose completion carried `context`; `None` for an address that is no
    /// context or is not in use.
    #[inline]
    pub(crate) fn finish(&mut self, context: *mut core::ffi::c_void) -> Option<Owner> {
        let index = self.index(context)?;
        let entry = self.entries.get_mut(index as usize)?;
        let Entry::InUse(owner) = *entry else {
            return None;
        };
        *entry = Entry::Free { next: self.free };
        self.free = index;
        self.in_use -= 1;
        Some(owner)
    }

    /// Whose operation `context` is of, while it is in flight.
    pub(crate) fn owner(&self, context: *mut core::ffi::c_void) -> Option<Owner> {
        match *self.entries.get(self.index(context)? as usize)? {
            Entry::InUse(owner) => Some(owner),
            Entry::Free { .. } => None,
        }
    }

    /// The context of an operation of the engine, to cancel it; `None` when it is over. O(operations
    /// that were in flight at once): for closing.
    pub(crate) fn of_token(&self, token: Token) -> Option<*mut Context2> {
        let is_of = |entry: &Entry| match entry {
            Entry::InUse(Owner::Post(of) | Owner::Control(of, _)) => *of == token,
            Entry::InUse(Owner::Receive(..)) | Entry::Free { .. } => false,
        };
        let index = self.entries.iter().position(is_of)?;
        Some(self.address(u32::try_from(index).ok()?))
    }

    /// Operations in flight.
    #[cfg(test)]
    pub(crate) const fn in_use(&self) -> u32 {
        self.in_use
    }

    #[cold]
    fn grow(&mut self) -> Option<u32> {
        let index = u32::try_from(self.entries.len()).ok()?;
        if index >= CONTEXTS_MAX {
            return None;
        }
        self.entries.push(Entry::Free { next: NIL });
        Some(index)
    }

    fn address(&self, index: u32) -> *mut Context2 {
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "pages are page aligned and contexts a multiple of their alignment apart"
        )]
        self.pages
            .start()
            .wrapping_add(index as usize * CONTEXT_BYTES)
            .cast::<Context2>()
    }

    fn index(&self, context: *mut core::ffi::c_void) -> Option<u32> {
        let offset = context.addr().checked_sub(self.pages.start().addr())?;
        if offset % CONTEXT_BYTES != 0 {
            return None;
        }
        u32::try_from(offset / CONTEXT_BYTES).ok()
    }
}

const _: () = assert!(CONTEXT_BYTES % align_of::<Context2>() == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_names_its_operation_once() {
        let mut contexts = Contexts::new().unwrap();
        let a = contexts.take(Owner::Post(Token(1))).unwrap();
        let b = contexts.take(Owner::Post(Token(2))).unwrap();
        assert_ne!(a, b);
        assert_eq!(contexts.of_token(Token(2)), Some(b));
        assert_eq!(contexts.finish(b.cast()), Some(Owner::Post(Token(2))));
        assert_eq!(contexts.of_token(Token(2)), None, "it is over");
        assert_eq!(contexts.finish(b.cast()), None, "a second completion");
        assert_eq!(contexts.finish(a.cast()), Some(Owner::Post(Token(1))));
        assert_eq!(contexts.in_use(), 0);
        assert_eq!(
            contexts.take(Owner::Post(Token(3))),
            Some(a),
            "the warm one first"
        );
    }

    #[test]
    fn addresses_that_are_no_context_find_nothing() {
        let mut contexts = Contexts::new().unwrap();
        let a = contexts.take(Owner::Post(Token(1))).unwrap().cast::<u8>();
        for stray in [core::ptr::null_mut(), a.wrapping_add(1), a.wrapping_sub(64)] {
            assert_eq!(contexts.finish(stray.cast()), None);
        }
        assert_eq!(
            contexts.finish(a.wrapping_add(64).cast()),
            None,
            "never taken"
        );
        assert_eq!(
            contexts.finish(a.wrapping_add(1 << 30).cast()),
            None,
            "beyond the end"
        );
    }

    #[test]
    fn the_bound_holds_and_what_ends_is_used_again() {
        let mut contexts = Contexts::new().unwrap();
        let mut last = core::ptr::null_mut();
        for i in 0..CONTEXTS_MAX {
            last = contexts.take(Owner::Post(Token(u64::from(i)))).unwrap();
        }
        assert_eq!(contexts.take(Owner::Post(Token(0))), None);
        assert!(contexts.finish(last.cast()).is_some());
        assert_eq!(contexts.take(Owner::Post(Token(0))), Some(last));
    }
}
