//! From a configuration that fails to a small one that fails: fewer messages, links, rails, and no fault
//! that is not needed.

use ofi_rdma::Dialect;

use crate::config::SimConfig;
use crate::report::Failure;
use crate::sim::Sim;
use crate::spec::simpler;

/// Makes a failing configuration simpler as long as it fails, by at most `runs` more simulations, and
/// returns the last failure; `None` when `config` does not fail. Any failure counts: a smaller one is
/// worth more than the same one.
///
/// # Examples
/// ```
/// use ofi_rdma::Base;
/// use ofi_sim::{Faults, Sabotage, SimConfig, shrink};
///
/// let faults = Faults { sabotage: Sabotage::FlipBit, ..Faults::HARMLESS };
/// let config = SimConfig { seed: 3, messages: 2_000, links: 8, rails: 4, faults, ..SimConfig::default() };
/// let failure = shrink::<Base>(config, 100).expect("it fails");
/// let small: SimConfig = failure.spec.parse()?;
/// assert!(small.messages < 50 && small.faults.busy_ppm == 0);
/// # Ok::<(), ofi_sim::SpecError>(())
/// ```
#[must_use]
pub fn shrink<D: Dialect>(config: SimConfig, runs: usize) -> Option<Failure> {
    let mut failure = fails::<D>(&config)?;
    let mut best = config;
    let mut left = runs;
    loop {
        let before = best.clone();
        let mut at = 0;
        while let Some(candidates) = simpler(&best, at) {
            for candidate in candidates {
                if left == 0 {
                    return Some(failure);
                }
                left -= 1;
                if let Some(smaller) = fails::<D>(&candidate) {
                    (best, failure) = (candidate, smaller);
                    break;
                }
            }
            at += 1;
        }
        if best == before {
            return Some(failure);
        }
    }
}

fn fails<D: Dialect>(config: &SimConfig) -> Option<Failure> {
    let sim = Sim::<D>::with_dialect(config.clone()).ok()?;
    sim.run().err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Faults, Sabotage};
    use ofi_rdma::{Base, Tiny};

    fn broken(sabotage: Sabotage) -> SimConfig {
        let faults = Faults {
            sabotage,
            sabotage_at: 7,
            ..Faults::HARMLESS
        };
        SimConfig {
            seed: 11,
            messages: 1_500,
            links: 8,
            rails: 4,
            hosts: 3,
            faults,
            ..SimConfig::default()
        }
    }

    #[test]
    fn what_fails_fails_smaller_and_from_its_line() {
        for sabotage in [Sabotage::DropImmediate, Sabotage::Misplace] {
            let failure = shrink::<Base>(broken(sabotage), 200).unwrap();
            let small: SimConfig = failure.spec.parse().unwrap();
            assert!(small.messages < 40 && small.links == 1, "{failure}");
            assert_eq!(fails::<Base>(&small), Some(failure));
        }
        let tiny = shrink::<Tiny>(broken(Sabotage::FlipBit), 200).unwrap();
        assert!(tiny.spec.len() < 120, "{tiny}");
    }

    #[test]
    fn what_is_well_is_left_alone() {
        assert_eq!(shrink::<Base>(SimConfig::default(), 10), None);
    }
}
