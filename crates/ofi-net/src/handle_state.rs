//! What connect keeps in the caller's handle between calls (decision 30).
//!
//! ```text
//! byte 64            72            80      84    88
//!      +-------------+-------------+-------+-----+
//!      | comm word   | nonce       | stage |  0  |     all zero: a fresh handle
//!      +-------------+-------------+-------+-----+
//! ```
//!
//! The nonce is drawn for each transport: state that another process, another instance or chance
//! wrote is told from ours, and never followed.

use crate::handle_words::CommWord;
use core::hash::{BuildHasher, Hasher};
use ofi_rdma::wire::handle::{HANDLE_BYTES, STATE_BYTES, STATE_OFFSET};
use std::collections::hash_map::RandomState;

const NONCE_AT: usize = 8;
const STAGE_AT: usize = 16;

/// How far the connect that uses a handle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The communicator exists and is connecting.
    Connecting = 1,
    /// connect has returned the communicator.
    Connected = 2,
    /// connect has returned an error; the communicator is gone.
    Failed = 3,
}

impl Stage {
    const fn of(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::Connecting),
            2 => Some(Self::Connected),
            3 => Some(Self::Failed),
            _ => None,
        }
    }
}

/// The state found in a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No connect has used this handle.
    Fresh,
    /// A connect of this transport has.
    Used(CommWord, Stage),
    /// Neither: damaged, copied from another process, or never a handle.
    Corrupt,
}

/// A number that nobody can guess and no other process has.
pub(crate) fn random_u64() -> u64 {
    // The standard library seeds each RandomState from the system's randomness.
    RandomState::new().build_hasher().finish()
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Reads the state bytes of `handle`.
pub(crate) fn read(handle: &[u8; 128], nonce: u64) -> State {
    let Some(state) = handle.get(STATE_OFFSET..HANDLE_BYTES) else {
        return State::Corrupt;
    };
    if state.iter().all(|&byte| byte == 0) {
        return State::Fresh;
    }
    let tail = eight(state, STAGE_AT);
    match u32::try_from(tail).ok().and_then(Stage::of) {
        Some(stage) if eight(state, NONCE_AT) == nonce => {
            State::Used(CommWord::from_bits(eight(state, 0)), stage)
        }
        _ => State::Corrupt,
    }
}

/// Writes the state bytes of `handle`, and no others.
pub(crate) fn write(handle: &mut [u8; 128], nonce: u64, comm: CommWord, stage: Stage) {
    let words = [comm.to_bits(), nonce, stage as u64];
    let mut state = [0; STATE_BYTES];
    for (out, word) in state.chunks_exact_mut(8).zip(words) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    if let Some(out) = handle.get_mut(STATE_OFFSET..HANDLE_BYTES) {
        out.copy_from_slice(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_written_is_read_back_and_nothing_else_is_touched() {
        let comm = CommWord::from_bits(0x4123_4567_89AB_CDEF);
        for stage in [Stage::Connecting, Stage::Connected, Stage::Failed] {
            let mut handle = [0xEE; 128];
            write(&mut handle, 77, comm, stage);
            assert_eq!(read(&handle, 77), State::Used(comm, stage));
            assert_eq!(read(&handle, 78), State::Corrupt);
            assert!(
                handle[..64]
                    .iter()
                    .chain(&handle[88..])
                    .all(|&byte| byte == 0xEE)
            );
        }
    }

    #[test]
    fn zero_state_is_fresh_and_an_unknown_stage_is_corrupt() {
        let mut handle = [0; 128];
        assert_eq!(read(&handle, 0), State::Fresh);
        write(&mut handle, 5, CommWord::from_bits(1), Stage::Connecting);
        handle[80] = 9;
        assert_eq!(read(&handle, 5), State::Corrupt);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random_u64(), random_u64());
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_never_taken_for_ours(bytes: [u8; 24], nonce: u64) {
            let mut handle = [0; 128];
            handle[64..88].copy_from_slice(&bytes);
            let found = read(&handle, nonce);
            prop_assume!(bytes[8..16] != nonce.to_le_bytes());
            prop_assert!(found == State::Corrupt || bytes == [0; 24]);
        }
    }
}
