//! What libfabric makes of `FI_PROVIDER`: names with commas, or all but them after `^`; layers after `;`
//! (`fabric(7)`). Names are compared whatever their capitals, and to the last blank (1.17, 1.22 and 2.5,
//! tried).

use crate::params::shorten;

/// Values up to so many characters are shown as they are.
const PLAIN_CHARS_MAX: usize = 48;

/// Whether libfabric's filter leaves a provider in. An empty one leaves nothing.
///
/// ```
/// assert!(ofi_net::filter_admits("tcp,efa", "efa") && ofi_net::filter_admits("^shm", "efa"));
/// assert!(ofi_net::filter_admits("EFA", "efa") && !ofi_net::filter_admits("^Efa", "efa"));
/// assert!(!ofi_net::filter_admits("tcp", "efa") && !ofi_net::filter_admits("", "efa"));
/// assert!(!ofi_net::filter_admits("tcp, efa", "efa"), "no provider is called \" efa\"");
/// ```
#[must_use]
pub fn admits(filter: &str, provider: &str) -> bool {
    let (names, is_out) = match filter.strip_prefix('^') {
        Some(names) => (names, true),
        None => (filter, false),
    };
    let mut names = names.split([',', ';']);
    names.any(|name| name.eq_ignore_ascii_case(provider)) != is_out
}

/// The variable with its value, for a line of the log: bounded, and in quotes where it has what one does
/// not see.
pub(super) fn shown(filter: Option<&str>) -> String {
    match filter {
        None => "FI_PROVIDER unset".to_owned(),
        Some("") => {
            "FI_PROVIDER set and empty, which keeps every provider out: unset it".to_owned()
        }
        Some(filter) => set("FI_PROVIDER", filter),
    }
}

/// A variable of libfabric with its value, as [`shown`] shows it.
pub(super) fn set(variable: &str, value: &str) -> String {
    format!("{variable}={}", plain(value))
}

fn plain(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic();
    if value.len() <= PLAIN_CHARS_MAX && value.chars().all(is_plain) {
        value.to_owned()
    } else {
        shorten(value)
    }
}

/// Why nothing is called what a filter names, where that shows in the name itself. What is kept out (`^`)
/// keeps out nothing then, and is no reason for an empty list.
pub(super) fn misread(filter: &str) -> Option<String> {
    let is_out = filter.starts_with('^');
    let mut names = filter.split(',').filter(|_| !is_out);
    names.find_map(misread_name)
}

fn misread_name(name: &str) -> Option<String> {
    const QUOTES: [char; 2] = ['"', '\''];
    if name.contains(QUOTES) {
        let bare = name.replace(QUOTES, "");
        return Some(format!(
            "the quotes are part of the value (docker --env-file keeps them), and no provider has any in its \
             name: {} without quotes",
            plain(&bare)
        ));
    }
    if name.trim() != name {
        let (with, without) = (shorten(name), shorten(name.trim()));
        return Some(format!(
            "libfabric takes blanks for a part of a name, and none is called {with}: {without}"
        ));
    }
    let layers: Vec<&str> = name.split(';').collect();
    let is_utility = |layer: &&str| layer.to_ascii_lowercase().starts_with("ofi_");
    if layers
        .iter()
        .any(|layer| layer.eq_ignore_ascii_case("efa-direct"))
    {
        let why = "efa-direct is a fabric of the provider efa, which libfabric 2.1 and newer choose by what \
                   is asked for: FI_PROVIDER=efa";
        return Some(why.to_owned());
    }
    let is_odd = match layers[..] {
        [alone] => is_utility(&alone),
        _ => layers[0].is_empty() || is_utility(&layers[0]) || !layers[1..].iter().all(is_utility),
    };
    (is_odd && !name.is_empty()).then(|| {
        let name = shorten(name);
        format!("{name} is no provider with its layers, which are written as in tcp;ofi_rxm")
    })
}

#[cfg(test)]
mod tests {
    use super::{admits, misread, shown};

    #[test]
    fn blanks_count_as_in_libfabric() {
        assert!(admits("shm,efa", "efa") && !admits("shm, efa", "efa"));
        assert!(admits("^ efa", "efa") && !admits("^efa", "efa"));
        assert!(admits("tcp;ofi_rxm", "tcp") && !admits("tcp ;ofi_rxm", "tcp"));
    }

    #[test]
    fn names_that_nothing_can_have_are_explained() {
        for (filter, part) in [
            (" efa", "none is called \" efa\": \"efa\""),
            ("tcp,shm\t", "none is called \"shm?\": \"shm\""),
            ("\"tcp\"", "the quotes are part of the value"),
            ("\"tcp\"", ": tcp without quotes"),
            ("'efa'", ": efa without quotes"),
            ("\"tcp,efa\"", ": tcp without quotes"),
            ("shm,\"tcp;ofi_rxm\"", ": tcp;ofi_rxm without quotes"),
            ("\"^tcp\"", ": ^tcp without quotes"),
            ("efa-direct", "a fabric of the provider efa"),
            ("tcp,EFA-Direct", "a fabric of the provider efa"),
            ("tcp;", "\"tcp;\" is no provider"),
            (";tcp", "\";tcp\" is no provider"),
            ("ofi_rxm;tcp", "\"ofi_rxm;tcp\" is no provider"),
            ("ofi_rxm", "\"ofi_rxm\" is no provider"),
            ("efa;tcp", "\"efa;tcp\" is no provider"),
        ] {
            let why = misread(filter).unwrap_or_default();
            assert!(why.contains(part), "{filter:?}: {why:?}");
        }
        for fine in [
            "efa",
            "EFA",
            "^shm",
            "tcp;ofi_rxm",
            "udp;OFI_RXD",
            "nosuch",
            "",
            "^",
            ",",
            "^ofi_rxm, efa",
        ] {
            assert_eq!(misread(fine), None, "{fine:?}");
        }
    }

    #[test]
    fn values_are_shown_bounded_and_with_what_one_does_not_see() {
        assert_eq!(shown(None), "FI_PROVIDER unset");
        assert_eq!(shown(Some("tcp;ofi_rxm")), "FI_PROVIDER=tcp;ofi_rxm");
        assert_eq!(shown(Some(" efa")), "FI_PROVIDER=\" efa\"");
        assert_eq!(shown(Some("a\u{1b}[31m\n")), "FI_PROVIDER=\"a?[31m?\"");
        assert!(shown(Some(&"a".repeat(5000))).len() < 80);
        assert!(shown(Some("")).contains("unset it"));
    }
}
