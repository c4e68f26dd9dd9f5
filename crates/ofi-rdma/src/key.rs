//! Names of things: communicators and requests for callers, operations for ports.

use crate::error::OpKind;
use crate::port::{Lane, Token};
use ofi_pools::Key;

macro_rules! public_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Carries a generation: a key of something that is gone names nothing, ever again.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub(crate) Key);

        impl $name {
            /// The key as one word.
            #[must_use]
            pub const fn to_bits(self) -> u64 {
                self.0.to_bits()
            }

            /// The key that [`Self::to_bits`] made; any other word is a key that names nothing.
            #[must_use]
            pub const fn from_bits(bits: u64) -> Self {
                Self(Key::from_bits(bits))
            }

            /// Dense slot number, for tables beside the engine's.
            #[must_use]
            pub const fn index(self) -> u32 {
                self.0.index()
            }

            /// Generation of the slot.
            #[must_use]
            pub const fn generation(self) -> u32 {
                self.0.generation()
            }
        }
    };
}

public_key! {
    /// Names a listener, a send communicator or a receive communicator.
    CommKey
}

public_key! {
    /// Names a request: what `test` polls.
    ReqKey
}

/// Slot and generation, `12.3`: what is written wherever a request is told of.
impl core::fmt::Display for ReqKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.index(), self.generation())
    }
}

/// Slots a token can name: 26 bits, which is 2^18 communicators with 128 requests and more.
pub(crate) const SLOTS_MAX: u32 = 1 << 26;

/// Token layout: `kind:4 | rail:2 | slot:26 | generation:32`.
const KIND_SHIFT: u32 = 60;
const RAIL_SHIFT: u32 = 58;
const RAIL_MASK: u64 = 3;
const SLOT_SHIFT: u32 = 32;

const KINDS: [OpKind; 10] = [
    OpKind::Conn,
    OpKind::ConnResp,
    OpKind::Ctrl,
    OpKind::Close,
    OpKind::Eager,
    OpKind::Write,
    OpKind::EagerCopy,
    OpKind::Flush,
    OpKind::Put,
    OpKind::Get,
];

/// What a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) op: OpKind,
    pub(crate) rail: u8,
    /// A communicator for CONN, `CONN_RESP` and CLOSE, a request for the rest.
    pub(crate) owner: Key,
}

impl Named {
    pub(crate) const fn token(self) -> Token {
        let kind = (self.op as u64) << KIND_SHIFT;
        let rail = (self.rail as u64 & RAIL_MASK) << RAIL_SHIFT;
        let slot = ((self.owner.index() & (SLOTS_MAX - 1)) as u64) << SLOT_SHIFT;
        Token(kind | rail | slot | self.owner.generation() as u64)
    }

    /// The lane that it is on: control messages go by control rails.
    #[inline]
    pub(crate) const fn lane(self) -> Lane {
        if self.op.is_own() || matches!(self.op, OpKind::Ctrl) {
            Lane::control(self.rail)
        } else {
            Lane::data(self.rail)
        }
    }

    /// What a word names; `None` for one that no operation has. What it names may not exist.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is masked to its width"
    )]
    #[inline]
    pub(crate) fn of(token: Token) -> Option<Self> {
        let word = token.0;
        let op = *KINDS.get((word >> KIND_SHIFT) as usize)?;
        let slot = (word >> SLOT_SHIFT) as u32 & (SLOTS_MAX - 1);
        Some(Self {
            op,
            rail: (word >> RAIL_SHIFT & RAIL_MASK) as u8,
            owner: Key::new(slot, word as u32),
        })
    }
}

const _: () = {
    assert!(
        crate::limits::MAX_RAILS as u64 <= RAIL_MASK + 1,
        "a token has two bits for the rail"
    );
    let mut i = 0;
    while i < KINDS.len() {
        assert!(
            KINDS[i] as usize == i,
            "KINDS is in the order of the discriminants"
        );
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_name_what_they_were_made_of(kind in 0..KINDS.len(), rail in 0..4u8, slot in 0..SLOTS_MAX, generation: u32) {
            let named = Named { op: KINDS[kind], rail, owner: Key::new(slot, generation) };
            prop_assert_eq!(Named::of(named.token()), Some(named));
        }

        #[test]
        fn any_word_is_a_token_or_none(word: u64) {
            let known = word >> 60 < KINDS.len() as u64;
            prop_assert_eq!(Named::of(Token(word)).map(Named::token), known.then_some(Token(word)));
        }
    }
}
