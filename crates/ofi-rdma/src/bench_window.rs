//! The window of a communicator, as its benchmark needs it.

use crate::dialect::Base;
use crate::window;

/// The window that the engine has, of the dialect that it speaks.
#[derive(Debug)]
pub struct Window(window::Window<Base>);

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self(window::Window::new())
    }

    /// Starts our next message with a request; returns its number.
    #[inline]
    pub fn start(&mut self, index: u32) -> u16 {
        self.0.start(index)
    }

    /// The request of a message in progress.
    #[inline]
    #[must_use]
    pub fn active(&self, seq: u16) -> Option<u32> {
        self.0.active(seq)
    }

    /// Our message was taken.
    #[inline]
    pub fn finish(&mut self, seq: u16) {
        self.0.finish(seq);
    }
}
