//! The words that cross the C ABI instead of pointers (decision 29).
//!
//! A communicator, request or memory handle is one 64-bit number:
//!
//! ```text
//!  63  62 61      54 53                 32 31                              0
//! +------+----------+---------------------+--------------------------------+
//! | kind |  domain  |        slot         |    generation xor salt         |
//! +------+----------+---------------------+--------------------------------+
//! ```
//!
//! `kind` is never 0, so a word is never 0 or 1 (`NULL` and the "completion optional" mark of
//! protocol 2a.2). A stale word fails the generation check of the table behind it; the salt is
//! drawn for each domain, so that a word of an earlier instance of the transport fails as well.

/// Domains that can live at once in one transport: the field has eight bits.
pub(crate) const DOMAINS_MAX: usize = 1 << DOMAIN_BITS;

const KIND_SHIFT: u32 = 62;
const DOMAIN_SHIFT: u32 = 54;
const DOMAIN_BITS: u32 = 8;
const SLOT_SHIFT: u32 = 32;
const SLOT_MASK: u64 = (1 << (DOMAIN_SHIFT - SLOT_SHIFT)) - 1;

const KIND_COMM: u64 = 1;
const KIND_REQ: u64 = 2;
const KIND_MR: u64 = 3;

/// A communicator, as the plugins hand it to their callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommWord(u64);

/// A request, as the plugins hand it to their callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReqWord(u64);

/// A registered region, as the plugins hand it to their callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MrWord(u64);

/// The fields of a word whose kind was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Index of the domain in the transport.
    pub(crate) domain: usize,
    /// Slot in the table of that domain.
    pub(crate) slot: u32,
    /// Generation of the slot, the domain's salt still on it.
    pub(crate) salted: u32,
}

const fn low32(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn pack(kind: u64, parts: Parts) -> Option<u64> {
    let (domain, slot) = (parts.domain as u64, u64::from(parts.slot));
    (parts.domain < DOMAINS_MAX && slot <= SLOT_MASK).then_some(
        kind << KIND_SHIFT | domain << DOMAIN_SHIFT | slot << SLOT_SHIFT | u64::from(parts.salted),
    )
}

const fn unpack(kind: u64, word: u64) -> Option<Parts> {
    if word >> KIND_SHIFT != kind {
        return None;
    }
    let domain = low32(word >> DOMAIN_SHIFT) as usize & (DOMAINS_MAX - 1);
    let slot = low32(word >> SLOT_SHIFT & SLOT_MASK);
    Some(Parts {
        domain,
        slot,
        salted: low32(word),
    })
}

macro_rules! word {
    ($name:ident, $kind:expr) => {
        impl $name {
            /// The number that the caller keeps; never 0 or 1.
            #[must_use]
            pub const fn to_bits(self) -> u64 {
                self.0
            }

            /// A number that a caller brought back, unchecked: the call that takes it does.
            #[must_use]
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// The word of a slot; `None` when the slot does not fit its field.
            pub(crate) fn pack(parts: Parts) -> Option<Self> {
                pack($kind, parts).map(Self)
            }

            /// The fields; `None` for a word of another kind.
            pub(crate) const fn parts(self) -> Option<Parts> {
                unpack($kind, self.0)
            }
        }
    };
}

word!(CommWord, KIND_COMM);
word!(ReqWord, KIND_REQ);
word!(MrWord, KIND_MR);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_fields_and_are_never_zero_or_one() {
        for domain in [0, 1, DOMAINS_MAX - 1] {
            for slot in [0, 1, 0x3F_FFFF] {
                for salted in [0, 1, u32::MAX] {
                    let parts = Parts {
                        domain,
                        slot,
                        salted,
                    };
                    let word = ReqWord::pack(parts).unwrap();
                    assert_eq!(word.parts(), Some(parts));
                    assert!(word.to_bits() > 1);
                }
            }
        }
    }

    #[test]
    fn a_word_of_another_kind_is_refused() {
        let parts = Parts {
            domain: 3,
            slot: 7,
            salted: 9,
        };
        let comm = CommWord::pack(parts).unwrap();
        assert_eq!(ReqWord::from_bits(comm.to_bits()).parts(), None);
        assert_eq!(MrWord::from_bits(comm.to_bits()).parts(), None);
        for junk in [0, 1, u64::MAX >> 2] {
            assert_eq!(CommWord::from_bits(junk).parts(), None);
        }
    }

    #[test]
    fn a_slot_or_domain_beyond_its_field_is_refused() {
        assert_eq!(
            CommWord::pack(Parts {
                domain: DOMAINS_MAX,
                slot: 0,
                salted: 0
            }),
            None
        );
        assert_eq!(
            CommWord::pack(Parts {
                domain: 0,
                slot: 1 << 22,
                salted: 0
            }),
            None
        );
    }
}
