//! What is simulated: a seed, how much, and what is left out of what the seed would have done.

use core::fmt;
use core::str::FromStr;

use crate::rng::Rng;
use crate::spec::SpecError;

/// Something that goes wrong. The number is its bit in [`Setup::without`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A post is answered EAGAIN.
    Busy,
    /// All posts of a host are, for a while.
    Storm,
    /// A post is refused for good.
    Refused,
    /// An operation fails after it was accepted; its message may have arrived or not.
    Error,
    /// A message is longer than its receive.
    Cut,
    /// A completion comes twice.
    Repeated,
    /// A message that is none arrives where a connect message is awaited.
    Garbage,
    /// A second sender connects to a listener that gave its communicator.
    SecondSender,
    /// A side closes while requests are in flight.
    Abrupt,
    /// The program of a host calls nothing for a while.
    Absence,
    /// A host is gone, with everything on its way to it.
    Death,
}

impl Fault {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Busy,
        Self::Storm,
        Self::Refused,
        Self::Error,
        Self::Cut,
        Self::Repeated,
        Self::Garbage,
        Self::SecondSender,
        Self::Abrupt,
        Self::Absence,
        Self::Death,
    ];

    /// Its place in lists of all.
    pub(super) const fn at(self) -> usize {
        self as usize
    }

    /// Most times in a million that it happens where it may.
    const fn most_ppm(self) -> u32 {
        match self {
            Self::Busy => 300_000,
            Self::Cut | Self::Repeated => 100_000,
            Self::Garbage => 50_000,
            Self::Storm | Self::Refused | Self::Error | Self::Abrupt | Self::Absence => 2_000,
            Self::SecondSender => 1_000,
            Self::Death => 50,
        }
    }
}

/// A bug of the network, to see that it is found. Of what may happen once, the seed says when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    Nothing,
    /// Two messages of one sender change places.
    Swap,
    /// A receive is told one byte less than came.
    Short,
    /// A completion never comes.
    Lose,
    /// A message ends in the receive of another tag.
    Misdeliver,
    /// An operation fails, and nobody admits it.
    Fail,
    /// A cancelled receive stays posted.
    KeepCancelled,
}

/// A simulation. Hosts, links, sizes, delays and faults follow from the seed.
///
/// # Examples
/// ```
/// use ofi_sim::tagged::{Setup, run};
///
/// let setup: Setup = "seed=7 messages=100".parse()?;
/// assert!(run(&setup).is_ok());
/// # Ok::<(), ofi_sim::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Where all chance comes from.
    pub seed: u64,
    /// Messages that senders start, all links together.
    pub messages: u64,
    /// Faults that do not happen: bit n is [`Fault::ALL`]`[n]`.
    pub without: u32,
    /// A bug of the network.
    pub sabotage: Sabotage,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            messages,
            without,
            ..
        } = self;
        write!(f, "seed={seed} messages={messages}")?;
        if *without != 0 {
            write!(f, " without={without}")?;
        }
        Ok(())
    }
}

impl FromStr for Setup {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut setup = Self::default();
        for word in text.split_whitespace() {
            let syntax = || SpecError::Syntax(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(syntax)?;
            let value: u64 = value.parse().map_err(|_| syntax())?;
            match name {
                "seed" => setup.seed = value,
                "messages" => setup.messages = value,
                "without" => setup.without = u32::try_from(value).map_err(|_| syntax())?,
                _ => return Err(SpecError::Key(name.to_owned())),
            }
        }
        Ok(setup)
    }
}

/// What follows from a seed.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) hosts: u8,
    pub(super) links: usize,
    /// Requests of a side that are not done.
    pub(super) window: usize,
    pub(super) max_bytes: u64,
    /// Messages of one life of a link.
    pub(super) per_life: u64,
    /// Longer messages are sent when they are received.
    pub(super) rendezvous_bytes: u64,
    /// Shorter ones may be injected.
    pub(super) inject_bytes: u64,
    pub(super) delay_max_ms: u64,
    /// Whether the provider drops what does not fit, and says so.
    pub(super) drops_rest: bool,
    pub(super) rates: [u32; Fault::ALL.len()],
}

impl Drawn {
    /// Draws them. What is left out does not change what else is drawn.
    pub(super) fn of(setup: &Setup, rng: &mut Rng) -> Self {
        let hosts = rng.between(1, 4);
        let max_bytes = 1 + rng.magnitude(1 << 20);
        let mut rates = [0; Fault::ALL.len()];
        for (fault, rate) in Fault::ALL.into_iter().zip(&mut rates) {
            let (is_on, drawn) = (rng.chance(400_000), rng.below(fault.most_ppm().into()));
            let is_left_out = setup.without >> fault.at() & 1 == 1;
            if is_on && !is_left_out {
                *rate = u32::try_from(drawn).unwrap_or(0);
            }
        }
        Self {
            hosts: u8::try_from(hosts).unwrap_or(1),
            links: usize::try_from(rng.between(1, 6)).unwrap_or(1),
            window: usize::try_from(1 + rng.magnitude(160)).unwrap_or(1),
            max_bytes,
            per_life: rng.between(1, 200),
            rendezvous_bytes: rng.magnitude(max_bytes),
            inject_bytes: rng.magnitude(64),
            delay_max_ms: rng.between(0, 20),
            drops_rest: rng.chance(500_000),
            rates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_setup() {
        for text in ["seed=7 messages=100", "seed=0 messages=1 without=2047"] {
            let setup: Setup = text.parse().unwrap();
            assert_eq!(setup.to_string(), text);
        }
        for bad in ["seed", "seed=x", "color=1", "without=99999999999"] {
            assert!(bad.parse::<Setup>().is_err(), "{bad}");
        }
    }

    #[test]
    fn leaving_out_changes_nothing_else() {
        for seed in 0..200 {
            let all = Setup {
                seed,
                ..Setup::default()
            };
            let none = Setup {
                without: u32::MAX,
                ..all
            };
            let [with, without] = [all, none].map(|setup| Drawn::of(&setup, &mut Rng::new(seed)));
            assert_eq!(without.rates, [0; Fault::ALL.len()]);
            assert_eq!(
                format!(
                    "{:?}",
                    Drawn {
                        rates: without.rates,
                        ..with
                    }
                ),
                format!("{without:?}")
            );
        }
    }
}
