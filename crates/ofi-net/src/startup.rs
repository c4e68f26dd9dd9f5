//! What the start of a transport cost, phase by phase.

use core::fmt;

use crate::clock::now_us;

/// Time and queries of one [`crate::Transport::init`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Startup {
    /// Microseconds to load libfabric; next to nothing when the process has it already.
    pub library_us: u64,
    /// Microseconds in `fi_getinfo(3)`. The first query of a process starts all providers.
    pub providers_us: u64,
    /// How often `fi_getinfo(3)` was called, twice at most; 0 when an earlier init of the process got the lists.
    pub queries: u32,
    /// Microseconds to read the host's topology and group the NICs.
    pub topology_us: u64,
    /// Microseconds to make devices and their properties.
    pub devices_us: u64,
}

/// What is going on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    Library,
    Providers,
    Topology,
    Devices,
}

impl Startup {
    /// Adds the time of `work` to a phase.
    pub(crate) fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let before = now_us();
        let result = work();
        let spent = now_us().saturating_sub(before);
        let sum = match phase {
            Phase::Library => &mut self.library_us,
            Phase::Providers => &mut self.providers_us,
            Phase::Topology => &mut self.topology_us,
            Phase::Devices => &mut self.devices_us,
        };
        *sum = sum.saturating_add(spent);
        result
    }
}

/// A line for the log.
impl fmt::Display for Startup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
        let Self {
            library_us,
            providers_us,
            queries,
            topology_us,
            devices_us,
        } = *self;
        write!(
            f,
            "start-up: libfabric {}, provider lists {} ({queries} queries), topology {}, devices {}",
            ms(library_us),
            ms(providers_us),
            ms(topology_us),
            ms(devices_us)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Startup};

    #[test]
    fn phases_are_one_line() {
        let mut startup = Startup {
            providers_us: 340_260,
            queries: 2,
            ..Startup::default()
        };
        assert_eq!(startup.time(Phase::Topology, || 7), 7);
        startup.topology_us = 5_999;
        assert_eq!(
            startup.to_string(),
            "start-up: libfabric 0.0 ms, provider lists 340.2 ms (2 queries), topology 5.9 ms, devices 0.0 ms"
        );
    }
}
