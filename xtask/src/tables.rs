//! The plugins' tables, as `ofi perf` is told them.

use std::path::Path;

use crate::artifacts::Built;

/// Whose plugin it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// `libnccom-net.so`.
    Neuron,
    /// `libnccl-net-ofi.so`.
    Nccl,
}

/// A table that a plugin exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    family: Family,
    symbol: &'static str,
}

const fn neuron(symbol: &'static str) -> Table {
    Table {
        family: Family::Neuron,
        symbol,
    }
}

const fn nccl(symbol: &'static str) -> Table {
    Table {
        family: Family::Nccl,
        symbol,
    }
}

/// What loads use that are not about tables.
pub(crate) const USUAL: &[Table] = &[neuron("ncclNetPlugin_v6")];

/// What a new NCCL takes.
pub(crate) const NEWEST_NCCL: &[Table] = &[nccl("ncclNetPlugin_v12")];

/// Every table of both plugins, two at a time: the ranks take turns, so that versions and families
/// talk to each other as well.
pub(crate) const PAIRS: [&[Table]; 5] = [
    &[neuron("ncclNetPlugin_v4"), neuron("ncclNetPlugin_v5")],
    &[neuron("ncclNetPlugin_v6"), nccl("ncclNetPlugin_v6")],
    &[nccl("ncclNetPlugin_v7"), nccl("ncclNetPlugin_v8")],
    &[nccl("ncclNetPlugin_v9"), nccl("ncclNetPlugin_v10")],
    &[nccl("ncclNetPlugin_v11"), nccl("ncclNetPlugin_v12")],
];

impl Table {
    fn plugin<'a>(&self, built: &'a Built) -> &'a Path {
        match self.family {
            Family::Neuron => &built.neuron,
            Family::Nccl => &built.nccl,
        }
    }

    const fn flavor(self) -> &'static str {
        match self.family {
            Family::Neuron => "neuron",
            Family::Nccl => "nvidia",
        }
    }
}

/// The options of `ofi perf` that deal tables out to the ranks.
pub(crate) fn options(tables: &[Table], built: &Built) -> [String; 6] {
    let list =
        |one: &dyn Fn(&Table) -> String| tables.iter().map(one).collect::<Vec<_>>().join(",");
    [
        "--plugin".to_owned(),
        list(&|table| table.plugin(built).display().to_string()),
        "--symbol".to_owned(),
        list(&|table| table.symbol.to_owned()),
        "--flavor".to_owned(),
        list(&|table| table.flavor().to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Family, PAIRS, options};
    use crate::artifacts::Built;
    use crate::needed;

    #[test]
    fn the_pairs_are_all_tables_of_both_plugins_once() {
        let all: Vec<_> = PAIRS.iter().flat_map(|pair| pair.iter()).collect();
        for (family, file) in [
            (Family::Neuron, "libnccom-net.so"),
            (Family::Nccl, "libnccl-net-ofi.so"),
        ] {
            let mut ours: Vec<&str> = all
                .iter()
                .filter(|table| table.family == family)
                .map(|table| table.symbol)
                .collect();
            ours.sort_unstable();
            let mut exported = needed::symbols_of(file).unwrap().to_vec();
            exported.sort_unstable();
            assert_eq!(ours, exported, "{file}");
        }
    }

    #[test]
    fn a_pair_of_families_names_both_files() {
        let built = Built::in_dir("d".as_ref());
        let options = options(PAIRS[1], &built);
        assert_eq!(options[1], "d/libnccom-net.so,d/libnccl-net-ofi.so");
        assert_eq!(options[5], "neuron,nvidia");
    }
}
