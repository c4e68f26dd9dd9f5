//! What the two sides say to each other, beside the network: lines of text.

use core::cell::RefCell;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// What a side says on stderr before it kills itself.
pub(crate) const GOODBYE: &str = "this side dies now, as its rule says";

const PATIENCE: Duration = Duration::from_secs(60);

/// One end.
pub(crate) enum Link {
    Channel(Sender<String>, Receiver<String>),
    Socket(RefCell<(UnixStream, BufReader<UnixStream>)>),
}

impl Link {
    /// Both ends, for two threads.
    pub(crate) fn channels() -> (Self, Self) {
        let ((to_b, at_b), (to_a, at_a)) = (channel(), channel());
        (Self::Channel(to_b, at_a), Self::Channel(to_a, at_b))
    }

    /// One end, for a process.
    pub(crate) fn socket(side: usize, dir: &Path) -> Self {
        let path = dir.join("link");
        let stream = if side == 0 {
            let waiting = dir.join("waiting");
            let listener = UnixListener::bind(&waiting).expect("a socket");
            // The other side looks for the name only when somebody listens.
            std::fs::rename(waiting, path).expect("a name");
            listener.accept().expect("the other side").0
        } else {
            let start = Instant::now();
            loop {
                match UnixStream::connect(&path) {
                    Ok(stream) => break stream,
                    Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
                }
                std::thread::yield_now();
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let reader = BufReader::new(stream.try_clone().expect("a socket"));
        Self::Socket(RefCell::new((stream, reader)))
    }

    pub(crate) fn tell(&self, text: &str) {
        match self {
            Self::Channel(sender, _) => sender.send(text.to_owned()).expect("the other side"),
            Self::Socket(socket) => {
                writeln!(socket.borrow_mut().0, "{text}").expect("the other side");
            }
        }
    }

    pub(crate) fn hear(&self) -> String {
        match self {
            Self::Channel(_, receiver) => receiver.recv_timeout(PATIENCE).expect("the other side"),
            Self::Socket(socket) => {
                let mut line = String::new();
                socket
                    .borrow_mut()
                    .1
                    .read_line(&mut line)
                    .expect("the other side");
                assert!(line.ends_with('\n'), "the other side is gone");
                line.trim_end().to_owned()
            }
        }
    }

    /// Waits until the other side is here too.
    pub(crate) fn meet(&self) {
        self.tell("here");
        assert_eq!(self.hear(), "here");
    }
}
