//! What each rank has measured of a point, and what all of them make of it.

use serde::{Deserialize, Serialize};

use super::fail::Fail;
use crate::coord::{ControlError, Link};
use crate::report::row::{Latency, latency};

/// Samples that travel to the other ranks, at most: enough for a p99.
const KEPT: usize = 2000;

/// One rank's share of a point.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    /// Microseconds.
    pub(crate) samples: Vec<f64>,
}

/// All of them together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Total {
    /// The slowest rank's.
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) latency: Option<Latency>,
}

impl Measure {
    /// Exchanges the measures of all ranks.
    pub(crate) fn combine(mut self, link: &Link) -> Result<Total, Fail> {
        self.samples = thin(self.samples);
        let mine = serde_json::to_vec(&self).map_err(|e| ControlError::Broken(e.into()))?;
        let mut all = Vec::new();
        for part in link.gather(mine)? {
            let measure = serde_json::from_slice(&part);
            all.push(measure.map_err(|e| ControlError::Broken(e.into()))?);
        }
        Ok(total(&all))
    }
}

fn total(all: &[Measure]) -> Total {
    let mut samples: Vec<f64> = all.iter().flat_map(|m| m.samples.iter().copied()).collect();
    Total {
        seconds: all.iter().map(|m| m.seconds).fold(0.0, f64::max),
        bytes: all.iter().map(|m| m.bytes).sum(),
        messages: all.iter().map(|m| m.messages).sum(),
        latency: latency(&mut samples),
    }
}

impl Total {
    /// 10^9 bytes a second.
    pub(crate) fn gbps(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9) / 1e9
    }

    pub(crate) fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds.max(1e-9)
    }
}

/// Evenly spaced order statistics, the smallest and the largest among them.
fn thin(mut samples: Vec<f64>) -> Vec<f64> {
    if samples.len() <= KEPT {
        return samples;
    }
    samples.sort_by(f64::total_cmp);
    let last = samples.len() - 1;
    (0..KEPT).map(|i| samples[last * i / (KEPT - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts_and_bytes_add_up() {
        let m = |seconds, bytes| Measure {
            seconds,
            bytes,
            messages: 2,
            samples: vec![seconds],
        };
        let t = total(&[m(1.0, 10), m(2.0, 30)]);
        assert_eq!((t.seconds, t.bytes, t.messages), (2.0, 40, 4));
        assert_eq!(t.latency.map(|l| (l.min, l.p99)), Some((1.0, 2.0)));
    }

    #[test]
    fn thinning_keeps_the_ends() {
        let many: Vec<f64> = (0..100_000).map(f64::from).collect();
        let kept = thin(many);
        assert_eq!((kept.len(), kept[0], kept[KEPT - 1]), (KEPT, 0.0, 99_999.0));
    }
}
