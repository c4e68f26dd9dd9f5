//! A connection in each direction between two devices, with memory: the transport's calls with a deadline.

use core::time::Duration;
use std::time::Instant;

use ofi_net::{CommWord, MemoryKind, MrWord, NetError, ReqWord, Transport};

use super::cause::{Failure, Stage};
use super::talk::Talk;
use crate::abi::Region;

/// The longest message.
pub(super) const LONGEST: usize = 1 << 20;
/// Messages in flight.
pub(super) const WINDOW: usize = 4;

/// Both directions.
#[derive(Debug)]
pub(super) struct Lane<'t> {
    transport: &'t Transport,
    limit: Duration,
    send: CommWord,
    recv: CommWord,
    pub(super) out: Region,
    pub(super) room: Region,
    out_mr: MrWord,
    room_mr: MrWord,
}

/// Asks until there is an answer. A transport has no thread: both sides move on by being asked.
fn until<T>(
    limit: Duration,
    (stage, what): (Stage, &str),
    mut ask: impl FnMut() -> Result<Option<T>, NetError>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) if start.elapsed() >= limit => {
                let seconds = limit.as_secs_f64();
                return Err(Failure::new(
                    stage,
                    format_args!("{what}: no answer in {seconds} s"),
                ));
            }
            Ok(None) => std::thread::yield_now(),
            Err(error) => return Err(Failure::new(stage, error)),
        }
    }
}

impl<'t> Lane<'t> {
    /// Connects device `dev` of both sides.
    pub(super) fn open(
        transport: &'t Transport,
        dev: usize,
        talk: &mut Talk,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let failed = |e: NetError| Failure::new(Stage::Connect, e);
        let mut mine = [0; 128];
        let listener = transport.listen(dev, &mut mine).map_err(failed)?;
        let mut theirs = talk.swap_handles(&mine)?;
        let (mut send, mut recv) = (None, None);
        let (send, recv) = until(limit, (Stage::Connect, "connecting"), || {
            send = match send {
                None => transport.connect(dev, &mut theirs)?,
                some => some,
            };
            recv = match recv {
                None => transport.accept(listener)?,
                some => some,
            };
            Ok(send.zip(recv))
        })?;
        transport.close_listen(listener).map_err(failed)?;
        let bytes = LONGEST * WINDOW;
        let map = || Region::map(bytes).map_err(|e| Failure::new(Stage::Connect, e));
        let (out, room) = (map()?, map()?);
        let register = |comm, region: &Region| {
            let at = region.address(0, bytes).cast();
            // SAFETY: the region is memory of the host, mapped as long as the process lives.
            unsafe { transport.reg_mr(comm, at, bytes, MemoryKind::Host) }.map_err(failed)
        };
        Ok(Self {
            out_mr: register(send, &out)?,
            room_mr: register(recv, &room)?,
            transport,
            limit,
            send,
            recv,
            out,
            room,
        })
    }

    /// Starts to send `len` bytes of a slot.
    pub(super) fn start_send(&self, slot: usize, len: usize) -> Result<ReqWord, Failure> {
        let at = self.out.address(slot * LONGEST, len).cast();
        until(self.limit, (Stage::Data, "sending"), || {
            // SAFETY: the region is mapped as long as the process lives and no reference into it exists;
            // its bytes are written only between messages, or the run has failed.
            unsafe { self.transport.isend(self.send, at, len, Some(self.out_mr)) }
        })
    }

    /// Starts to receive up to `len` bytes into a slot.
    pub(super) fn start_recv(&self, slot: usize, len: usize) -> Result<ReqWord, Failure> {
        let at = self.room.address(slot * LONGEST, len).cast();
        until(self.limit, (Stage::Data, "receiving"), || {
            // SAFETY: as in `start_send`; bytes are read out only after the request is done.
            unsafe {
                self.transport
                    .irecv(self.recv, at, len, Some(self.room_mr), false)
            }
        })
    }

    /// Waits for a request; its bytes.
    pub(super) fn finish(&self, request: ReqWord) -> Result<u64, Failure> {
        let what = (Stage::Data, "a message");
        until(self.limit, what, || self.transport.test(request))
    }

    /// Sends and receives at once.
    pub(super) fn exchange(&self, len: usize) -> Result<u64, Failure> {
        let want = self.start_recv(0, len)?;
        let give = self.start_send(0, len)?;
        let (mut gave, mut got) = (None, None);
        let both = until(self.limit, (Stage::Data, "a message each way"), || {
            gave = match gave {
                None => self.transport.test(give)?,
                some => some,
            };
            got = match got {
                None => self.transport.test(want)?,
                some => some,
            };
            Ok(gave.zip(got))
        })?;
        Ok(both.1)
    }

    /// Gives everything back.
    pub(super) fn close(self) -> Result<(), Failure> {
        let closed = self
            .transport
            .dereg_mr(self.send, self.out_mr)
            .and_then(|()| self.transport.dereg_mr(self.recv, self.room_mr))
            .and_then(|()| self.transport.close_send(self.send))
            .and_then(|()| self.transport.close_recv(self.recv));
        closed.map_err(|e| Failure::new(Stage::Data, e))
    }
}
