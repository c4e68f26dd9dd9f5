//! The live line: what the slowest rank does, and how far it is.

use core::time::Duration;
use std::time::Instant;

use super::out;
use crate::coord::frame::Beat;

/// Redrawn a few times a second on a terminal, and never elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    live: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) const fn new(live: bool) -> Self {
        Self { live, drawn: None }
    }

    /// Whether it is time to draw again.
    pub(crate) fn is_due(&self) -> bool {
        self.live
            && self
                .drawn
                .is_none_or(|t| t.elapsed() > Duration::from_millis(250))
    }

    /// Draws the line.
    pub(crate) fn draw(&mut self, beats: &[&Beat], start: Instant) {
        self.drawn = Some(Instant::now());
        out::live(&text(beats, start.elapsed()));
    }

    /// Leaves an empty line for other text.
    pub(crate) fn clear(&mut self) {
        if self.live && self.drawn.take().is_some() {
            out::live("");
        }
    }
}

fn text(beats: &[&Beat], elapsed: Duration) -> String {
    let share = |b: &Beat| {
        if b.total == 0 {
            1.0
        } else {
            b.done as f64 / b.total as f64
        }
    };
    let Some(slowest) = beats.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else {
        return String::new();
    };
    let seconds = elapsed.as_secs();
    if slowest.total == 0 {
        return format!("ofi perf: {seconds} s, {}", slowest.stage);
    }
    let filled = "#".repeat(small(share(slowest) * 20.0));
    format!(
        "ofi perf: {seconds} s, {} [{filled:<20}] {} of {}",
        slowest.stage, slowest.done, slowest.total
    )
}

/// 0 to 20.
fn small(x: f64) -> usize {
    (1..=20).take_while(|n| f64::from(*n) <= x).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_is_shown() {
        let beat = |done| Beat {
            stage: "bw 8 B".to_owned(),
            done,
            total: 10,
        };
        let (a, b) = (beat(9), beat(5));
        let line = text(&[&a, &b], Duration::from_secs(3));
        assert_eq!(line, "ofi perf: 3 s, bw 8 B [##########          ] 5 of 10");
    }
}
