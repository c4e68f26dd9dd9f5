//! What is measured.

use serde::{Deserialize, Serialize};

use crate::abi::Device;
use crate::bench::plan::Mode;

/// Microseconds: a message in the modes between ranks, an operation in the collectives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
}

/// One measured point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) mode: Mode,
    /// Bytes of a message; of the whole buffer in collectives; the upper bound in check.
    pub(crate) size: usize,
    /// Messages in flight on a communicator, at most: as asked for, clipped to the pool.
    pub(crate) window: usize,
    pub(crate) window_asked: usize,
    /// Communicators used in each direction.
    pub(crate) comms: usize,
    /// Messages per flow, or operations.
    pub(crate) iterations: u64,
    /// Messages of all ranks together, in the timed part.
    pub(crate) messages: u64,
    pub(crate) latency_us: Option<Latency>,
    /// 10^9 bytes a second as the user counts them.
    pub(crate) algorithm_gbps: f64,
    /// The same, scaled to what each link must carry at least (2(n-1)/n, (n-1)/n).
    pub(crate) bus_gbps: f64,
    pub(crate) messages_per_s: f64,
    pub(crate) verified: bool,
}

/// What a rank says when it is through.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) host: String,
    pub(crate) plugin: String,
    pub(crate) devices: Vec<Device>,
    pub(crate) init_ms: f64,
    /// Connections of this rank, both directions.
    pub(crate) connections: u64,
    pub(crate) connect_ms: f64,
    pub(crate) verified_messages: u64,
    pub(crate) verified_bytes: u64,
    /// Largest resident memory (`VmHWM`), KiB.
    pub(crate) memory_kib: u64,
    /// WARN lines that the plugin logged.
    pub(crate) warnings: u64,
    /// Posting calls that gave no request and were made again.
    pub(crate) retries: u64,
}

/// The figures of a sorted sample; None if it is empty.
pub(crate) fn latency(samples: &mut [f64]) -> Option<Latency> {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().checked_sub(1)?;
    Some(Latency {
        min: samples[0],
        median: samples[last / 2],
        p99: samples[last - last / 100],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_sample() {
        let mut v: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let l = latency(&mut v).unwrap();
        assert_eq!((l.min, l.median, l.p99), (1.0, 500.0, 991.0));
        assert_eq!(latency(&mut []), None);
        assert_eq!(latency(&mut [3.0]).map(|l| l.p99), Some(3.0));
    }
}
