//! A rank's end of the connection to the hub: all-gather, results, and the two helper threads that
//! keep a stuck rank talking.

use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

use super::board::Board;
use super::frame::{Down, Hello, MAGIC, Up, receive_down, send_up};
use super::stream::Stream;
use crate::abi::process;
use crate::bench::plan::Plan;
use crate::report::out;
use crate::report::row::{Row, Summary};

/// Exit status of a rank that was told to end: the reason is printed elsewhere.
const TOLD_TO_END: i32 = 1;
const TICK: Duration = Duration::from_millis(100);
/// How long a rank that was told to end may take to close what it opened. Longer than what a plugin waits for by
/// itself: this project's up to 5 s for operations on a region that is deregistered, and 2 s when it ends.
pub(super) const CLOSING: Duration = Duration::from_secs(10);

/// The connection to the hub failed, or made no sense.
#[derive(Debug, Error)]
pub(crate) enum ControlError {
    #[error("the connection to the coordinator (rank 0's first process) broke: {0}")]
    Broken(#[from] io::Error),
    #[error("the coordinator said something else than the {expected} that was due")]
    OutOfStep { expected: &'static str },
}

/// A rank's connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    pub(crate) board: Arc<Board>,
    writer: Arc<Mutex<Stream>>,
    inbox: Receiver<Down>,
}

impl Link {
    /// Says hello, takes the plan, starts the reader and the watch.
    pub(crate) fn join(
        mut stream: Stream,
        rank: usize,
        world: usize,
        job: String,
    ) -> Result<(Self, Plan), ControlError> {
        let hello = Hello {
            magic: MAGIC.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rank,
            world,
            job,
        };
        send_up(&mut stream, &Up::Hello(hello))?;
        let Down::Plan(plan) = receive_down(&mut stream)? else {
            return Err(ControlError::OutOfStep { expected: "plan" });
        };
        let board = Arc::new(Board::new());
        let reader = stream.try_clone()?;
        let writer = Arc::new(Mutex::new(stream));
        let (tx, inbox) = channel();
        let watch = Watch {
            rank,
            board: Arc::clone(&board),
            writer: Arc::clone(&writer),
        };
        let patience = Duration::from_secs_f64(plan.stall);
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || read_frames(reader, tx, &watch))?;
        let watch = Watch {
            rank,
            board: Arc::clone(&board),
            writer: Arc::clone(&writer),
        };
        std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || watch.run(patience))?;
        Ok((
            Self {
                rank,
                world,
                board,
                writer,
                inbox,
            },
            *plan,
        ))
    }

    /// Every rank gives bytes, every rank gets those of all, in rank order.
    pub(crate) fn gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>, ControlError> {
        self.board.wait_for_others(true);
        self.send(&Up::Gather(mine))?;
        let answer = self.inbox.recv();
        self.board.wait_for_others(false);
        match answer {
            Ok(Down::Gathered(parts)) if parts.len() == self.world => Ok(parts),
            _ => Err(ControlError::OutOfStep {
                expected: "exchange",
            }),
        }
    }

    /// Waits until every rank is here.
    pub(crate) fn barrier(&self) -> Result<(), ControlError> {
        self.gather(Vec::new()).map(drop)
    }

    pub(crate) fn row(&self, row: Row) -> Result<(), ControlError> {
        self.send(&Up::Row(Box::new(row)))
    }

    pub(crate) fn note(&self, text: String) -> Result<(), ControlError> {
        self.send(&Up::Note(text))
    }

    /// The rank is through; true if the whole run is good.
    pub(crate) fn done(&self, summary: Summary) -> Result<bool, ControlError> {
        self.board.wait_for_others(true);
        self.send(&Up::Done(summary))?;
        match self.inbox.recv() {
            Ok(Down::End { good }) => Ok(good),
            _ => Err(ControlError::OutOfStep { expected: "end" }),
        }
    }

    /// Tells why the rank gives up, and waits to be told to end: who closes its end before the others are
    /// told has them fail too. A rank that was told to end has nothing to tell.
    pub(crate) fn failed(&self, why: String) {
        if self.board.is_ending() {
            return;
        }
        if self.send(&Up::Failed(why.clone())).is_err() {
            out::error_line(&format!("rank {}: {why}", self.rank));
            return;
        }
        // Until the reader thread is told to end, and is no sender any more; or the hub does not answer.
        drop(self.inbox.recv_timeout(Duration::from_secs(10)));
    }

    fn send(&self, up: &Up) -> Result<(), ControlError> {
        let mut to = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(send_up(&mut *to, up)?)
    }
}

/// What the helper threads share.
struct Watch {
    rank: usize,
    board: Arc<Board>,
    writer: Arc<Mutex<Stream>>,
}

impl Watch {
    fn send(&self, up: &Up) -> io::Result<()> {
        send_up(
            &mut *self.writer.lock().unwrap_or_else(PoisonError::into_inner),
            up,
        )
    }

    /// Beats twice a second; tells on the rank when nothing moved for `patience`.
    fn run(&self, patience: Duration) {
        let mut told = false;
        for tick in 1_u64.. {
            std::thread::sleep(TICK);
            let stuck = self.board.quiet_for() >= patience;
            let message = if stuck && !told {
                Up::Stalled(self.board.report())
            } else if tick % 5 == 0 {
                Up::Beat(self.board.beat())
            } else {
                continue;
            };
            told = stuck;
            if self.send(&message).is_err() {
                return;
            }
        }
    }
}

/// Passes frames on; answers a bad end with a report, and sees to it that the process ends, wherever the
/// main thread may be stuck.
fn read_frames(mut from: Stream, to: Sender<Down>, watch: &Watch) {
    loop {
        match receive_down(&mut from) {
            Ok(Down::End { good: false }) => {
                // The hub may be gone: there is nobody left to tell then.
                drop(watch.send(&Up::Report(watch.board.report())));
                break;
            }
            Ok(down) => {
                let last = matches!(down, Down::End { .. });
                if to.send(down).is_err() || last {
                    return;
                }
            }
            Err(_) => break,
        }
    }
    watch.board.end();
    // Who waits for a frame learns that none comes.
    drop(to);
    std::thread::sleep(CLOSING);
    out::error_line(&format!(
        "ofi perf: rank {} did not close everything within {} s: a call of the plugin has not returned; what counts as open now is no leak",
        watch.rank,
        CLOSING.as_secs()
    ));
    process::exit_now(TOLD_TO_END);
}
