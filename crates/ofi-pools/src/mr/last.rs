//! The shortcut: most requests are for the region that answered the request before.

use crate::mr::answer::Handle;
use crate::mr::request::{Plain, Request, Span};

/// The region hit last, in the form in which it is compared fastest: two words of its range, and two that say
/// what memory it is. Memory in a dma-buf is never here.
pub(super) struct LastHit {
    span: Span,
    plain: Plain,
    pub(super) handle: Handle,
    /// References taken since it is here, which its entry does not know of yet.
    pub(super) taken: u64,
}

impl LastHit {
    /// Covers nothing: every range has a byte.
    pub(super) const NONE: Self = Self {
        span: Span { start: 0, end: 0 },
        plain: Plain { access: 0, what: 0 },
        handle: Handle::from_bits(0),
        taken: 0,
    };

    pub(super) const fn of(span: Span, plain: Plain, handle: Handle) -> Self {
        Self {
            span,
            plain,
            handle,
            taken: 0,
        }
    }

    #[inline(always)]
    pub(super) const fn answers(&self, request: &Request) -> bool {
        let plain = request.plain();
        self.span.covers(request.span)
            && plain.access == self.plain.access
            && plain.what == self.plain.what
    }
}
