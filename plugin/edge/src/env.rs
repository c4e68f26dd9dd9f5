//! The reader of the environment: once, in init. What is written to it stands in `topo_file`.

/// The (name, value) pairs that may concern the transport. Texts that are not UTF-8 are taken with
/// replacement characters: such a value then is a clear error of its parameter.
pub(crate) fn pairs() -> Vec<(String, String)> {
    let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
    std::env::vars_os()
        .map(|(name, value)| (text(name), value))
        .filter(|(name, _)| concerns_us(name))
        .map(|(name, value)| (name, text(value)))
        .collect()
}

/// What launchers say of a process: its rank, and how many there are. The first pair that is set counts.
const LAUNCHERS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("PMI_RANK", "PMI_SIZE"),
];

/// Rank of this process in its job, and ranks of the job, where a launcher says so: for state dumps.
pub(crate) fn rank() -> (Option<u32>, Option<u32>) {
    rank_in(|name| std::env::var(name).ok())
}

fn rank_in(variable: impl Fn(&str) -> Option<String>) -> (Option<u32>, Option<u32>) {
    let number = |name| variable(name)?.trim().parse().ok();
    let mut said = LAUNCHERS.iter().filter_map(|(rank, world)| {
        let rank: u32 = number(rank)?;
        Some((Some(rank), number(world).filter(|&world| world > rank)))
    });
    said.next().unwrap_or((None, None))
}

fn concerns_us(name: &str) -> bool {
    ["OFI_", "NCCL_OFI_", "FI_PROVIDER", "FI_EFA_IFACE"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{concerns_us, rank_in};

    #[test]
    fn only_names_that_may_be_parameters_are_copied() {
        for name in [
            "OFI_NCCL_PROTOCOL",
            "OFI_LIBFABRIC_PATH",
            "NCCL_OFI_X",
            "FI_PROVIDER",
            "FI_EFA_IFACE",
        ] {
            assert!(concerns_us(name), "{name}");
        }
        assert!(!concerns_us("PATH") && !concerns_us("NCCL_DEBUG"));
    }

    #[test]
    fn a_rank_is_what_a_launcher_says_and_makes_sense() {
        let of = |set: &'static [(&str, &str)]| {
            rank_in(move |name| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(
            of(&[("RANK", "3"), ("WORLD_SIZE", "8")]),
            (Some(3), Some(8))
        );
        assert_eq!(of(&[("SLURM_PROCID", "0")]), (Some(0), None));
        assert_eq!(
            of(&[("RANK", "x"), ("PMI_RANK", "1"), ("PMI_SIZE", "1")]),
            (Some(1), None)
        );
        assert_eq!(of(&[]), (None, None));
    }

    #[test]
    fn every_parameter_is_among_the_names_that_are_copied() {
        for param in ofi_net::params::TABLE {
            assert!(concerns_us(param.name), "{}", param.name);
            assert!(param.alias.is_none_or(concerns_us), "{}", param.name);
        }
    }
}
