//! Speed and width of a PCI Express link, in the words of sysfs and of NCCL.

use core::fmt;

/// Transfers a second on one lane: the steps that PCI Express has.
///
/// ```
/// use ofi_topo::LinkSpeed;
/// let speed = LinkSpeed::parse("8.0 GT/s PCIe").unwrap();
/// assert_eq!(speed.to_string(), "8");
/// assert_eq!(speed.next(), LinkSpeed::parse("16.0 GT/s PCIe"));
/// assert_eq!(LinkSpeed::parse("Unknown"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkSpeed {
    /// Its place in [`STEPS`].
    step: u8,
}

/// The generations 1 to 6, in GT/s (protocol 2h.4).
const STEPS: [&str; 6] = ["2.5", "5", "8", "16", "32", "64"];

impl LinkSpeed {
    /// What is taken for a NIC that does not say, 16 GT/s (protocol 2h.4).
    pub const OF_UNKNOWN_NIC: Self = Self { step: 3 };
    /// What is taken for an accelerator that does not say, 32 GT/s: that of the instances whose devices have
    /// several NICs.
    pub(crate) const OF_UNKNOWN_ACCELERATOR: Self = Self { step: 4 };

    /// Reads `max_link_speed` of sysfs: a number of GT/s, then anything. `None` for "Unknown" and for
    /// numbers that are no step.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.split_once(" GT/s")?;
        let number = number.strip_suffix(".0").unwrap_or(number);
        let step = STEPS.iter().position(|known| *known == number)?;
        Some(Self {
            step: u8::try_from(step).ok()?,
        })
    }

    /// Bits a second of so many lanes, before what the encoding takes.
    pub(crate) fn bps(self, lanes: u8) -> u64 {
        let lane = match self.step {
            0 => 2_500_000_000,
            1 => 5_000_000_000,
            step => 2_000_000_000 << step,
        };
        lane * u64::from(lanes)
    }

    /// The next faster step; `None` at the fastest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        let step = self.step + 1;
        (usize::from(step) < STEPS.len()).then_some(Self { step })
    }
}

/// The number of GT/s: `2.5` to `64`.
impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STEPS.get(usize::from(self.step)).unwrap_or(&""))
    }
}

/// What a function or a port can do at most; each part may be unknown (virtual machines, containers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// Speed of a lane.
    pub speed: Option<LinkSpeed>,
    /// Lanes, 1 to 32.
    pub width: Option<u8>,
}

impl Link {
    /// From what sysfs says. A width of 0 or 255 is how Linux writes that it does not know.
    #[must_use]
    pub fn parse(speed: &str, width: &str) -> Self {
        Self {
            speed: LinkSpeed::parse(speed),
            width: width.parse().ok().filter(|lanes| (1..=32).contains(lanes)),
        }
    }

    /// What is left of it behind `port`: the smaller of each that is known.
    #[must_use]
    pub fn behind(self, port: Self) -> Self {
        let least = |a: Option<LinkSpeed>, b| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => a.or(b),
        };
        let width = match (self.width, port.width) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            speed: least(self.speed, port.speed),
            width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, LinkSpeed};

    #[test]
    fn what_sysfs_says_is_read() {
        for (text, number) in [
            ("2.5 GT/s PCIe", "2.5"),
            ("5.0 GT/s PCIe", "5"),
            ("8 GT/s", "8"),
            ("16.0 GT/s PCIe", "16"),
            ("32.0 GT/s PCIe", "32"),
            ("64.0 GT/s PCIe", "64"),
        ] {
            let speed = LinkSpeed::parse(text).unwrap();
            assert_eq!(speed.to_string(), number);
        }
        for unknown in ["", "Unknown", "Unknown speed", "7 GT/s", "-5 GT/s", "8"] {
            assert_eq!(LinkSpeed::parse(unknown), None, "{unknown}");
        }
        for width in ["", "0", "255", "33", "-1", "x16"] {
            assert_eq!(Link::parse("", width).width, None, "{width}");
        }
    }

    #[test]
    fn bits_a_second_are_those_of_the_words() {
        let mut speed = LinkSpeed::parse("2.5 GT/s");
        while let Some(step) = speed {
            let tenths = step.to_string().replace(".5", "5");
            let tenths = tenths.parse::<u64>().unwrap();
            let scale = if step.to_string().contains('.') {
                10
            } else {
                1
            };
            assert_eq!(step.bps(16) * scale, tenths * 16_000_000_000, "{step}");
            speed = step.next();
        }
    }

    #[test]
    fn a_port_bounds_what_is_behind_it() {
        let fast = Link::parse("32.0 GT/s PCIe", "16");
        let narrow = Link::parse("16.0 GT/s PCIe", "8");
        assert_eq!(fast.behind(narrow), narrow);
        assert_eq!(narrow.behind(fast), narrow);
        assert_eq!(fast.behind(Link::default()), fast);
        assert_eq!(Link::default().behind(fast), fast);
        assert_eq!(LinkSpeed::parse("64 GT/s").unwrap().next(), None);
    }
}
