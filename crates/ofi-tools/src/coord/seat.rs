//! The hub's view of one rank, and the threads that turn its socket into events.

use core::time::Duration;
use std::io;
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::children::Local;
use super::frame::{Beat, Down, Hello, MAGIC, MAX_HELLO, MAX_UP, Up, receive_up, send_down};
use super::stream::{Listener, Stream};
use crate::report::row::Summary;

/// How long a stranger may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Connections that have not said hello, at most.
const MAX_STRANGERS: usize = 64;

/// What happens at the hub.
#[derive(Debug)]
pub(crate) enum Event {
    /// A rank has said hello on connection `connection`.
    Joined {
        connection: u64,
        hello: Hello,
        stream: Stream,
    },
    Frame {
        connection: u64,
        up: Up,
    },
    /// Nothing more will come on this connection.
    Lost {
        connection: u64,
        why: String,
    },
    /// Something connected that is no rank of this run.
    Stranger {
        why: String,
    },
}

/// Where a rank stands.
#[derive(Debug, Default)]
pub(crate) enum State {
    #[default]
    Absent,
    Running,
    Done(Summary),
    /// Has reported after a bad end, or is gone.
    Gone,
}

/// One rank.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) state: State,
    pub(crate) child: Option<Local>,
    pub(crate) connection: Option<u64>,
    pub(crate) stream: Option<Stream>,
    /// The last sign of life.
    pub(crate) heard: Option<Instant>,
    pub(crate) beat: Beat,
    /// What the rank has put into the exchange that is open.
    pub(crate) offered: Option<Vec<u8>>,
    pub(crate) report: Option<String>,
}

impl Seat {
    pub(crate) fn send(&mut self, down: &Down) -> io::Result<()> {
        match self.stream.as_mut() {
            Some(s) => send_down(s, down),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The stage of the last beat.
    pub(crate) fn last_seen_at(&self) -> &str {
        if self.beat.stage.is_empty() {
            "starting"
        } else {
            &self.beat.stage
        }
    }

    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self.state, State::Absent)
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}

/// Reads one connection: first the hello, then frames, until it ends.
pub(crate) fn read(connection: u64, mut stream: Stream, world: usize, to: &Sender<Event>) {
    let joined = greet(&mut stream, world);
    let (hello, writer) = match joined {
        Ok(both) => both,
        Err(e) => {
            // The hub has gone if nobody takes it.
            drop(to.send(Event::Stranger { why: e.to_string() }));
            return;
        }
    };
    if to
        .send(Event::Joined {
            connection,
            hello,
            stream: writer,
        })
        .is_err()
    {
        return;
    }
    loop {
        let event = match receive_up(&mut stream, MAX_UP) {
            Ok(up) => Event::Frame { connection, up },
            Err(e) => Event::Lost {
                connection,
                why: e.to_string(),
            },
        };
        let last = matches!(event, Event::Lost { .. });
        if to.send(event).is_err() || last {
            return;
        }
    }
}

fn greet(stream: &mut Stream, world: usize) -> io::Result<(Hello, Stream)> {
    stream.set_read_timeout(Some(HELLO_LIMIT))?;
    let refuse = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let Up::Hello(hello) = receive_up(stream, MAX_HELLO)? else {
        return Err(refuse("the first frame is no hello".to_owned()));
    };
    if hello.magic != MAGIC {
        return Err(refuse("the hello is of another program".to_owned()));
    }
    if hello.version != env!("CARGO_PKG_VERSION") {
        return Err(refuse(format!(
            "rank {} runs version {} of this tool, the coordinator {}: install the same on all hosts",
            hello.rank,
            hello.version,
            env!("CARGO_PKG_VERSION")
        )));
    }
    if hello.world != world || hello.rank >= world {
        return Err(refuse(format!(
            "rank {} of {} came to a run of {world}",
            hello.rank, hello.world
        )));
    }
    stream.set_read_timeout(None)?;
    let writer = stream.try_clone()?;
    writer.set_write_timeout(Some(Duration::from_secs(10)))?;
    Ok((hello, writer))
}

/// Accepts connections for ever, a thread for each; they end with their sockets, and this one with
/// the process.
pub(crate) fn accept(listener: &Listener, first: u64, world: usize, to: &Sender<Event>) {
    let open = std::sync::Arc::new(());
    for connection in first.. {
        let Ok(stream) = listener.accept() else {
            return;
        };
        if std::sync::Arc::strong_count(&open) > MAX_STRANGERS + world {
            continue;
        }
        let (to, token) = (to.clone(), std::sync::Arc::clone(&open));
        let started = std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || {
                read(connection, stream, world, &to);
                drop(token);
            });
        if started.is_err() {
            return;
        }
    }
}
