//! Where blocks come from: the heap, or pages registered with every rail.

use crate::freelist::layout::BlockLayout;
use alloc::boxed::Box;
use alloc::vec;
use core::convert::Infallible;
use core::fmt;

/// A stretch of memory that stays where it is until dropped.
pub trait Block {
    /// The address of the first byte.
    fn address(&self) -> usize;
    /// How many bytes there are.
    fn bytes(&self) -> usize;
}

/// Provides blocks: allocates them and, where the buffers are for the network, registers them.
pub trait BlockSource {
    /// What comes back: usually memory together with its registration, undone on drop.
    type Block: Block;
    /// Why there is no block.
    type Error;

    /// A block of at least `bytes` bytes, aligned to `align`.
    ///
    /// # Errors
    ///
    /// No memory, or the registration failed; nothing of the attempt may be left behind.
    fn block(&mut self, bytes: usize, align: usize) -> Result<Self::Block, Self::Error>;
}

/// The block is smaller than it should be, or not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCovered {
    /// What was asked for.
    pub layout: BlockLayout,
    /// Where the block starts.
    pub address: usize,
    /// How long it is.
    pub bytes: usize,
}

impl fmt::Display for NotCovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "block of {} bytes at {:#x} does not do for a freelist that asked for {} bytes aligned \
             to {}: the block source is wrong",
            self.bytes, self.address, self.layout.bytes, self.layout.align
        )
    }
}

impl core::error::Error for NotCovered {}

impl From<Infallible> for NotCovered {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Blocks from the heap, zeroed, registered with nobody: for simulators, tests and records.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapBlocks;

/// A block from the heap.
#[derive(Debug)]
pub struct HeapBlock {
    memory: Box<[u8]>,
    start: usize,
    bytes: usize,
}

impl HeapBlock {
    /// The bytes of the block.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.memory
            .get(self.start..)
            .and_then(|tail| tail.get(..self.bytes))
            .unwrap_or(&[])
    }

    /// The bytes of the block, to change.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        self.memory
            .get_mut(self.start..)
            .and_then(|tail| tail.get_mut(..bytes))
            .unwrap_or(&mut [])
    }
}

impl Block for HeapBlock {
    fn address(&self) -> usize {
        self.as_slice().as_ptr().addr()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl BlockSource for HeapBlocks {
    type Block = HeapBlock;
    type Error = NotCovered;

    fn block(&mut self, bytes: usize, align: usize) -> Result<HeapBlock, NotCovered> {
        // The heap aligns a byte to nothing: take more, and start where it fits.
        let memory = vec![0; bytes.saturating_add(align)].into_boxed_slice();
        let start = memory.as_ptr().align_offset(align);
        Ok(HeapBlock {
            memory,
            start,
            bytes,
        })
    }
}
