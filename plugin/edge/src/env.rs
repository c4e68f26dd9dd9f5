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

fn concerns_us(name: &str) -> bool {
    ["OFI_", "NCCL_OFI_", "FI_PROVIDER"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::concerns_us;

    #[test]
    fn only_names_that_may_be_parameters_are_copied() {
        for name in [
            "OFI_NCCL_PROTOCOL",
            "OFI_LIBFABRIC_PATH",
            "NCCL_OFI_X",
            "FI_PROVIDER",
        ] {
            assert!(concerns_us(name), "{name}");
        }
        assert!(!concerns_us("PATH") && !concerns_us("NCCL_DEBUG"));
    }

    #[test]
    fn every_parameter_is_among_the_names_that_are_copied() {
        for param in ofi_net::params::TABLE {
            assert!(concerns_us(param.name), "{}", param.name);
            assert!(param.alias.is_none_or(concerns_us), "{}", param.name);
        }
    }
}
