//! The traffic class of what is sent: one for all domains of a transport, and the first one asked for.
//!
//! NCCL gives a class with each context (v11) or connection (v10). An endpoint has one class from when
//! it is made (`fi_endpoint(3)`, `tx_attr.tclass`), communicators share endpoints, and a registration
//! serves all communicators of a device; so classes cannot differ by communicator. A class that comes
//! too late, or differs from the first, is one warning.

use super::Transport;
use crate::error::{Code, NetError};
use crate::log::{self, Subsys};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A traffic class as libfabric has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TrafficClass(u32);

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
    fn new(number: u32) -> Result<Self, NetError> {
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
    const fn value(self) -> u32 {
        self.0
    }
}

/// What became of asking for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Endpoints have it, or will.
    Granted,
    /// It cannot be had: endpoints have this one, or none.
    Late(Option<TrafficClass>),
}

/// The class of a transport.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    class: Option<TrafficClass>,
    /// Endpoints were made.
    is_fixed: bool,
    is_said: bool,
}

impl Traffic {
    /// Asks for a class.
    fn ask(&self, class: TrafficClass) -> Answer {
        let mut state = self.state();
        if state.class == Some(class) {
            return Answer::Granted;
        }
        if state.class.is_none() && !state.is_fixed {
            state.class = Some(class);
            return Answer::Granted;
        }
        Answer::Late(state.class)
    }

    /// Whether this is the first time that something is to be said.
    fn is_first_word(&self) -> bool {
        !core::mem::replace(&mut self.state().is_said, true)
    }

    /// The class for endpoints that are made now, as libfabric has it; from here on it is what it is.
    pub(crate) fn fix(&self) -> Option<u32> {
        let mut state = self.state();
        state.is_fixed = true;
        state.class.map(TrafficClass::value)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport {
    /// Asks that what is sent have a traffic class: a number as NCCL's users write it, 0 to 255 as in an
    /// IP header, else one of libfabric's. The first class asked for before the first listen or connect
    /// is what everything gets, if the provider takes it; any other is one warning, and nothing else.
    pub fn ask_traffic_class(&self, number: u32) {
        let why = match TrafficClass::new(number) {
            Err(error) => error.to_string(),
            Ok(class) => match self.traffic.ask(class) {
                Answer::Granted => return,
                Answer::Late(used) => describe_late(number, used),
            },
        };
        if self.traffic.is_first_word() {
            log::warn(&*self.log, Subsys::Net, || why);
        }
    }
}

fn describe_late(number: u32, used: Option<TrafficClass>) -> String {
    let have = match used {
        Some(class) => format!("traffic class {:#x} of libfabric", class.value()),
        None => "no traffic class".to_owned(),
    };
    format!(
        "traffic class {number} cannot be had: the endpoints of this process have {have}, which was \
         fixed before; give all communicators one class, from the first on"
    )
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

    #[test]
    fn the_first_class_before_the_first_endpoint_wins() {
        let class = |number| TrafficClass::new(number).unwrap();
        let traffic = Traffic::default();
        assert_eq!(traffic.ask(class(8)), Answer::Granted);
        assert_eq!(traffic.ask(class(8)), Answer::Granted);
        assert_eq!(traffic.ask(class(16)), Answer::Late(Some(class(8))));
        assert_eq!(traffic.fix(), Some(0x102));
        assert_eq!(traffic.ask(class(16)), Answer::Late(Some(class(8))));
        assert_eq!(traffic.ask(class(8)), Answer::Granted);

        let plain = Traffic::default();
        assert_eq!(plain.fix(), None);
        assert_eq!(plain.ask(class(8)), Answer::Late(None));
        assert_eq!(plain.fix(), None);
        assert!(plain.is_first_word() && !plain.is_first_word());
    }
}
