//! Which table a symbol of a plugin names.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::AbiError;

/// Which world's tables the symbols of a plugin name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flavor {
    /// `libnccom-net.so`: Neuron collectives.
    Neuron,
    /// `libnccl-net-*.so`: NCCL.
    Nvidia,
}

impl Flavor {
    /// What the file name gives away.
    pub(crate) fn guess(path: &Path) -> Result<Self, AbiError> {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        if name.contains("nccom") || name.contains("neuron") {
            Ok(Self::Neuron)
        } else if name.contains("nccl") {
            Ok(Self::Nvidia)
        } else {
            Err(AbiError::Flavor {
                path: path.to_owned(),
            })
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Neuron => "neuron",
            Self::Nvidia => "nvidia",
        }
    }
}

/// The version that a symbol names.
pub(super) fn version_of(symbol: &str) -> Result<u32, AbiError> {
    symbol
        .rsplit_once("_v")
        .and_then(|(_, digits)| digits.parse().ok())
        .ok_or_else(|| AbiError::SymbolName {
            symbol: symbol.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_guessed_from_the_file_name_or_asked_for() {
        let guess = |p: &str| Flavor::guess(Path::new(p));
        assert_eq!(guess("/x/libnccom-net.so").ok(), Some(Flavor::Neuron));
        assert_eq!(guess("libnccl-net-ofi.so.1").ok(), Some(Flavor::Nvidia));
        assert!(guess("/nccl/libother.so").err().is_some());
    }

    #[test]
    fn the_version_is_the_number_at_the_end_of_the_symbol() {
        assert_eq!(version_of("ncclNetPlugin_v12").ok(), Some(12));
        assert!(version_of("ncclNetPlugin").err().is_some());
        assert!(version_of("ncclNetPlugin_vx").err().is_some());
    }
}
