//! The description of a layout: which parts, how wide, from the top bit down.

use core::fmt;

/// One part of a layout: its name and its width in bits (0 = absent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What the part is called in diagrams and messages, such as `comm_id`.
    pub name: &'static str,
    /// Width in bits, 0..=64.
    pub bits: u32,
}

/// The parts of a word from the most significant down.
///
/// Prints as a diagram in one line:
///
/// ```
/// use ofi_imm::Nseg4Comm18Seq10;
/// extern crate alloc;
/// use alloc::string::ToString;
/// assert_eq!(Nseg4Comm18Seq10::SHAPE.to_string(), "nseg:4 | comm_id:18 | seq:10");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Four parts, top first; an absent one has width 0.
    pub parts: [Part; 4],
}

impl Shape {
    /// A shape whose widths add up to `word_bits`.
    ///
    /// # Panics
    /// When they do not: evaluated in a constant, that is a compile error.
    #[must_use]
    pub const fn new(parts: [Part; 4], word_bits: u32) -> Self {
        let shape = Self { parts };
        assert!(
            shape.bits() == word_bits,
            "the widths of a layout must add up to its word"
        );
        shape
    }

    /// The width of the whole word in bits.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        let [a, b, c, d] = &self.parts;
        a.bits
            .saturating_add(b.bits)
            .saturating_add(c.bits)
            .saturating_add(d.bits)
    }

    /// The bytes of CQ data that a provider must carry for this word.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// The position of the lowest bit of part `index` (0..=3); 0 for the last part and beyond.
    #[must_use]
    pub const fn lowest_bit(&self, index: usize) -> u32 {
        let mut sum: u32 = 0;
        let mut below = index.saturating_add(1);
        while below < self.parts.len() {
            sum = sum.saturating_add(self.parts[below].bits);
            below += 1;
        }
        sum
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for part in self.parts.iter().filter(|part| part.bits > 0) {
            write!(f, "{separator}{}:{}", part.name, part.bits)?;
            separator = " | ";
        }
        Ok(())
    }
}
