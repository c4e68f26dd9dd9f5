//! Which file NCCL asks the loader for, and which tables it looks for in it, by its version.
//!
//! From 2.14 on this is what the libraries of the wheels `nvidia-nccl-cu11` 2.14.3 and `nvidia-nccl-cu12` 2.18.3 to
//! 2.32.3 did when they were called with a `dlopen` that tells; of older ones it is what NCCL's user guide says.

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
    /// Each of a list with commas: the name itself and, if it has no slash, `libnccl-net-<name>.so`. Empty: none.
    List,
    /// The same, and `none` in any case is no name.
    ListOrNone,
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
    rule((2, 24), Named::FileOrSuffix, (9, 5)),
    rule((2, 26), Named::FileOrSuffix, (10, 6)),
    rule((2, 27), Named::List, (10, 6)),
    rule((2, 28), Named::ListOrNone, (11, 6)),
    rule((2, 30), Named::ListOrNone, (12, 6)),
];

/// Names of a list that are tried.
const LIST_MAX: usize = 14;
/// No file: the tables are looked for in the program itself, where the version knows the name.
const STATIC: &str = "STATIC_PLUGIN";
/// The first that does.
const STATIC_FROM: Version = Version::new(2, 22, 0);

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

/// Files that NCCL asks for, in this order, with this value of `NCCL_NET_PLUGIN`; blanks are part of names.
pub(crate) fn files(version: Option<Version>, plugin: Option<&str>) -> Vec<String> {
    const PLAIN: &str = "libnccl-net.so";
    let suffixed = |name: &str| format!("libnccl-net-{name}.so");
    let plain = || vec![PLAIN.to_owned()];
    let Some(named) = plugin else {
        return plain();
    };
    if off(version, named).is_some() {
        return Vec::new();
    }
    match of(version).named {
        Named::Ignored => plain(),
        Named::Suffix | Named::FileOrSuffix if named.is_empty() => plain(),
        Named::Suffix => vec![suffixed(named)],
        Named::FileOrSuffix => vec![named.to_owned(), suffixed(named)],
        Named::List | Named::ListOrNone => {
            let names = named.split(',').filter(|name| !name.is_empty());
            let of_name = |name: &str| match name.contains('/') {
                true => vec![name.to_owned()],
                false => vec![name.to_owned(), suffixed(name)],
            };
            names.take(LIST_MAX).flat_map(of_name).collect()
        }
    }
}

/// Why this value of `NCCL_NET_PLUGIN` makes NCCL load no file at all; `None`: it looks for some.
pub(crate) fn off(version: Option<Version>, named: &str) -> Option<&'static str> {
    let rule = of(version).named;
    let is_list = matches!(rule, Named::List | Named::ListOrNone);
    let knows_static = !matches!(rule, Named::Ignored) && version.is_none_or(|v| v >= STATIC_FROM);
    if is_list && named.split(',').all(str::is_empty) {
        Some("set and empty, NCCL from 2.27 on loads no plugin (older ones load libnccl-net.so)")
    } else if matches!(rule, Named::ListOrNone) && named.eq_ignore_ascii_case("none") {
        Some("NCCL loads no plugin then")
    } else if knows_static && named == STATIC {
        Some("NCCL looks for the plugin's tables in the program itself then")
    } else {
        None
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
        assert_eq!(
            names(28, "/x/a.so,ofi"),
            ["/x/a.so", "ofi", "libnccl-net-ofi.so"]
        );
        assert_eq!(names(26, "/x/a.so"), ["/x/a.so", "libnccl-net-/x/a.so.so"]);
        assert_eq!(files(None, None), ["libnccl-net.so"]);
    }

    /// Each as it was seen with a wheel of that version.
    #[test]
    fn odd_values_are_taken_as_they_are() {
        let names = |minor, plugin| files(Some(Version::new(2, minor, 5)), Some(plugin));
        for (minor, plugin, asked) in [
            (14, "", &["libnccl-net.so"][..]),
            (26, "", &["libnccl-net.so"]),
            (27, "", &[]),
            (32, "", &[]),
            (27, ",", &[]),
            (20, "none", &["libnccl-net-none.so"]),
            (27, "none", &["none", "libnccl-net-none.so"]),
            (28, "none", &[]),
            (32, "NONE", &[]),
            (
                32,
                "none,x",
                &["none", "libnccl-net-none.so", "x", "libnccl-net-x.so"],
            ),
            (27, " ofi", &[" ofi", "libnccl-net- ofi.so"]),
            (
                27,
                "ofi,,x",
                &["ofi", "libnccl-net-ofi.so", "x", "libnccl-net-x.so"],
            ),
            (26, "ofi,x", &["ofi,x", "libnccl-net-ofi,x.so"]),
            (
                21,
                "STATIC_PLUGIN",
                &["STATIC_PLUGIN", "libnccl-net-STATIC_PLUGIN.so"],
            ),
            (24, "STATIC_PLUGIN", &[]),
        ] {
            assert_eq!(names(minor, plugin), asked, "2.{minor} {plugin:?}");
        }
        let many = (0..40)
            .map(|n| format!("p{n}"))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(names(28, &many).len(), 28);
    }

    #[test]
    fn tables_grow() {
        assert_eq!(tables(Some(Version::new(2, 10, 3))), Some((4, 3)));
        for (minor, newest, oldest) in [
            (14, 6, 4),
            (18, 6, 4),
            (19, 7, 5),
            (20, 8, 5),
            (23, 8, 5),
            (24, 9, 5),
            (25, 9, 5),
            (26, 10, 6),
            (27, 10, 6),
            (28, 11, 6),
            (29, 11, 6),
            (30, 12, 6),
            (32, 12, 6),
        ] {
            let known = tables(Some(Version::new(2, minor, 2)));
            assert_eq!(known, Some((newest, oldest)), "2.{minor}");
        }
        assert_eq!(tables(Some(Version::new(3, 0, 0))), Some((12, 6)));
        assert_eq!(tables(None), None);
    }
}
