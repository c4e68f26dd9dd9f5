//! The calls that are wrong: each is an error, and nothing comes of it.

use core::ffi::c_int;

use super::input::Input;
use super::model::{Side, address};
use super::steps::{Sequence, known};
use super::table::{Close, Message};
use super::world::SENDRECV;

/// Sizes that no message has.
const SIZES: [i64; 6] = [
    -1,
    i32::MIN as i64,
    1 << 31,
    1 << 30,
    i64::MAX,
    i64::MIN + 0xFFFF_FFFF,
];
/// Numbers of buffers that no table takes.
const COUNTS: [c_int; 6] = [0, -1, 2, 8, c_int::MIN, -8];
/// Devices that there are not.
const DEVICES: [c_int; 5] = [-1, 1 << 16, c_int::MAX, c_int::MIN, 200];

/// A call that has to fail.
pub(crate) fn refused(what: &str, result: c_int) {
    assert_ne!(known(result), 0, "{what}");
}

/// What a place for a word held when its call failed.
pub(crate) fn untouched(what: &str, word: usize) {
    assert_eq!(word, 0, "{what} failed and gave a word");
}

impl Sequence<'_> {
    pub(crate) fn wrong(&mut self, table: usize, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0..=4 => self.bad_comm(table, input),
            5 => self.bad_request(table, input),
            6 => self.bad_region(table, input),
            7 | 8 => self.bad_close(table, input),
            9..=11 => self.bad_message(table, input),
            12 => self.bad_count(table, input),
            13 => self.bad_device(table, input),
            14 | 15 => self.nulls(table, input),
            16 => self.bad_handle(table, input),
            17 => self.bad_memory(table, input),
            18 => self.bad_context(table, input),
            19..=21 => self.bad_target(table, input),
            _ => self.bad_one_sided(table, input),
        }
    }

    /// All words that mean something now.
    fn live(&self) -> impl Iterator<Item = usize> + '_ {
        let listeners = self
            .listeners
            .iter()
            .filter(|one| one.is_open)
            .map(|one| one.word);
        let comms = self
            .comms
            .iter()
            .filter(|one| one.is_open)
            .map(|one| one.word);
        let regions = self
            .regions
            .iter()
            .filter(|one| one.is_open)
            .map(|one| one.word);
        let requests = self.requests.iter().map(|one| one.word);
        let life = self.world.life.iter();
        let kept = life.flat_map(|life| {
            let witness = life.witness.iter();
            let words =
                witness.flat_map(|one| [one.send, one.recv, one.regions[0], one.regions[1]]);
            life.contexts.iter().copied().chain(words)
        });
        listeners
            .chain(comms)
            .chain(regions)
            .chain(requests)
            .chain(kept)
    }

    /// A word that means nothing, or one of those that mean something else.
    pub(crate) fn bad_word(&self, input: &mut Input<'_>, others: &[usize]) -> usize {
        let choice = input.byte();
        let live: Vec<usize> = self.live().collect();
        let word = match choice & 7 {
            0 => 0,
            1 => 1,
            2 | 3 => input.of(&self.world.old).unwrap_or(usize::MAX),
            4 | 5 if !others.is_empty() => return input.of(others).unwrap_or(0),
            // Another generation of its slot. Another slot of its generation can be one that means something.
            6 => input.of(&live).unwrap_or(3) ^ 1 << (choice >> 3),
            _ => usize::from_ne_bytes(input.word().to_ne_bytes()),
        };
        // What means something after all is not wrong.
        if live.contains(&word) {
            usize::MAX
        } else {
            word
        }
    }

    pub(crate) fn words_of(&self, side: Side) -> Vec<usize> {
        let comms = self
            .comms
            .iter()
            .filter(|comm| comm.is_open && comm.side == side);
        comms.map(|comm| comm.word).collect()
    }

    pub(crate) fn listener_words(&self) -> Vec<usize> {
        self.open_listeners()
            .map(|at| self.listeners[at].word)
            .collect()
    }

    pub(crate) fn other_words(&self) -> Vec<usize> {
        let regions = self
            .regions
            .iter()
            .filter(|one| one.is_open)
            .map(|one| one.word);
        regions
            .chain(self.requests.iter().map(|one| one.word))
            .collect()
    }

    fn bad_comm(&mut self, table: usize, input: &mut Input<'_>) {
        let (sends, recvs) = (self.words_of(Side::Send), self.words_of(Side::Recv));
        let (listeners, rest) = (self.listener_words(), self.other_words());
        let no_send = [&recvs[..], &listeners, &rest].concat();
        let no_recv = [&sends[..], &listeners, &rest].concat();
        let no_listener = [&sends[..], &recvs, &rest].concat();
        let no_memory = [&listeners[..], &rest].concat();
        let (which, mut word) = (input.byte() % 6, 0);
        let comm = match which {
            0 => self.bad_word(input, &no_send),
            1 | 2 => self.bad_word(input, &no_recv),
            3 => self.bad_word(input, &no_listener),
            4 => self.bad_word(input, &no_memory),
            // Of a closed one the region can still be given back; not of what never was one.
            _ => input.of(&rest).unwrap_or(0),
        };
        let piece = self.piece(input, None);
        let mhandle = piece.region.map_or(0, |at| self.regions[at].word);
        let message = Message {
            comm,
            n: 1,
            data: piece.address(),
            // An empty flush is nothing to do, whoever asks.
            size: i64::try_from(piece.len.max(1)).expect("sizes are small"),
            tag: 0,
            mhandle,
        };
        let call = self.world.table(table);
        let place = Some(&mut word);
        match which {
            0 => refused("isend", call.isend(&message, place)),
            1 => refused("irecv", call.irecv(&message, place)),
            2 => refused("iflush", call.iflush(&message, place)),
            3 => refused("accept", call.accept(comm, place)),
            4 => refused("regMr", call.reg_mr(comm, (address(0), 4096), 1, place)),
            _ => refused(
                &format!("deregMr {comm:#x} {mhandle:#x}"),
                call.dereg(comm, mhandle.max(1)),
            ),
        }
        untouched("a call on no communicator", word);
    }

    fn bad_request(&mut self, table: usize, input: &mut Input<'_>) {
        let comms = [
            self.words_of(Side::Send),
            self.words_of(Side::Recv),
            self.listener_words(),
        ];
        let word = self.bad_word(input, &comms.concat());
        let (mut done, mut size) = (7, 7);
        let result = self
            .world
            .table(table)
            .test(word, Some(&mut done), Some(&mut size));
        refused("test", result);
        assert_eq!((done, size), (0, 7), "of no request");
    }

    fn bad_region(&mut self, table: usize, input: &mut Input<'_>) {
        let comms = [
            self.words_of(Side::Send),
            self.words_of(Side::Recv),
            self.listener_words(),
        ];
        let word = self.bad_word(input, &comms.concat());
        let call = self.world.table(table);
        if call.shape.slots.key != 0 {
            let mut key = 0;
            refused("getMrKey", call.key(word, Some(&mut key)));
        }
        if let (Some(comm), true) = (self.open_comm(input, None), word != 0) {
            let result = self.world.table(table).dereg(self.comms[comm].word, word);
            refused(&format!("deregMr of {word:#x}"), result);
        }
    }

    fn bad_close(&mut self, table: usize, input: &mut Input<'_>) {
        let (sends, recvs) = (self.words_of(Side::Send), self.words_of(Side::Recv));
        let (listeners, rest) = (self.listener_words(), self.other_words());
        let (which, others) = match input.byte() % 3 {
            0 => (Close::Send, [&recvs[..], &listeners, &rest].concat()),
            1 => (Close::Recv, [&sends[..], &listeners, &rest].concat()),
            _ => (Close::Listen, [&sends[..], &recvs, &rest].concat()),
        };
        let word = self.bad_word(input, &others);
        refused("a close", self.world.table(table).close(which, word));
    }

    /// A message that is wrong, on a communicator that is right.
    fn bad_message(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, None) else {
            return;
        };
        let piece = self.piece(input, Some(comm));
        let mut message = self.message(comm, &piece);
        let is_send = self.comms[comm].side == Side::Send;
        let choice = input.byte();
        let mut needs_place = true;
        match choice % 6 {
            0 => message.size = input.of(&SIZES).unwrap_or(-1),
            1 => {
                message.mhandle = 0;
                message.size = message.size.max(1);
            }
            2 => {
                message.mhandle = self.bad_word(input, &self.listener_words());
                message.size = message.size.max(1);
            }
            // No region has so many bytes, or these.
            3 => message.size = 1 << 29,
            4 => {
                message.data = 0;
                message.size = 16;
            }
            _ => needs_place = false,
        }
        let (mut word, call) = (0, self.world.table(table));
        let place = needs_place.then_some(&mut word);
        let result = match (is_send, choice & 64) {
            (true, _) => call.isend(&message, place),
            (false, 0) => call.irecv(&message, place),
            (false, _) => call.iflush(&message, place),
        };
        refused("a message", result);
        untouched("a message", word);
    }

    fn bad_count(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        if call.shape.is_v4 {
            return;
        }
        let Some(comm) = self.open_comm(input, Some(Side::Recv)) else {
            return;
        };
        let piece = self.piece(input, Some(comm));
        let mut message = self.message(comm, &piece);
        message.n = input.of(&COUNTS).unwrap_or(0);
        let (mut word, is_flush) = (0, input.byte() & 1 == 1);
        let call = self.world.table(table);
        let result = match is_flush {
            true => call.iflush(&message, Some(&mut word)),
            false => call.irecv(&message, Some(&mut word)),
        };
        refused("a group", result);
        untouched("a group", word);
        let missing = 1 + input.byte() % 7;
        refused(
            "arrays",
            call.without_arrays(is_flush, message.comm, missing),
        );
    }

    fn bad_device(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        let dev = input.of(&DEVICES).unwrap_or(-1);
        let place = (self.world.context(), dev);
        let (mut handle, mut word, mut properties) = ([0; 128], 0, [0; 32]);
        refused(
            "listen",
            call.listen(place, Some(&mut handle), Some(&mut word)),
        );
        refused(
            "connect",
            call.connect(place, Some(&mut handle), Some(&mut word)),
        );
        refused("getProperties", call.properties(dev, Some(&mut properties)));
        untouched("a device", word);
        assert!(properties == [0; 32] && handle == [0; 128], "written");
        let (mut count, place) = (0, (self.world.context(), 0));
        assert_eq!(known(call.devices(Some(&mut count))), 0, "devices");
        assert!((1..=200).contains(&count), "{count} devices");
        assert_eq!(
            known(call.properties(place.1, Some(&mut properties))),
            0,
            "getProperties"
        );
    }

    fn nulls(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        let place = (self.world.context(), 0);
        let (mut handle, mut word) = ([0; 128], 0);
        let comm = self
            .open_comm(input, None)
            .map_or(0, |at| self.comms[at].word);
        let request = self.requests.last().map_or(0, |request| request.word);
        let result = match input.byte() % 9 {
            0 => call.listen(place, None, Some(&mut word)),
            1 => call.listen(place, Some(&mut handle), None),
            2 => call.connect(place, None, Some(&mut word)),
            3 => call.connect(place, Some(&mut handle), None),
            4 => call.accept(self.listeners.last().map_or(0, |one| one.word), None),
            5 => call.reg_mr(comm, (address(0), 4096), 1, None),
            6 => call.devices(None),
            7 => call.properties(0, None),
            _ => call.test(request, None, None),
        };
        refused("NULL for a place", result);
        untouched("NULL for a place", word);
    }

    /// A handle that nobody wrote. What it names may take until the deadline to be known as nobody.
    fn bad_handle(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        if call.shape.is_v4 || !self.world.can_connect(call) {
            return;
        }
        let listener = self.listeners.last();
        let mut handle = listener.map_or([0x5A; 128], |listener| listener.handle);
        match input.byte() & 3 {
            // State that is not of this process.
            0 => handle[64 + input.below(24)] ^= 1 | input.byte(),
            // An id out of range, and a tag that no listener has got to.
            1 => handle[56..60].copy_from_slice(&0x7FFF_0000_u32.to_le_bytes()),
            // Whatever it is, none of our ids.
            2 => {
                handle.fill_with(|| input.byte());
                handle[59] |= 0x80;
            }
            _ => {
                handle.fill(input.byte());
                handle[59] |= 0x80;
            }
        }
        let (place, mut word) = ((self.world.context(), 0), 0);
        let result = known(call.connect(place, Some(&mut handle), Some(&mut word)));
        let mut again = result;
        if word == 0 {
            again = known(call.connect(place, Some(&mut handle), Some(&mut word)));
            assert!(result == 0 || again != 0, "a connect that failed goes on");
        }
        if self.world.settings == SENDRECV && word != 0 {
            // Its connect messages have no answer: the communicator is there, and its messages never arrive.
            assert_eq!(known(call.close(Close::Send, word)), 0, "closeSend");
            return;
        }
        untouched("a handle of nobody", word);
        if again == 0 {
            self.world.doom();
        }
    }

    /// Registrations of nothing, of more than there is, and of no kind.
    fn bad_memory(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, None) else {
            return;
        };
        let (call, comm) = (self.world.table(table), self.comms[comm].word);
        let (mut word, start) = (0, address(0));
        let result = match input.byte() % 4 {
            0 => call.reg_mr(comm, (start, 0), 1, Some(&mut word)),
            1 => call.reg_mr(comm, (start, usize::MAX), 1, Some(&mut word)),
            2 => call.reg_mr(comm, (usize::MAX - 4096, 1 << 62), 1, Some(&mut word)),
            _ => {
                let kind = input.of(&[0, 8, -1, 16, c_int::MAX, 3]).unwrap_or(0);
                call.reg_mr(comm, (start, 4096), kind, Some(&mut word))
            }
        };
        refused("regMr", result);
        untouched("regMr", word);
    }

    fn bad_context(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        if !call.shape.has_context {
            return;
        }
        let context = self.bad_word(input, &self.listener_words());
        let (mut handle, mut word) = ([0; 128], 0);
        let call = self.world.table(table);
        let listened = call.listen((context, 0), Some(&mut handle), Some(&mut word));
        assert_eq!(known(listened), 4, "listen with {context:#x}");
        assert_eq!(known(call.fini(context)), 4, "finalize of {context:#x}");
        untouched("a context", word);
    }
}
