//! The shortcut: most requests are for the region that answered the request before.

use crate::mr::answer::Handle;
use crate::mr::request::{Class, Request, Span};

/// The region hit last, in the form in which it is compared fastest. Only regions without a dma-buf.
pub(super) struct LastHit {
    start: u64,
    /// 0 when there is none: no request has fewer bytes.
    bytes: u64,
    access: u64,
    kind: u32,
    device: u32,
    pub(super) handle: Handle,
}

impl LastHit {
    pub(super) const NONE: Self = Self {
        start: 0,
        bytes: 0,
        access: 0,
        kind: 0,
        device: 0,
        handle: Handle::from_bits(0),
    };

    pub(super) fn of(span: Span, class: Class, handle: Handle) -> Self {
        if class.dmabuf.is_some() {
            return Self::NONE;
        }
        Self {
            start: span.start,
            bytes: span.end - span.start,
            access: class.access,
            kind: class.kind,
            device: class.device,
            handle,
        }
    }

    #[inline]
    pub(super) const fn answers(&self, request: &Request) -> bool {
        let Request {
            address,
            bytes,
            attr,
        } = request;
        // First that the request has 1 to `self.bytes` bytes, so that the difference is one.
        bytes.wrapping_sub(1) < self.bytes
            && address.wrapping_sub(self.start) <= self.bytes.wrapping_sub(*bytes)
            && attr.access == self.access
            && attr.kind == self.kind
            && attr.device == self.device
            && attr.dmabuf.is_none()
    }
}
