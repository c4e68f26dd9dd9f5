//! One-sided calls, right and wrong.

use super::input::Input;
use super::model::{Kind, Side, address};
use super::steps::{Sequence, known};
use super::table::{Message, Table};
use super::world::{CLOSE_MESSAGES, SENDRECV};
use super::wrong::{refused, untouched};

/// Bytes that an inline write may have on EFA.
const INLINE_MAX: usize = 32;
impl Sequence<'_> {
    /// The key of a region, where keys can be had.
    pub(crate) fn key_of(&self, call: &Table, region: usize) -> Option<u64> {
        if call.shape.slots.key == 0 || self.world.settings == SENDRECV {
            return None;
        }
        let mut key = 0;
        let result = known(call.key(self.regions[region].word, Some(&mut key)));
        assert_eq!(result, 0, "getMrKey");
        Some(key)
    }

    pub(crate) fn write(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, Some(Side::Send)) else {
            return;
        };
        let from = self.piece(input, Some(comm));
        let to = self.piece(input, self.peer(comm));
        let call = self.world.table(table);
        let Some(key) = to.region.and_then(|region| self.key_of(call, region)) else {
            return;
        };
        from.write(78, usize::from(input.byte()));
        let mut message = self.message(comm, &from);
        let (mut word, mut len) = (0, from.len);
        let remote = (to.address(), key);
        let result = match input.byte() & 1 {
            0 if from.len <= to.len => call.one_sided(false, &message, remote, Some(&mut word)),
            _ => {
                len = len.min(INLINE_MAX).min(to.len);
                message.size = i64::try_from(len).expect("it is short");
                call.write_inline(&message, remote, Some(&mut word))
            }
        };
        self.started(comm, known(result), word, (Kind::Write(to, len), from));
    }

    pub(crate) fn read(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, Some(Side::Recv)) else {
            return;
        };
        let to = self.piece(input, Some(comm));
        let from = self.piece(input, self.peer(comm));
        let call = self.world.table(table);
        let Some(key) = from.region.and_then(|region| self.key_of(call, region)) else {
            return;
        };
        if from.len < to.len {
            return;
        }
        from.write(77, usize::from(input.byte()));
        let message = self.message(comm, &to);
        let mut word = 0;
        let remote = (from.address(), key);
        let result = known(call.one_sided(true, &message, remote, Some(&mut word)));
        self.started(comm, result, word, (Kind::Read(from), to));
    }

    /// A one-sided call that the peer's NIC refuses: it fails, and its communicator with it.
    pub(crate) fn bad_target(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        if call.shape.slots.key == 0 || self.world.settings == SENDRECV {
            return;
        }
        let is_read = input.byte() & 1 == 1;
        // A receiver that failed says no CLOSE, and who closes its sender waits for one until the life's end gives up.
        if is_read && self.world.settings == CLOSE_MESSAGES {
            return;
        }
        let side = if is_read { Side::Recv } else { Side::Send };
        let Some(comm) = self.open_comm(input, Some(side)) else {
            return;
        };
        let piece = self.piece(input, Some(comm));
        let (message, mut word) = (self.message(comm, &piece), 0);
        // An address that nobody has.
        let remote = (0xDEAD_0000_0000, input.word());
        let call = self.world.table(table);
        let result = known(call.one_sided(is_read, &message, remote, Some(&mut word)));
        let listener = self.comms[comm].listener;
        self.listeners[listener].is_hurt = true;
        assert!(result == 0 || word == 0, "a word with a failure");
        if word != 0 {
            self.begun(comm, word, piece);
        }
    }

    pub(crate) fn bad_one_sided(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        if call.shape.slots.key == 0 {
            return;
        }
        let (sends, recvs) = (self.words_of(Side::Send), self.words_of(Side::Recv));
        let rest = [&self.listener_words()[..], &self.other_words()].concat();
        let choice = input.byte();
        let is_inline = choice & 6 == 2;
        let is_read = choice & 1 == 1 && !is_inline;
        let others = [if is_read { &sends[..] } else { &recvs }, &rest].concat();
        let comm = self.bad_word(input, &others);
        let piece = self.piece(input, None);
        let mhandle = piece.region.map_or(0, |at| self.regions[at].word);
        let (mut word, n) = (0, 1);
        let (data, tag) = (piece.address(), 0);
        let size = i64::try_from(piece.len.min(32)).expect("it is short");
        let message = Message {
            comm,
            n,
            data,
            size,
            tag,
            mhandle,
        };
        let remote = (address(0), u64::from(choice));
        let call = self.world.table(table);
        let result = match is_inline {
            true => call.write_inline(&message, remote, Some(&mut word)),
            false => call.one_sided(is_read, &message, remote, Some(&mut word)),
        };
        refused("a one-sided call", result);
        untouched("a one-sided call", word);
    }
}
