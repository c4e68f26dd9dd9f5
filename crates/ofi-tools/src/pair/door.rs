//! The listener's door. Many may come at once, and nobody waits behind one who says nothing: each has its own
//! few seconds to say who it is, in all, and the first that is an `ofi pair` goes in.

use core::time::Duration;
use std::io::{self, Read as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::cause::{Failure, Stage};
use crate::coord::frame::read_frame;
use crate::report::out;

/// How long one may take to say who it is.
const STRANGER: Duration = Duration::from_secs(3);
/// Those that are listened to at a time; the one that came first makes room.
const GUESTS_MAX: usize = 64;
/// Strangers that are told of.
const TOLD: usize = 3;
const POLL: Duration = Duration::from_millis(20);

/// One that has not said who it is.
struct Guest {
    stream: TcpStream,
    bytes: Vec<u8>,
    until: Instant,
}

/// What has come of one.
enum Heard {
    /// It has not said all.
    NotYet,
    /// Its first frame.
    Frame(Vec<u8>),
    /// Why it is no `ofi pair`.
    Stranger(String),
}

/// Waits for a first frame that `is_one` of us; the connection waits for calls again then.
///
/// # Errors
/// Nobody came within the limit; the listener failed.
pub(super) fn wait<T>(
    listener: &TcpListener,
    limit: Duration,
    frame_max: usize,
    is_one: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<(TcpStream, T), Failure> {
    let failed = |e: io::Error| Failure::new(Stage::Nobody, e);
    listener.set_nonblocking(true).map_err(failed)?;
    let start = Instant::now();
    let (mut guests, mut strangers): (Vec<Guest>, usize) = (Vec::new(), 0);
    let mut turn_away = |why: &str| {
        strangers += 1;
        if strangers <= TOLD {
            out::error_line(&format!("ofi pair: a connection was turned away: {why}"));
        }
    };
    while start.elapsed() < limit {
        let_in(listener, &mut guests).map_err(failed)?;
        let mut waiting = Vec::new();
        for mut guest in guests {
            match guest.listen(frame_max) {
                Heard::NotYet => waiting.push(guest),
                Heard::Stranger(why) => turn_away(&why),
                Heard::Frame(bytes) => match is_one(&bytes) {
                    Err(why) => turn_away(&why),
                    Ok(who) => {
                        guest.stream.set_nonblocking(false).map_err(failed)?;
                        return Ok((guest.stream, who));
                    }
                },
            }
        }
        let many = waiting.len().saturating_sub(GUESTS_MAX);
        for _first in waiting.drain(..many) {
            turn_away("too many others came");
        }
        guests = waiting;
        std::thread::sleep(POLL);
    }
    let seconds = limit.as_secs_f64();
    let silent = guests.len();
    let what = format!(
        "nobody came in {seconds} s ({strangers} strangers were turned away, {silent} said nothing yet)"
    );
    Err(Failure::new(Stage::Nobody, what))
}

/// Takes those that are at the door, some at a time.
fn let_in(listener: &TcpListener, guests: &mut Vec<Guest>) -> io::Result<()> {
    for _ in 0..GUESTS_MAX {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok() {
                    guests.push(Guest {
                        stream,
                        bytes: Vec::new(),
                        until: Instant::now() + STRANGER,
                    });
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            // accept(2): errors of a connection that is gone already, and signals.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                ) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Guest {
    /// Takes what it has said meanwhile.
    fn listen(&mut self, frame_max: usize) -> Heard {
        let (mut chunk, mut ended) = ([0; 4096], false);
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(len) => self
                    .bytes
                    .extend_from_slice(chunk.get(..len).unwrap_or(&[])),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Heard::Stranger(e.to_string()),
            }
            // A frame and its head; more is not read before somebody asks for it.
            if self.bytes.len() > frame_max {
                break;
            }
        }
        match read_frame(&mut self.bytes.as_slice(), frame_max) {
            Ok((_, bytes)) => Heard::Frame(bytes),
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => Heard::Stranger(e.to_string()),
            Err(_) if ended => Heard::Stranger("the connection ended".to_owned()),
            Err(_) if Instant::now() >= self.until => {
                Heard::Stranger("it has not said who it is in time".to_owned())
            }
            Err(_) => Heard::NotYet,
        }
    }
}
