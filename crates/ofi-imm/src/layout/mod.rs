//! What all layouts have in common, and one file for each family.
//!
//! A family fixes which parts there are; its widths are const parameters, so a layout of your own
//! is a type alias. Widths that do not add up to the word fail to compile.

pub(crate) mod nseg_comm_seq;
pub(crate) mod nseg_recv_comm_seq;
pub(crate) mod rkey_comm_seq;

use crate::{CqDataError, Shape};

/// A layout of the immediate word, for code that is generic over layouts.
///
/// The families of this crate offer the same as `const` functions of their own; a transport that
/// knows its layout calls those. Implement this for a family that is not here.
///
/// Laws, which the tests of this crate hold against every shipped layout:
/// `decode` is total; `to_word(decode(w)) == w` for every `w` whose spare bits are zero;
/// `from_cq_data(to_cq_data(w, n)?, n) == Ok(w)` for every width `n` that carries the word.
pub trait Layout {
    /// `u32` or `u64`.
    type Word: Copy + PartialEq + Into<u64>;
    /// The decoded parts.
    type Fields: Copy + PartialEq;

    /// The parts and their widths, top first.
    const SHAPE: Shape;

    /// The parts of a word; total.
    fn decode(word: Self::Word) -> Self::Fields;

    /// The word with these parts, spare bits zero: the inverse of [`Layout::decode`].
    fn to_word(fields: Self::Fields) -> Self::Word;

    /// The word as CQ data of a provider with `cq_data_size` bytes.
    ///
    /// # Errors
    /// [`CqDataError::TooNarrow`] when the provider would cut the word.
    fn to_cq_data(word: Self::Word, cq_data_size: usize) -> Result<u64, CqDataError>;

    /// The word in the CQ data of a completion of a provider with `cq_data_size` bytes.
    ///
    /// # Errors
    /// [`CqDataError::TooNarrow`] when the provider cuts the word,
    /// [`CqDataError::ForeignBits`] when `data` holds more than the word.
    fn from_cq_data(data: u64, cq_data_size: usize) -> Result<Self::Word, CqDataError>;
}

/// A 32-bit word as CQ data.
#[inline(always)]
pub(crate) const fn wide_word(word: u32) -> u64 {
    word as u64
}

/// The low half of a word.
#[inline(always)]
pub(crate) const fn low_word(data: u64) -> u32 {
    let [a, b, c, d, ..] = data.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Implements the CQ data conversions, which differ only in the word's type.
macro_rules! cq_data_conversions {
    ($word:ty, $widen:path, $narrow:path) => {
        /// The layout's description behind a reference that errors can hold.
        const SHAPE_REF: &'static Shape = &Self::SHAPE;

        /// Whether a provider carries this word whole: ask once, when choosing the provider.
        ///
        /// # Errors
        /// [`CqDataError::TooNarrow`] names the parts that would be cut.
        pub const fn check_cq_data_size(cq_data_size: usize) -> Result<(), CqDataError> {
            cq_data::check(Self::SHAPE_REF, cq_data_size)
        }

        /// The word as CQ data (`fi_writedata`, `fi_senddata`) of a provider that carries
        /// `cq_data_size` bytes (`domain_attr.cq_data_size`).
        ///
        /// # Errors
        /// [`CqDataError::TooNarrow`] when the provider would cut the word.
        #[inline]
        pub const fn to_cq_data(word: $word, cq_data_size: usize) -> Result<u64, CqDataError> {
            match cq_data::check(Self::SHAPE_REF, cq_data_size) {
                Ok(()) => Ok($widen(word)),
                Err(error) => Err(error),
            }
        }

        /// The word in the `data` of a completion (`fi_cq_data_entry.data`) of a provider that
        /// carries `cq_data_size` bytes; what stands above those bytes is ignored, since it did
        /// not come from the peer.
        ///
        /// # Errors
        /// [`CqDataError::TooNarrow`] when the provider cuts the word,
        /// [`CqDataError::ForeignBits`] when more than the word was carried.
        #[inline]
        pub const fn from_cq_data(data: u64, cq_data_size: usize) -> Result<$word, CqDataError> {
            match cq_data::take(Self::SHAPE_REF, data, cq_data_size) {
                Ok(word) => Ok($narrow(word)),
                Err(error) => Err(error),
            }
        }

        /// What would be left of the word behind a provider that carries `cq_data_size` bytes:
        /// the lowest bytes. For diagnosis; a transport refuses such a provider.
        #[must_use]
        pub const fn truncated(word: $word, cq_data_size: usize) -> u64 {
            cq_data::carried($widen(word), cq_data_size)
        }
    };
}
pub(crate) use cq_data_conversions;

/// Implements [`Layout`] by the family's own functions.
macro_rules! impl_layout {
    ($word:ty, $fields:ty) => {
        type Word = $word;
        type Fields = $fields;

        const SHAPE: Shape = Self::SHAPE;

        fn decode(word: $word) -> Self::Fields {
            Self::decode(word)
        }

        fn to_word(fields: Self::Fields) -> $word {
            Self::to_word(fields)
        }

        fn to_cq_data(word: $word, cq_data_size: usize) -> Result<u64, CqDataError> {
            Self::to_cq_data(word, cq_data_size)
        }

        fn from_cq_data(data: u64, cq_data_size: usize) -> Result<$word, CqDataError> {
            Self::from_cq_data(data, cq_data_size)
        }
    };
}
pub(crate) use impl_layout;
