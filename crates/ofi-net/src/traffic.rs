//! The traffic class of what is sent.
//!
//! NCCL gives a class with each context (v11 and later) or connection (v10). An endpoint has one class
//! from when it is made (`fi_endpoint(3)`, `tx_attr.tclass`), so communicators of different classes are
//! on different domains ([`crate::owners`]); a region of one serves the others too ([`crate::twins`]).

use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A traffic class as libfabric has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficClass(u32);

/// `FI_TC_DSCP` of `fi_endpoint(3)`: the low six bits are a differentiated services code point.
const DSCP: u32 = 0x100;
const DSCP_MAX: u32 = DSCP + 63;
/// `FI_TC_BEST_EFFORT` to `FI_TC_NETWORK_CTRL`.
const LABELS: core::ops::RangeInclusive<u32> = 0x200..=0x205;

impl TrafficClass {
    /// From the number that NCCL's users write: up to 255 the traffic class byte of an IP header, whose
    /// upper six bits are the code point (the lower two are not ours to set), else a value of
    /// libfabric, `FI_TC_DSCP | code point` or a label such as `FI_TC_LOW_LATENCY`.
    ///
    /// # Errors
    /// Anything else ([`Code::InvalidValue`]).
    pub fn new(number: u32) -> Result<Self, NetError> {
        match number {
            0..=255 => Ok(Self(DSCP | number >> 2)),
            DSCP..=DSCP_MAX => Ok(Self(number)),
            _ if LABELS.contains(&number) => Ok(Self(number)),
            _ => {
                let what = format!(
                    "traffic class {number}: neither the traffic class of an IP header (0 to 255) nor \
                     one of libfabric (FI_TC_*)"
                );
                Err(NetError::new(Code::InvalidValue, what))
            }
        }
    }

    /// What libfabric is given.
    pub(crate) const fn value(self) -> u32 {
        self.0
    }
}

/// What was said of classes: each line once in a transport, whatever device or thread it is about.
#[derive(Debug, Default)]
pub(crate) struct Said {
    number: AtomicBool,
    refused: Mutex<Vec<TrafficClass>>,
}

impl Said {
    /// The class that a number means; one that means none is one warning.
    pub(crate) fn class(&self, number: Option<u32>, log: &dyn Log) -> Option<TrafficClass> {
        let class = number.map(TrafficClass::new)?;
        let unknown = |error: NetError| {
            if !self.number.swap(true, Ordering::Relaxed) {
                log::warn(log, Subsys::Net, || error);
            }
        };
        class.map_err(unknown).ok()
    }

    /// A domain has a class.
    pub(crate) fn granted(label: &str, class: TrafficClass, log: &dyn Log) {
        let class = class.value();
        log::info(log, Subsys::Net, || {
            format!("{label}: traffic class {class:#x}")
        });
    }

    /// A class is a wish: a provider that does not have it still moves bytes.
    pub(crate) fn refused(&self, label: &str, class: TrafficClass, why: &NetError, log: &dyn Log) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.contains(&class) {
            return;
        }
        refused.push(class);
        drop(refused);
        let class = class.value();
        log::warn(log, Subsys::Net, || {
            let what = format!("{label}: class {class:#x}: {}", why.what());
            NetError::new(Code::TrafficClass, what)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_ip_headers_or_of_libfabric() {
        let value = |number| TrafficClass::new(number).map(TrafficClass::value).ok();
        // Expedited forwarding: code point 46, in a header 184; with congestion bits the same.
        assert_eq!(value(184), Some(0x100 | 46));
        assert_eq!(value(187), Some(0x100 | 46));
        assert_eq!(value(0), Some(0x100));
        assert_eq!(value(0x12e), Some(0x12e));
        assert_eq!(value(0x201), Some(efa_fabric::consts::FI_TC_LOW_LATENCY));
        for wrong in [0x140, 0x1ff, 0x206, u32::MAX] {
            assert_eq!(value(wrong), None, "{wrong:#x}");
        }
    }
}
