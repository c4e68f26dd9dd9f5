//! The hub: seats the ranks, serves their exchanges, watches over them, gives the verdict.

use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use super::children;
use super::frame::{Beat, Down, Hello, Up};
use super::link::CLOSING;
use super::seat::{self, Event, Seat, State};
use super::stream::{Address, Listener, notice};
use crate::bench::plan::Plan;
use crate::report::out;
use crate::report::progress::Progress;
use crate::report::row::{Row, Summary};

/// How long ranks may take to report once the run is lost.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long they may take to end then: to close what they opened, and a bit.
const ENDING: Duration = CLOSING.saturating_add(Duration::from_secs(1));
/// How long other ranks may take to fail after the first.
const GRACE: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(100);
/// Beats come twice a second; so many seconds beyond the stall limit without one is no accident.
const BEAT_SLACK: Duration = Duration::from_secs(5);

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    Good,
    /// A rank failed, was killed, or found wrong bytes.
    Failed(String),
    /// Nothing moved for too long, or the whole run took too long.
    Stuck(String),
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Of the ranks that came through, by rank.
    pub(crate) summaries: Vec<Option<Summary>>,
}

/// The first process of a run.
#[derive(Debug)]
pub(crate) struct Hub {
    plan: Plan,
    job: String,
    seats: Vec<Seat>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    start: Instant,
    progress: Progress,
    rows: Vec<Row>,
    notes: Vec<String>,
    strangers: usize,
    /// Where ranks meet, until it has been said that some are waited for.
    meeting: Option<String>,
}

impl Hub {
    pub(crate) fn new(plan: Plan, job: String, live: bool) -> Self {
        let (sender, events) = channel();
        let seats = (0..plan.ranks).map(|_| Seat::default()).collect();
        Self {
            plan,
            job,
            seats,
            events,
            sender,
            start: Instant::now(),
            progress: Progress::new(live),
            rows: Vec::new(),
            notes: Vec::new(),
            strangers: 0,
            meeting: None,
        }
    }

    /// Starts rank `rank` on this machine.
    pub(crate) fn start_child(&mut self, rank: usize) -> io::Result<()> {
        let (child, stream) = children::start(rank, self.plan.ranks, &self.plan.env)?;
        self.seats[rank].child = Some(child);
        let (to, world) = (self.sender.clone(), self.plan.ranks);
        let connection = u64::try_from(rank).map_err(io::Error::other)?;
        std::thread::Builder::new()
            .name(format!("rank {rank}"))
            .spawn(move || seat::read(connection, stream, world, &to))?;
        Ok(())
    }

    /// Lets ranks that a launcher started come in at `address`.
    ///
    /// `origin` is what the user reads behind the address.
    pub(crate) fn listen(&mut self, address: &Address, origin: &str) -> io::Result<()> {
        let listener = Listener::bind(address)?;
        self.meeting = Some(format!("{address}{origin}"));
        let (to, world) = (self.sender.clone(), self.plan.ranks);
        // Connections of children have the numbers of their ranks.
        let first = u64::try_from(world).map_err(io::Error::other)?;
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || seat::accept(&listener, first, world, &to))?;
        Ok(())
    }

    /// Serves until the run is over.
    pub(crate) fn run(mut self) -> Outcome {
        let verdict = loop {
            let step = match self.events.recv_timeout(TICK) {
                Ok(event) => self.on_event(event),
                Err(RecvTimeoutError::Timeout) => self.on_tick(),
                Err(RecvTimeoutError::Disconnected) => Some(Verdict::Failed(
                    "the coordinator lost its own threads: a fault of this tool".to_owned(),
                )),
            };
            self.say_who_is_waited_for();
            self.draw();
            if let Some(verdict) = step.or_else(|| self.overdue()) {
                break verdict;
            }
        };
        self.progress.clear();
        let verdict = self.end(verdict);
        let summaries = self
            .seats
            .into_iter()
            .map(|s| {
                if let State::Done(summary) = s.state {
                    Some(summary)
                } else {
                    None
                }
            })
            .collect();
        Outcome {
            verdict,
            notes: self.notes,
            rows: self.rows,
            summaries,
        }
    }

    /// Says once that ranks have not come, and where they are awaited.
    fn say_who_is_waited_for(&mut self) {
        let limit = Duration::from_secs_f64(self.plan.timeout);
        if self.meeting.is_none() || self.start.elapsed() < notice(limit) {
            return;
        }
        let absent = self.seats.iter().filter(|s| s.is_absent()).count();
        if let Some(place) = self.meeting.take().filter(|_| absent > 0) {
            self.progress.clear();
            let all = self.seats.len();
            out::error_line(&format!(
                "ofi perf: waiting for {absent} of {all} ranks at {place}"
            ));
        }
    }

    fn draw(&mut self) {
        if self.progress.is_due() {
            let running = self.seats.iter().filter(|s| s.is_running());
            let beats: Vec<&Beat> = running.map(|s| &s.beat).collect();
            self.progress.draw(&beats, self.start);
        }
    }

    fn on_event(&mut self, event: Event) -> Option<Verdict> {
        match event {
            Event::Joined {
                connection,
                hello,
                stream,
            } => self.on_join(connection, &hello, stream),
            Event::Frame { connection, up } => {
                let rank = self.rank_of(connection)?;
                self.seats[rank].heard = Some(Instant::now());
                self.on_frame(rank, up)
            }
            Event::Lost { connection, why } => {
                let rank = self.rank_of(connection)?;
                self.on_lost(rank, &why)
            }
            Event::Stranger { why } => {
                self.strangers += 1;
                if self.strangers <= 3 {
                    self.progress.clear();
                    out::error_line(&format!("ofi perf: a connection was turned away: {why}"));
                }
                None
            }
        }
    }

    fn on_join(
        &mut self,
        connection: u64,
        hello: &Hello,
        stream: super::stream::Stream,
    ) -> Option<Verdict> {
        let plan = Down::Plan(Box::new(self.plan.clone()));
        let seat = &mut self.seats[hello.rank];
        // A rank that is our child comes by its own socket and no other.
        let expected = match &seat.child {
            Some(_) => usize::try_from(connection) == Ok(hello.rank),
            None => hello.job == self.job,
        };
        if !matches!(seat.state, State::Absent) || !expected {
            out::error_line(&format!(
                "ofi perf: a second rank {} (job {:?}) was turned away: two runs at one address? Give each its own --rendezvous",
                hello.rank, hello.job
            ));
            return None;
        }
        seat.state = State::Running;
        seat.connection = Some(connection);
        seat.stream = Some(stream);
        seat.heard = Some(Instant::now());
        match seat.send(&plan) {
            Ok(()) => None,
            Err(e) => Some(Verdict::Failed(format!(
                "rank {} cannot be told the plan: {e}",
                hello.rank
            ))),
        }
    }

    fn on_frame(&mut self, rank: usize, up: Up) -> Option<Verdict> {
        match up {
            Up::Hello(_) => Some(Verdict::Failed(format!("rank {rank} said hello twice"))),
            Up::Beat(beat) => {
                self.seats[rank].beat = beat;
                None
            }
            Up::Note(text) => {
                self.notes.push(text);
                None
            }
            Up::Row(row) => {
                self.rows.push(*row);
                None
            }
            Up::Gather(bytes) => self.on_offer(rank, bytes),
            Up::Stalled(what) => {
                self.seats[rank].report = Some(what);
                let limit = self.plan.stall;
                Some(Verdict::Stuck(format!(
                    "rank {rank} has not moved for {limit} s (--stall)\n  likely: a peer that is gone or waits for something else, a lost message, a plugin that needs more calls\n  try: --log info; the state of every rank stands below"
                )))
            }
            Up::Report(text) => {
                self.seats[rank].report = Some(text);
                None
            }
            Up::Failed(why) => {
                self.seats[rank].state = State::Gone;
                Some(Verdict::Failed(format!("rank {rank}: {why}")))
            }
            Up::Done(summary) => {
                self.seats[rank].state = State::Done(summary);
                let all = self.seats.iter().all(|s| matches!(s.state, State::Done(_)));
                all.then_some(Verdict::Good)
            }
        }
    }

    /// A contribution; the last one sends all of them to everybody.
    fn on_offer(&mut self, rank: usize, bytes: Vec<u8>) -> Option<Verdict> {
        if self.seats[rank].offered.replace(bytes).is_some() {
            return Some(Verdict::Failed(format!(
                "rank {rank} contributed twice: out of step"
            )));
        }
        if self.seats.iter().any(|s| s.offered.is_none()) {
            return None;
        }
        let parts = self
            .seats
            .iter_mut()
            .filter_map(|s| s.offered.take())
            .collect();
        let all = Down::Gathered(parts);
        for (r, seat) in self.seats.iter_mut().enumerate() {
            if let Err(e) = seat.send(&all) {
                return Some(Verdict::Failed(format!(
                    "rank {r} does not take messages: {e}"
                )));
            }
        }
        None
    }

    fn on_lost(&mut self, rank: usize, why: &str) -> Option<Verdict> {
        let seat = &mut self.seats[rank];
        let was_running = seat.is_running();
        if !matches!(seat.state, State::Done(_)) {
            seat.state = State::Gone;
        }
        if !was_running {
            return None;
        }
        let how = wait_for_child(seat, LAST_WORDS)
            .unwrap_or_else(|| format!("its connection ended: {why}"));
        let doing = seat.last_seen_at();
        Some(Verdict::Failed(format!(
            "rank {rank} is gone: {how}\n  it was last seen at: {doing}"
        )))
    }

    /// Children that ended before they said hello.
    fn on_tick(&mut self) -> Option<Verdict> {
        for (rank, seat) in self.seats.iter_mut().enumerate() {
            if matches!(seat.state, State::Absent) && seat.child.is_some() {
                if let Some(how) = wait_for_child(seat, Duration::ZERO) {
                    return Some(Verdict::Failed(format!("rank {rank} did not start: {how}")));
                }
            }
        }
        None
    }

    fn overdue(&self) -> Option<Verdict> {
        let silence = Duration::from_secs_f64(self.plan.stall) + BEAT_SLACK;
        for (rank, seat) in self.seats.iter().enumerate() {
            if seat.is_running() && seat.heard.is_some_and(|t| t.elapsed() > silence) {
                return Some(Verdict::Stuck(format!(
                    "rank {rank} has given no sign of life for {:.0} s: stopped (SIGSTOP), out of memory, or its host is gone",
                    silence.as_secs_f64()
                )));
            }
        }
        if self.start.elapsed() < Duration::from_secs_f64(self.plan.timeout) {
            return None;
        }
        let absent: Vec<String> = self
            .seats
            .iter()
            .enumerate()
            .filter(|(_, s)| matches!(s.state, State::Absent))
            .map(|(r, _)| r.to_string())
            .collect();
        let limit = self.plan.timeout;
        Some(Verdict::Stuck(if absent.is_empty() {
            format!("the run is not through after {limit} s (--timeout)")
        } else {
            format!(
                "after {limit} s (--timeout) rank(s) {} have not come\n  likely: not started, another --rendezvous, a firewall",
                absent.join(", ")
            )
        }))
    }

    /// Tells everybody, hears last words, leaves no child behind.
    fn end(&mut self, verdict: Verdict) -> Verdict {
        let good = matches!(verdict, Verdict::Good);
        let verdict = match verdict {
            Verdict::Failed(first) => Verdict::Failed(first + &self.hear_other_failures()),
            other => other,
        };
        for seat in &mut self.seats {
            // A rank that is gone cannot be told.
            drop(seat.send(&Down::End { good }));
        }
        let verdict = match verdict {
            Verdict::Stuck(why) => {
                self.hear_last_words();
                Verdict::Stuck(why + &self.reports())
            }
            other => other,
        };
        let limit = if good {
            Duration::from_secs(10)
        } else {
            ENDING
        };
        let since = Instant::now();
        for seat in &mut self.seats {
            if seat.child.is_some()
                && wait_for_child(seat, limit.saturating_sub(since.elapsed())).is_none()
            {
                let Some(child) = seat.child.as_mut() else {
                    continue;
                };
                // It may have ended meanwhile; then there is nothing to kill.
                drop(child.process.kill());
                drop(child.process.wait());
            }
        }
        verdict
    }

    /// The first to complain need not be the one at fault: the others get a moment to fail too.
    fn hear_other_failures(&mut self) -> String {
        let (start, mut text) = (Instant::now(), String::new());
        while start.elapsed() < GRACE && self.seats.iter().any(Seat::is_running) {
            let Ok(event) = self.events.recv_timeout(TICK) else {
                continue;
            };
            if let Some(Verdict::Failed(why)) = self.on_event(event) {
                text.push_str("\nalso ");
                text.push_str(&why);
            }
        }
        text
    }

    fn hear_last_words(&mut self) {
        let start = Instant::now();
        while start.elapsed() < LAST_WORDS && self.seats.iter().any(Seat::is_running) {
            let Ok(event) = self.events.recv_timeout(TICK) else {
                continue;
            };
            match event {
                Event::Frame {
                    connection,
                    up: Up::Report(text),
                } => {
                    if let Some(rank) = self.rank_of(connection) {
                        self.seats[rank].report = Some(text);
                        self.seats[rank].state = State::Gone;
                    }
                }
                Event::Lost { connection, .. } => {
                    if let Some(rank) = self.rank_of(connection) {
                        self.seats[rank].state = State::Gone;
                    }
                }
                _ => {}
            }
        }
    }

    fn reports(&self) -> String {
        let line = |(rank, seat): (usize, &Seat)| match (&seat.report, &seat.state) {
            (Some(text), _) => format!("\n  rank {rank}: {text}"),
            (None, State::Absent) => format!("\n  rank {rank}: never came"),
            (None, _) => format!(
                "\n  rank {rank}: no answer (stopped by SIGSTOP, gone or unreachable); last seen at: {}",
                seat.last_seen_at()
            ),
        };
        self.seats.iter().enumerate().map(line).collect()
    }

    fn rank_of(&self, connection: u64) -> Option<usize> {
        self.seats
            .iter()
            .position(|s| s.connection == Some(connection))
    }
}

/// How the child ended, if it does within `limit`.
fn wait_for_child(seat: &mut Seat, limit: Duration) -> Option<String> {
    let child = seat.child.as_mut()?;
    let start = Instant::now();
    loop {
        if let Ok(Some(status)) = child.process.try_wait() {
            let how = child.ended(status);
            seat.child = None;
            return Some(how);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
