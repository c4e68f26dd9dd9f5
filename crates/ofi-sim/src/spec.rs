//! The text form of a configuration (`seed=7 hosts=2 rails=4 ...`): it names what differs from the
//! default and parses back to the same value, so a failure is replayed by pasting its line.

use core::fmt;
use core::str::FromStr;

use crate::config::{Death, Sabotage, SimConfig};

/// A specification that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not `key=value`, or not a number.
    #[error(
        "{0:?} is not of the form key=number: a specification looks like \"seed=7 hosts=2 rails=4\""
    )]
    Syntax(String),
    /// Settings that the engine does not take.
    #[error(transparent)]
    Engine(ofi_rdma::ConfigError),
    /// No such key.
    #[error("there is no key {0:?}; the keys are those that SimConfig's Display prints")]
    Key(String),
    /// A number out of its range.
    #[error("{key}={value} is out of range: {min}..={max}")]
    Range {
        /// The key.
        key: &'static str,
        /// The value given.
        value: i128,
        /// Smallest value.
        min: i128,
        /// Largest value.
        max: i128,
    },
}

/// One number of the specification.
struct Key {
    name: &'static str,
    min: i128,
    max: i128,
    get: fn(&SimConfig) -> i128,
    set: fn(&mut SimConfig, i128),
}

impl Key {
    fn check(&self, value: i128) -> Result<(), SpecError> {
        let Self {
            name: key,
            min,
            max,
            ..
        } = *self;
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(SpecError::Range {
            key,
            value,
            min,
            max,
        })
    }
}

/// Fields that are numbers: `name: range => place: type`.
macro_rules! keys {
    ($($name:literal $min:literal $max:expr => $($place:ident).+ : $kind:ident),+ $(,)?) => {
        &[$(Key {
            name: $name,
            min: $min,
            max: $max,
            get: |config| $kind::to(config.$($place).+),
            set: |config, value| config.$($place).+ = $kind::of(value),
        }),+]
    };
}

/// Checks every number against its own range.
pub(crate) fn check_ranges(config: &SimConfig) -> Result<(), SpecError> {
    KEYS.iter().try_for_each(|key| key.check((key.get)(config)))
}

const PPM: i128 = 1_000_000;

/// Every number, in the order in which it is printed.
const KEYS: &[Key] = keys![
    "seed" 0 u64::MAX as i128 => seed: u64,
    "hosts" 1 8 => hosts: u8,
    "rails" 1 4 => rails: u8,
    "ctlrr" 0 1 => control_rr: bool,
    "longkeys" 0 1 => long_keys: bool,
    "virt" 0 1 => virt_addr: bool,
    "len" 0 1 => report_len: bool,
    "wide" 0 1 => wide_data: bool,
    "close" 0 1 => close_messages: bool,
    "copynow" 0 1 => copies_at_once: bool,
    "eager" -1 65_536 => eager_max: i32,
    "stripe" 1 1_073_741_824 => stripe: u32,
    "small" 0 1_073_741_824 => small_max: u32,
    "links" 1 1024 => links: u16,
    "messages" 1 u64::MAX as i128 => messages: u64,
    "life" 1 u64::MAX as i128 => per_life: u64,
    "window" 1 200 => window: u16,
    "max" 0 16_777_216 => max_bytes: u32,
    "trunc" 0 PPM => truncate_ppm: u32,
    "zero" 0 PPM => zero_ppm: u32,
    "flush" 0 PPM => flush_ppm: u32,
    "onesided" 0 PPM => one_sided_ppm: u32,
    "optional" 0 PPM => optional_ppm: u32,
    "dmin" 1 100_000_000 => faults.delay_min: u32,
    "dmax" 1 100_000_000 => faults.delay_max: u32,
    "straggle" 0 PPM => faults.straggler_ppm: u32,
    "ordered" 0 1 => faults.ordered: bool,
    "early" 0 PPM => faults.early_local_ppm: u32,
    "slowresp" 0 PPM => faults.slow_resp_ppm: u32,
    "inject" 0 PPM => faults.inject_ppm: u32,
    "busy" 0 900_000 => faults.busy_ppm: u32,
    "storm" 0 PPM => faults.storm_ppm: u32,
    "refuse" 0 PPM => faults.refuse_ppm: u32,
    "error" 0 PPM => faults.error_ppm: u32,
    "abrupt" 0 PPM => faults.abrupt_ppm: u32,
    "dup" 0 PPM => faults.dup_ppm: u32,
    "stray" 0 PPM => faults.stray_ppm: u32,
    "deathus" 0 1_000_000_000 => faults.death_us: u32,
    "death" 0 3 => faults.death: Death,
    "sabotage" 0 7 => faults.sabotage: Sabotage,
    "sabotageat" 0 u32::MAX as i128 => faults.sabotage_at: u32,
];

/// The configuration with its `at`-th number made simpler, the simplest first; `None` beyond the last
/// number. The seed stays.
pub(crate) fn simpler(config: &SimConfig, at: usize) -> Option<Vec<SimConfig>> {
    let key = KEYS.iter().skip(1).nth(at)?;
    let (now, default) = ((key.get)(config), (key.get)(&SimConfig::default()));
    // Less work is simpler than the default of it.
    let work = ["hosts", "rails", "links", "messages", "window", "max"].contains(&key.name);
    let goal = if work { key.min } else { default };
    let steps = [goal, (goal + now) / 2, now - (now - goal).signum()];
    let mut candidates: Vec<SimConfig> = Vec::new();
    for value in steps.into_iter().filter(|&value| value != now) {
        let mut candidate = config.clone();
        (key.set)(&mut candidate, value);
        if candidate.check().is_ok() && !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    Some(candidates)
}

/// A field as a number and back. `of` is only called with numbers that were checked.
trait Number: Sized {
    fn to(self) -> i128;
    fn of(value: i128) -> Self;
}

macro_rules! numbers {
    ($($kind:ty),+) => {$(
        impl Number for $kind {
            fn to(self) -> i128 {
                self.into()
            }
            fn of(value: i128) -> Self {
                Self::try_from(value).unwrap_or(Self::MAX)
            }
        }
    )+};
}
numbers!(u8, u16, u32, u64, i32);

impl Number for bool {
    fn to(self) -> i128 {
        self.into()
    }
    fn of(value: i128) -> Self {
        value != 0
    }
}

impl Number for Death {
    fn to(self) -> i128 {
        self as i128
    }
    fn of(value: i128) -> Self {
        [Self::Error, Self::Busy, Self::Success]
            .into_iter()
            .find(|&death| death as i128 == value)
            .unwrap_or(Self::Silent)
    }
}

impl Number for Sabotage {
    fn to(self) -> i128 {
        self as i128
    }
    fn of(value: i128) -> Self {
        Self::ALL
            .into_iter()
            .find(|&sabotage| sabotage as i128 == value)
            .unwrap_or(Self::Nothing)
    }
}

impl fmt::Display for SimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        let default = Self::default();
        for key in KEYS.iter().skip(1) {
            let value = (key.get)(self);
            if value != (key.get)(&default) {
                write!(f, " {}={value}", key.name)?;
            }
        }
        Ok(())
    }
}

impl FromStr for SimConfig {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut config = Self::default();
        for word in text.split_whitespace() {
            let syntax = || SpecError::Syntax(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(syntax)?;
            let value = value.parse().map_err(|_| syntax())?;
            let key = KEYS.iter().find(|key| key.name == name);
            let key = key.ok_or_else(|| SpecError::Key(name.to_owned()))?;
            key.check(value)?;
            (key.set)(&mut config, value);
        }
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_random_configuration_is_legal_and_survives_its_text() {
        for seed in 0..2000 {
            let config = SimConfig::random(seed, 100);
            assert_eq!(config.check(), Ok(()), "{config}");
            assert_eq!(config.to_string().parse(), Ok(config));
        }
    }

    #[test]
    fn the_default_is_one_word() {
        assert_eq!(SimConfig::default().to_string(), "seed=0");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let parse = |text: &str| text.parse::<SimConfig>().unwrap_err();
        assert_eq!(parse("seed"), SpecError::Syntax("seed".into()));
        assert_eq!(parse("rails=two"), SpecError::Syntax("rails=two".into()));
        assert_eq!(parse("color=1"), SpecError::Key("color".into()));
        let range = SpecError::Range {
            key: "rails",
            value: 5,
            min: 1,
            max: 4,
        };
        assert_eq!(parse("rails=5"), range);
        assert_eq!(range.to_string(), "rails=5 is out of range: 1..=4");
        assert!(matches!(
            parse("eager=512 stripe=256"),
            SpecError::Range { key: "eager", .. }
        ));
    }

    #[test]
    fn numbers_of_enums_are_their_own() {
        for sabotage in Sabotage::ALL {
            assert_eq!(Sabotage::of(sabotage.to()), sabotage);
        }
        for death in [Death::Silent, Death::Error, Death::Busy, Death::Success] {
            assert_eq!(Death::of(death.to()), death);
        }
    }
}
