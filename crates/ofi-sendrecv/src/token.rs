//! Names of operations, as the port hands them back with completions.

use ofi_pools::Key;
use ofi_rdma::{OpKind, Token};

/// What an operation does: one libfabric call each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `fi_tsend` of the connect message.
    Connect,
    /// `fi_trecv` for a connect message.
    Await,
    /// `fi_tsend` of a message.
    Send,
    /// `fi_trecv` of a message.
    Recv,
    /// `fi_read` of the caller's own buffer.
    Flush,
}

const OPS: [Op; 5] = [Op::Connect, Op::Await, Op::Send, Op::Recv, Op::Flush];

const _: () = {
    let mut i = 0;
    while i < OPS.len() {
        assert!(OPS[i] as usize == i, "in the order of the discriminants");
        i += 1;
    }
};

impl Op {
    /// Whether it belongs to a communicator itself, not to a request.
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::Connect | Self::Await)
    }

    /// What failures call it.
    pub(crate) const fn kind(self) -> OpKind {
        match self {
            Self::Connect => OpKind::Conn,
            Self::Await => OpKind::AwaitConn,
            Self::Send => OpKind::TaggedSend,
            Self::Recv => OpKind::TaggedRecv,
            Self::Flush => OpKind::Flush,
        }
    }
}

/// Slots a token can name.
pub(crate) const SLOTS_MAX: u32 = 1 << 29;

/// Token layout: `op:3 | slot:29 | generation:32`.
const OP_SHIFT: u32 = 61;
const SLOT_SHIFT: u32 = 32;

/// What a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) op: Op,
    /// A communicator for connect messages, a request for the rest.
    pub(crate) owner: Key,
}

impl Named {
    pub(crate) const fn token(self) -> Token {
        let op = (self.op as u64) << OP_SHIFT;
        let slot = ((self.owner.index() & (SLOTS_MAX - 1)) as u64) << SLOT_SHIFT;
        Token(op | slot | self.owner.generation() as u64)
    }

    /// `None` for a word that no operation has.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is masked to its width"
    )]
    pub(crate) const fn of(token: Token) -> Option<Self> {
        let word = token.0;
        let op = (word >> OP_SHIFT) as usize;
        if op >= OPS.len() {
            return None;
        }
        let slot = (word >> SLOT_SHIFT) as u32 & (SLOTS_MAX - 1);
        Some(Self {
            op: OPS[op],
            owner: Key::new(slot, word as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_name_what_they_were_made_of(op in 0..5usize, slot in 0..SLOTS_MAX, generation: u32) {
            let named = Named { op: OPS[op], owner: Key::new(slot, generation) };
            prop_assert_eq!(Named::of(named.token()), Some(named));
        }

        #[test]
        fn any_word_is_a_token_or_none(word: u64) {
            match Named::of(Token(word)) {
                Some(named) => prop_assert_eq!(named.token(), Token(word)),
                None => prop_assert!(word >> 61 >= 5),
            }
        }
    }
}
