//! Between a word and the `u64` that a provider carries as CQ data.
//!
//! A provider says in `domain_attr.cq_data_size` how many bytes of CQ data it carries
//! (`fi_domain(3)`); the rest of the `u64` is not sent. EFA carries 4, tcp 8.

use core::fmt;

use crate::Shape;

/// Why a word cannot travel, or did not arrive, as CQ data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqDataError {
    /// The provider carries fewer bytes than the layout has: its top parts would be cut off.
    TooNarrow {
        /// The layout that was to be carried.
        shape: &'static Shape,
        /// The provider's `domain_attr.cq_data_size` in bytes.
        carried_bytes: usize,
    },
    /// Bits above the layout's word arrived: what the peer sent is in another layout.
    ForeignBits {
        /// The layout that was expected.
        shape: &'static Shape,
        /// The CQ data as the completion held it, cut to what the provider carries.
        data: u64,
    },
}

impl fmt::Display for CqDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooNarrow {
                shape,
                carried_bytes,
            } => {
                write!(
                    f,
                    "the immediate ({shape}) needs {} bytes of CQ data, the provider carries \
                     {carried_bytes} (domain_attr.cq_data_size); it would cut off",
                    shape.bytes(),
                )?;
                write_lost(f, shape, *carried_bytes)?;
                f.write_str(". Choose a provider with wider CQ data, or a narrower layout")
            }
            Self::ForeignBits { shape, data } => write!(
                f,
                "CQ data {data:#x} has bits above the {} of the immediate ({shape}): the peer \
                 uses another layout, or the completion is not one of this transport's. Check \
                 that both sides run the same protocol",
                shape.bits(),
            ),
        }
    }
}

impl core::error::Error for CqDataError {}

/// Names the parts that a provider with `carried_bytes` would cut, wholly or in part.
fn write_lost(f: &mut fmt::Formatter<'_>, shape: &Shape, carried_bytes: usize) -> fmt::Result {
    let carried_bits = carried_bytes.saturating_mul(8);
    for (index, part) in shape.parts.iter().enumerate() {
        let lowest = shape.lowest_bit(index) as usize;
        let width = part.bits as usize;
        let lost = (lowest + width).saturating_sub(carried_bits).min(width);
        if lost > 0 {
            write!(f, " {} ({lost} of {width} bits)", part.name)?;
        }
    }
    Ok(())
}

/// Whether a provider with `carried_bytes` of CQ data carries the whole of `shape`.
#[inline(always)]
pub(crate) const fn check(shape: &'static Shape, carried_bytes: usize) -> Result<(), CqDataError> {
    if carried_bytes < shape.bytes() {
        return Err(CqDataError::TooNarrow {
            shape,
            carried_bytes,
        });
    }
    Ok(())
}

/// The part of `data` that a provider with `carried_bytes` delivers.
#[inline(always)]
pub(crate) const fn carried(data: u64, carried_bytes: usize) -> u64 {
    match carried_bytes {
        0 => 0,
        1..=7 => data & ((1 << (8 * carried_bytes)) - 1),
        _ => data,
    }
}

/// The word in `data`, cut to what the provider carries and free of foreign bits.
#[inline(always)]
pub(crate) const fn take(
    shape: &'static Shape,
    data: u64,
    carried_bytes: usize,
) -> Result<u64, CqDataError> {
    if let Err(error) = check(shape, carried_bytes) {
        return Err(error);
    }
    let data = carried(data, carried_bytes);
    if data.leading_zeros() < 64 - shape.bits() {
        return Err(CqDataError::ForeignBits { shape, data });
    }
    Ok(data)
}
