//! Calls after fini.

use super::input::Input;
use super::model::{Piece, address};
use super::steps::Sequence;
use super::table::{Close, Message};
use super::wrong::{refused, untouched};

impl Sequence<'_> {
    /// After fini, with whatever words: nothing works, and nothing else happens.
    pub(crate) fn without_life(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        let word = input.of(&self.world.old).unwrap_or(1);
        let message = Message {
            comm: word,
            n: 1,
            data: Piece::NOTHING.address(),
            size: 8,
            tag: 0,
            mhandle: word,
        };
        let (mut handle, mut got, mut done) = ([0; 128], 0, 0);
        let place = (word, 0);
        let result = match input.byte() % 14 {
            0 => call.listen(place, Some(&mut handle), Some(&mut got)),
            1 => call.connect(place, Some(&mut handle), Some(&mut got)),
            2 => call.accept(word, Some(&mut got)),
            3 => call.reg_mr(word, (address(0), 4096), 1, Some(&mut got)),
            4 => call.dereg(word, word),
            5 => call.isend(&message, Some(&mut got)),
            6 => call.irecv(&message, Some(&mut got)),
            7 => call.iflush(&message, Some(&mut got)),
            8 => call.test(word, Some(&mut done), None),
            9 => call.close(Close::Send, word),
            10 => call.close(Close::Recv, word),
            11 => call.close(Close::Listen, word),
            12 if call.shape.slots.fini != 0 => {
                let result = call.fini(word);
                assert!(result == 2 || result == 4, "fini after fini: {result}");
                result
            }
            _ => call.devices(Some(&mut done)),
        };
        refused("a call after fini", result);
        // Of v11 and later a context is looked at first, and accept of v4 has its own result.
        assert!(matches!(result, 2 | 4), "after fini: {result}");
        untouched("a call after fini", got);
    }
}
