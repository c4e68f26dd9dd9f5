//! Which file NCCL asks the loader for, and which tables it looks for in it, by its version.
//!
//! The forms of `NCCL_NET_PLUGIN` are from NCCL's user guide; what it does not say of an old version is taken
//! from the next one that it speaks of. The boundaries of tables are not verified against any NCCL
//! (docs/doctor.md says so too).

use super::version::Version;

/// How a range of versions looks for the plugin.
#[derive(Debug)]
struct Rule {
    from: Version,
    /// What becomes of the value of `NCCL_NET_PLUGIN`.
    named: Named,
    /// Newest and oldest table that it takes.
    tables: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
enum Named {
    /// There is no such variable.
    Ignored,
    /// `libnccl-net-<value>.so`.
    Suffix,
    /// The value itself, then `libnccl-net-<value>.so`.
    FileOrSuffix,
    /// The same for each of a list with commas.
    List,
}

const fn rule(from: (u32, u32), named: Named, tables: (u32, u32)) -> Rule {
    Rule {
        from: Version::new(from.0, from.1, 0),
        named,
        tables,
    }
}

/// The newest row that is not newer than the version counts.
const RULES: [Rule; 14] = [
    rule((2, 4), Named::Ignored, (2, 1)),
    rule((2, 5), Named::Ignored, (3, 2)),
    rule((2, 8), Named::Ignored, (4, 3)),
    rule((2, 11), Named::Suffix, (4, 3)),
    rule((2, 12), Named::Suffix, (5, 4)),
    rule((2, 13), Named::Suffix, (6, 4)),
    rule((2, 19), Named::Suffix, (7, 5)),
    rule((2, 20), Named::Suffix, (8, 5)),
    rule((2, 21), Named::FileOrSuffix, (8, 5)),
    rule((2, 24), Named::FileOrSuffix, (9, 6)),
    rule((2, 26), Named::FileOrSuffix, (10, 6)),
    rule((2, 27), Named::List, (10, 6)),
    rule((2, 28), Named::List, (11, 6)),
    rule((2, 30), Named::List, (12, 6)),
];

/// What Neuron's collectives ask for.
pub(crate) const NEURON_FILE: &str = "libnccom-net.so";
/// Newest and oldest table of Neuron's.
pub(crate) const NEURON_TABLES: (u32, u32) = (6, 4);

fn of(version: Option<Version>) -> &'static Rule {
    let newest = &RULES[RULES.len() - 1];
    let Some(version) = version else {
        return newest;
    };
    let known = RULES.iter().rev().find(|rule| rule.from <= version);
    known.unwrap_or(&RULES[0])
}

/// Files that NCCL asks for, in this order, with this value of `NCCL_NET_PLUGIN`.
pub(crate) fn files(version: Option<Version>, plugin: Option<&str>) -> Vec<String> {
    const PLAIN: &str = "libnccl-net.so";
    let suffixed = |name: &str| format!("libnccl-net-{name}.so");
    let named = plugin.map(str::trim).filter(|name| !name.is_empty());
    let (Some(named), rule) = (named, of(version).named) else {
        return vec![PLAIN.to_owned()];
    };
    match rule {
        Named::Ignored => vec![PLAIN.to_owned()],
        Named::Suffix => vec![suffixed(named)],
        Named::FileOrSuffix => vec![named.to_owned(), suffixed(named)],
        Named::List => {
            let names = named
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            names
                .flat_map(|name| [name.to_owned(), suffixed(name)])
                .collect()
        }
    }
}

/// Newest and oldest table that a version takes; `None`: nobody knows the version.
pub(crate) fn tables(version: Option<Version>) -> Option<(u32, u32)> {
    version.map(|version| of(Some(version)).tables)
}

#[cfg(test)]
mod tests {
    use super::{RULES, Version, files, tables};

    #[test]
    fn rows_are_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].from < pair[1].from));
        assert!(RULES.iter().all(|rule| rule.tables.0 >= rule.tables.1));
    }

    #[test]
    fn each_generation_has_its_names() {
        let names = |minor, plugin| files(Some(Version::new(2, minor, 5)), Some(plugin));
        assert_eq!(names(10, "ofi"), ["libnccl-net.so"]);
        assert_eq!(names(18, "ofi"), ["libnccl-net-ofi.so"]);
        assert_eq!(names(21, "ofi"), ["ofi", "libnccl-net-ofi.so"]);
        assert_eq!(names(28, "/x/a.so,ofi").len(), 4);
        assert_eq!(names(28, " "), ["libnccl-net.so"]);
        assert_eq!(files(None, None), ["libnccl-net.so"]);
    }

    #[test]
    fn tables_grow() {
        assert_eq!(tables(Some(Version::new(2, 10, 3))), Some((4, 3)));
        assert_eq!(tables(Some(Version::new(2, 26, 2))), Some((10, 6)));
        assert_eq!(tables(Some(Version::new(3, 0, 0))), Some((12, 6)));
        assert_eq!(tables(None), None);
    }
}
