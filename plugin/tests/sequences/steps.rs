//! The calls that are right, and what each must answer.

use core::ffi::c_int;

use super::input::Input;
use super::model::{Arena, Comm, Dial, Dialling, Listener, Piece, Region, Request, Side, address};
use super::table::Close;
use super::world::{World, no_panics};

/// Bytes of regions.
const BLOCKS: [usize; 4] = [4096, 20_000, 70_000, 300_000];

/// What one sequence makes of each, at most.
const EACH_MAX: usize = 12;

/// One sequence under way.
#[derive(Debug)]
pub(crate) struct Sequence<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) arena: Arena,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) dials: Vec<Dial>,
    pub(crate) comms: Vec<Comm>,
    pub(crate) regions: Vec<Region>,
    pub(crate) requests: Vec<Request>,
    /// One-sided writes that are done: from where, to where, how many bytes.
    pub(crate) writes: Vec<(Piece, Piece, usize)>,
}

/// A result that is one of the ABI's.
pub(crate) fn known(result: c_int) -> c_int {
    assert!(matches!(result, 0 | 2..=6), "result {result}");
    no_panics();
    result
}

impl<'a> Sequence<'a> {
    pub(crate) fn new(world: &'a mut World) -> Self {
        Self {
            world,
            arena: Arena::default(),
            listeners: Vec::new(),
            dials: Vec::new(),
            comms: Vec::new(),
            regions: Vec::new(),
            requests: Vec::new(),
            writes: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, input: &mut Input<'_>) {
        let byte = input.byte();
        let table = usize::from(byte >> 7);
        if self.world.life.is_none() && byte & 15 != 15 {
            return self.without_life(table, input);
        }
        match byte % 32 {
            0 => self.listen(table),
            1 | 2 => self.connect(table, input),
            3 | 4 => self.accept(table, input),
            5 => self.register(table, input),
            6..=9 => self.send(table, input),
            10..=13 => self.recv(table, input),
            14..=17 => self.test(table, input),
            18 => self.flush(table, input),
            19 => self.write(table, input),
            20 => self.read(table, input),
            21 => self.close(table, input),
            22 => self.deregister(table, input),
            23 => self.flood(table, input),
            24 => self.test_all(table),
            31 => self.lives(input),
            _ => self.wrong(table, input),
        }
    }

    fn listen(&mut self, table: usize) {
        let call = self.world.table(table);
        if self.listeners.len() >= EACH_MAX || !self.world.can_connect(call) {
            return;
        }
        let (mut handle, mut word) = ([0; 128], 0);
        let place = (self.world.context(), 0);
        let result = known(call.listen(place, Some(&mut handle), Some(&mut word)));
        assert!(result == 0 && word != 0, "listen: {result}");
        self.listeners.push(Listener {
            word,
            handle,
            is_open: true,
            is_accepted: false,
            dials: Vec::new(),
            is_hurt: false,
        });
    }

    /// A step of a connect, or its first.
    fn connect(&mut self, table: usize, input: &mut Input<'_>) {
        let call = self.world.table(table);
        let choice = input.byte();
        let pending: Vec<usize> = self.pending_dials().collect();
        let at = usize::from(choice >> 1);
        if choice & 1 == 1 && !pending.is_empty() && !call.shape.is_v4 {
            return self.redial(table, pending[at % pending.len()]);
        }
        if self.dials.len() >= EACH_MAX || !self.world.can_connect(call) {
            return;
        }
        let Some(listener) = at.checked_rem(self.listeners.len()) else {
            return;
        };
        let target = &mut self.listeners[listener];
        // The second one to a listener is one too many, and waits until its deadline.
        if !target.is_open || !target.dials.is_empty() {
            return;
        }
        target.dials.push(self.dials.len());
        self.dials.push(Dial {
            handle: target.handle,
            listener,
            state: Dialling::Pending,
        });
        self.redial(table, self.dials.len() - 1);
    }

    pub(crate) fn pending_dials(&self) -> impl Iterator<Item = usize> + '_ {
        let dials = self.dials.iter().enumerate();
        let pending = dials.filter(|(_, dial)| dial.state == Dialling::Pending);
        pending.map(|(at, _)| at)
    }

    pub(crate) fn redial(&mut self, table: usize, at: usize) {
        let place = (self.world.context(), 0);
        let call = self.world.table(table);
        if !self.world.can_connect(call) {
            return;
        }
        let dial = &mut self.dials[at];
        let hurt = self.listeners[dial.listener].is_hurt;
        let mut word = 0;
        let result = known(call.connect(place, Some(&mut dial.handle), Some(&mut word)));
        assert!(result == 0 || (hurt && word == 0), "connect: {result}");
        if hurt && word == 0 {
            self.world.doom();
        }
        if result != 0 {
            dial.state = Dialling::Failed;
        } else if word != 0 {
            dial.state = Dialling::Up;
            let listener = dial.listener;
            self.made(word, Side::Send, listener);
        }
    }

    fn made(&mut self, word: usize, side: Side, listener: usize) {
        assert!(
            self.comms.iter().all(|comm| comm.word != word),
            "one word twice"
        );
        self.comms.push(Comm {
            word,
            side,
            listener,
            is_open: true,
            messages: Vec::new(),
            pending: 0,
        });
    }

    fn accept(&mut self, table: usize, input: &mut Input<'_>) {
        let open: Vec<usize> = self.open_listeners().collect();
        if let Some(at) = input.of(&open) {
            self.accept_from(table, at);
        }
    }

    pub(crate) fn open_listeners(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.listeners.iter().enumerate();
        all.filter(|(_, listener)| listener.is_open)
            .map(|(at, _)| at)
    }

    pub(crate) fn accept_from(&mut self, table: usize, at: usize) {
        let call = self.world.table(table);
        let doomed = self.world.life.as_ref().is_some_and(|life| life.has_doomed);
        let half_open = |one: &&Listener| !one.dials.is_empty() && !one.is_accepted;
        let has_others = doomed || self.listeners.iter().filter(half_open).count() > 1;
        let listener = &mut self.listeners[at];
        // That of v4 waits for who connects, and a second for any other connection that is not up.
        if call.shape.is_v4
            && (has_others || listener.dials.is_empty() || listener.is_accepted || listener.is_hurt)
        {
            return;
        }
        let mut word = 0;
        let result = known(call.accept(listener.word, Some(&mut word)));
        if listener.is_accepted {
            assert!(
                result != 0 && word == 0,
                "accept of a listener that gave its connection"
            );
            return;
        }
        assert!(
            result == 0 || (listener.is_hurt && word == 0),
            "accept: {result}"
        );
        if word != 0 {
            assert!(!listener.dials.is_empty(), "nobody connected");
            listener.is_accepted = true;
            self.made(word, Side::Recv, at);
        }
    }

    fn register(&mut self, table: usize, input: &mut Input<'_>) {
        let (Some(owner), Some(len)) = (self.open_comm(input, None), input.of(&BLOCKS)) else {
            return;
        };
        let (call, comm) = (self.world.table(table), &self.comms[owner]);
        let hurt = self.listeners[comm.listener].is_hurt;
        let Some(start) = self.arena.block(len) else {
            return;
        };
        let mut word = 0;
        let memory = (address(start), len);
        let result = match input.byte() & 3 {
            0 if call.shape.slots.dmabuf != 0 => {
                call.reg_dmabuf(comm.word, memory, -1, Some(&mut word))
            }
            _ => call.reg_mr(comm.word, memory, 1, Some(&mut word)),
        };
        assert!(known(result) == 0 && word != 0 || hurt, "regMr: {result}");
        if word != 0 {
            self.regions.push(Region::new(word, (start, len), owner));
        }
    }

    /// One that is open, of a side.
    pub(crate) fn open_comm(&self, input: &mut Input<'_>, side: Option<Side>) -> Option<usize> {
        let all = self.comms.iter().enumerate();
        let fits =
            all.filter(|(_, comm)| comm.is_open && side.is_none_or(|side| comm.side == side));
        let fits: Vec<usize> = fits.map(|(at, _)| at).collect();
        input.of(&fits)
    }

    fn lives(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            2 => {
                if self.world.end_context() {
                    self.forget();
                }
            }
            // Rare, since a life costs as much as several sequences.
            3 => {
                self.world.end();
                self.forget();
            }
            _ => self.world.begin_again(),
        }
    }

    /// Everything is gone with the life.
    pub(crate) fn forget(&mut self) {
        let words = self.comms.iter().map(|comm| comm.word);
        let words = words.chain(self.listeners.iter().map(|listener| listener.word));
        // What could not be deregistered means something until the life ends.
        let is_alive = self.world.life.is_some();
        let gone = self
            .regions
            .iter()
            .filter(|region| !(is_alive && region.is_open));
        let words = words.chain(gone.map(|region| region.word));
        let words: Vec<usize> = words
            .chain(self.requests.iter().map(|request| request.word))
            .collect();
        words.into_iter().for_each(|word| self.world.keep(word));
        self.listeners.clear();
        self.dials.clear();
        self.comms.clear();
        self.regions.clear();
        self.requests.clear();
        self.writes.clear();
        self.arena.reset();
    }

    fn close(&mut self, table: usize, input: &mut Input<'_>) {
        let choice = input.byte();
        let open: Vec<usize> = self.open_listeners().collect();
        if choice & 3 == 0 {
            if let Some(at) = input.of(&open) {
                self.close_listener(table, at);
            }
        } else if let Some(at) = self.open_comm(input, None) {
            self.leave(table, at);
        }
    }

    pub(crate) fn close_listener(&mut self, table: usize, at: usize) {
        let listener = &mut self.listeners[at];
        let call = self.world.table(table);
        assert_eq!(
            known(call.close(Close::Listen, listener.word)),
            0,
            "closeListen"
        );
        assert_ne!(
            known(call.close(Close::Listen, listener.word)),
            0,
            "closed twice"
        );
        listener.is_open = false;
        // A connection that it was making goes with it.
        listener.is_hurt |= !listener.is_accepted;
        let word = listener.word;
        if listener.is_hurt {
            self.world.doom();
        }
        self.world.keep(word);
    }
}
