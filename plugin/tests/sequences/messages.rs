//! Messages and flushes that are right, and what each must answer.

use core::ffi::c_int;

use super::input::Input;
use super::model::{Comm, Kind, Piece, Region, Request, Side};
use super::steps::{Sequence, known};
use super::table::Message;
use super::world::{ENDPOINTS, SENDRECV};

/// Sizes of messages, on both sides of each border.
const SIZES: [usize; 16] = [
    0, 1, 4, 8, 63, 64, 65, 500, 4096, 8191, 8192, 8193, 20_000, 65_536, 65_537, 140_000,
];
/// Longer messages of SENDRECV stay with their sender until they are received: nobody can take back one that never
/// is, and who ends its region or its life waits for the bounds of that (5 and 2 s).
const KEPT_BYTES: usize = 8192;

/// Requests of one communicator that the plugin may take.
const REQUESTS_MAX: usize = 128;
impl Sequence<'_> {
    /// A buffer in a region that is open and that a communicator may use, or nothing.
    pub(crate) fn piece(&mut self, input: &mut Input<'_>, comm: Option<usize>) -> Piece {
        let len = input.of(&SIZES).unwrap_or(0);
        let is_global = self.world.settings != ENDPOINTS;
        let fits = |region: &Region| region.is_open && (is_global || comm == Some(region.owner));
        let regions = self.regions.iter().enumerate();
        let open = regions.filter(|(_, region)| fits(region));
        let open: Vec<usize> = open.map(|(at, _)| at).collect();
        let made = input
            .of(&open)
            .and_then(|at| self.regions[at].piece(at, len));
        made.unwrap_or(Piece::NOTHING)
    }

    /// The other end of a connection.
    pub(crate) fn peer(&self, comm: usize) -> Option<usize> {
        let Comm { side, listener, .. } = self.comms[comm];
        let is_peer = |other: &Comm| other.listener == listener && other.side != side;
        self.comms.iter().position(is_peer)
    }

    pub(crate) fn message(&self, comm: usize, piece: &Piece) -> Message {
        let region = piece.region.map_or(0, |at| self.regions[at].word);
        Message {
            comm: self.comms[comm].word,
            n: 1,
            data: piece.address(),
            size: i64::try_from(piece.len).expect("sizes are small"),
            tag: 5,
            mhandle: region,
        }
    }

    pub(crate) fn send(&mut self, table: usize, input: &mut Input<'_>) {
        if let Some(comm) = self.open_comm(input, Some(Side::Send)) {
            let piece = self.piece(input, Some(comm));
            self.send_piece(table, comm, piece);
        }
    }

    /// Whether it was taken.
    pub(crate) fn send_piece(&mut self, table: usize, comm: usize, piece: Piece) -> bool {
        let (listener, number) = (self.comms[comm].listener, self.comms[comm].messages.len());
        if self.world.settings == SENDRECV && piece.len > KEPT_BYTES && !self.has_room(comm, &piece)
        {
            return false;
        }
        piece.write(listener, number);
        let message = self.message(comm, &piece);
        let mut word = 0;
        let result = known(self.world.table(table).isend(&message, Some(&mut word)));
        self.started(comm, result, word, (Kind::Send(number), piece))
    }

    /// Whether the receive of the next message is there already.
    pub(crate) fn has_room(&self, comm: usize, piece: &Piece) -> bool {
        let number = self.comms[comm].messages.len();
        let peer = self.peer(comm).map(|at| &self.comms[at]);
        let room = peer
            .filter(|peer| peer.is_open)
            .and_then(|peer| peer.messages.get(number));
        room.is_some_and(|room| room.len >= piece.len)
    }

    pub(crate) fn recv(&mut self, table: usize, input: &mut Input<'_>) {
        if let Some(comm) = self.open_comm(input, Some(Side::Recv)) {
            let piece = self.piece(input, Some(comm));
            let is_optional = input.byte() & 7 == 7;
            self.recv_piece(table, comm, (piece, is_optional));
        }
    }

    pub(crate) fn recv_piece(
        &mut self,
        table: usize,
        comm: usize,
        (piece, is_optional): (Piece, bool),
    ) -> bool {
        let number = self.comms[comm].messages.len();
        let message = self.message(comm, &piece);
        let mut word = usize::from(is_optional);
        let result = known(self.world.table(table).irecv(&message, Some(&mut word)));
        self.started(comm, result, word, (Kind::Recv(number, is_optional), piece))
    }

    /// Takes note of a request that was started. Whether one was.
    pub(crate) fn started(
        &mut self,
        comm: usize,
        result: c_int,
        word: usize,
        (kind, piece): (Kind, Piece),
    ) -> bool {
        let at = comm;
        let comm = &mut self.comms[at];
        let hurt = self.listeners[comm.listener].is_hurt;
        assert!(result == 0 || (hurt && word == 0), "{kind:?}: {result}");
        if word == 0 {
            return false;
        }
        assert!(
            self.requests.iter().all(|other| other.word != word),
            "one word twice"
        );
        if matches!(kind, Kind::Send(_) | Kind::Recv(..)) {
            comm.messages.push(piece);
        }
        comm.pending += 1;
        assert!(
            comm.pending <= 2 * REQUESTS_MAX,
            "{} requests at once",
            comm.pending
        );
        for region in kind.regions(&piece) {
            self.regions[region].uses += 1;
        }
        self.requests.push(Request {
            word,
            comm: at,
            kind,
            piece,
        });
        self.too_long(at);
        true
    }

    /// Takes note of a request that will fail.
    pub(crate) fn begun(&mut self, comm: usize, word: usize, piece: Piece) {
        self.started(comm, 0, word, (Kind::Doomed, piece));
    }

    /// SENDRECV ends a connection whose message is longer than its receive: the provider cuts it, and says so.
    pub(crate) fn too_long(&mut self, comm: usize) {
        let listener = self.comms[comm].listener;
        if self.world.settings != SENDRECV {
            return;
        }
        let Some(peer) = self.peer(comm) else {
            return;
        };
        let (mut send, mut recv) = (&self.comms[comm], &self.comms[peer]);
        if send.side == Side::Recv {
            core::mem::swap(&mut send, &mut recv);
        }
        let mut pairs = send.messages.iter().zip(&recv.messages);
        if pairs.any(|(sent, room)| sent.len > room.len) {
            self.listeners[listener].is_hurt = true;
        }
    }

    pub(crate) fn flush(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, Some(Side::Recv)) else {
            return;
        };
        let piece = self.piece(input, Some(comm));
        let message = self.message(comm, &piece);
        let mut word = 0;
        let result = known(self.world.table(table).iflush(&message, Some(&mut word)));
        self.started(comm, result, word, (Kind::Flush, piece));
    }

    /// More at once than are taken.
    pub(crate) fn flood(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(comm) = self.open_comm(input, None) else {
            return;
        };
        let is_send = self.comms[comm].side == Side::Send;
        let piece = Piece::NOTHING;
        let mut taken = 0;
        for _ in 0..=REQUESTS_MAX {
            let is_taken = match is_send {
                true => self.send_piece(table, comm, piece),
                false => self.recv_piece(table, comm, (piece, false)),
            };
            taken += usize::from(is_taken);
        }
        assert!(taken <= REQUESTS_MAX, "{taken} requests at once");
    }
}
