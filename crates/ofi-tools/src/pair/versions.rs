//! Versions of the two sides: whether they differ, and what is known of two together.

use ofi_net::{NetError, Transport};

use super::cause::Place;
use super::talk::{Hello, printable};
use crate::doctor::facts::version::{Range, Version};
use crate::doctor::rows::rows;

const TABLE: &str = include_str!("data/versions.csv");

/// Of libfabric, and of the provider of the first device.
pub(super) fn of(transport: &Transport) -> Result<(String, String), NetError> {
    let library = efa_fabric::Library::get();
    let libfabric = library.map(|library| efa_fabric::Version::of(library).to_string());
    let provider = match transport.devices()? {
        0 => String::new(),
        _ => {
            let packed = transport.provider_version(0)?;
            format!("{}.{}", packed >> 16, packed & 0xffff)
        }
    };
    Ok((libfabric.unwrap_or_default(), provider))
}

/// What a side has, by name.
fn components(hello: &Hello) -> [(&'static str, &str); 3] {
    [
        ("ofi", hello.version.as_str()),
        ("libfabric", hello.libfabric.as_str()),
        ("provider", hello.provider_version.as_str()),
    ]
}

/// For people.
pub(super) fn shown(hello: &Hello) -> String {
    let said = components(hello)
        .into_iter()
        .filter(|(_, version)| !version.is_empty());
    let said: Vec<String> = said
        .map(|(name, version)| format!("{name} {}", printable(version)))
        .collect();
    said.join(", ")
}

/// Tells of what differs, and keeps it as a cause for what may fail.
pub(super) fn compare(here: &Hello, there: &Hello, place: &mut Place, warnings: &mut Vec<String>) {
    let both = components(here).into_iter().zip(components(there));
    // Of what one side does not say nothing is known.
    let differ = both.filter(|((_, a), (_, b))| a != b && !a.is_empty() && !b.is_empty());
    let at = printable(&there.host);
    let differ: Vec<String> = differ
        .map(|((name, a), (_, b))| format!("{name} {a} here, {} on {at}", printable(b)))
        .collect();
    let differ = differ.join("; ");
    if !differ.is_empty() {
        warnings.push(format!("versions differ: {differ}"));
    }
    place.bad_pair = known(here, there);
    warnings.extend(
        place
            .bad_pair
            .iter()
            .map(|pair| format!("known to fail together: {pair}")),
    );
    place.differ = Some(differ);
}

/// The first row that the two are a pair of, whichever is which.
fn known(here: &Hello, there: &Hello) -> Option<String> {
    let is_it = |hello: &Hello, what: &str, provider: &str| {
        let Some((name, range)) = what.split_once(' ') else {
            return false;
        };
        let all = components(hello);
        let version = all.iter().find(|(of, _)| *of == name);
        let version = version.and_then(|(_, version)| Version::parse(version));
        let has = |device: &super::DeviceSaid| provider == "any" || device.provider == provider;
        let fits = |(range, version): (Range, Version)| range.takes(version);
        Range::parse(range).zip(version).is_some_and(fits) && hello.devices.iter().any(has)
    };
    let mut found = rows::<7>(TABLE).filter(|[one, over, other, their, ..]| {
        is_it(here, one, over) && is_it(there, other, their)
            || is_it(there, one, over) && is_it(here, other, their)
    });
    let [one, over, other, their, what, fix, source] = found.next()?;
    Some(format!(
        "{one} ({over}) with {other} ({their}): {what}; do: {fix} [{source}]"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Hello, Place, Range, TABLE, compare, known};
    use crate::doctor::rows::{lines, rows};
    use crate::pair::DeviceSaid;

    fn hello(libfabric: &str, provider: &str) -> Hello {
        let device = DeviceSaid {
            provider: provider.to_owned(),
            rails: vec!["eth0".to_owned()],
        };
        let versions = (libfabric.to_owned(), "117.0".to_owned());
        Hello::new("RDMA".to_owned(), versions, vec![device])
    }

    #[test]
    fn every_line_is_a_row() {
        assert_eq!(lines(TABLE).count(), rows::<7>(TABLE).count());
        for [one, over, other, their, what, fix, source] in rows::<7>(TABLE) {
            for of in [one, other] {
                let (name, range) = of.split_once(' ').unwrap();
                assert!(["ofi", "libfabric", "provider"].contains(&name), "{of}");
                assert!(Range::parse(range).is_some(), "{of}");
            }
            let all = [over, their, what, fix, source];
            assert!(all.iter().all(|text| !text.is_empty()), "{what}");
        }
    }

    #[test]
    fn what_differs_is_told_and_what_is_not_said_is_not() {
        let told = |here: &Hello, there: &Hello| {
            let (mut place, mut warnings) = (Place::default(), Vec::new());
            compare(here, there, &mut place, &mut warnings);
            (place.differ.unwrap(), warnings)
        };
        let (old, new, silent) = (hello("1.22", "efa"), hello("2.5", "efa"), hello("", "efa"));
        assert_eq!(told(&old, &old), (String::new(), Vec::new()));
        assert_eq!(told(&old, &silent), (String::new(), Vec::new()));
        let (differ, warnings) = told(&old, &new);
        assert!(
            differ.starts_with("libfabric 1.22 here, 2.5 on "),
            "{differ}"
        );
        assert_eq!(warnings, [format!("versions differ: {differ}")]);
        // Each of the three counts.
        for name in ["version", "provider_version"] {
            let mut said = serde_json::to_value(&old).unwrap();
            said[name] = "9.9".into();
            let other: Hello = serde_json::from_value(said).unwrap();
            assert!(told(&old, &other).0.contains("9.9 on "), "{name}");
        }
        // One of before says neither libfabric's nor the provider's.
        let mut said = serde_json::to_value(&old).unwrap();
        said.as_object_mut().unwrap().remove("libfabric");
        said.as_object_mut().unwrap().remove("provider_version");
        let other: Hello = serde_json::from_value(said).unwrap();
        assert_eq!(told(&old, &other), (String::new(), Vec::new()));
    }

    #[test]
    fn a_known_pair_is_one_either_way_round() {
        let (old, new) = (hello("1.17", "net"), hello("2.5", "tcp"));
        for (here, there) in [(&old, &new), (&new, &old)] {
            let text = known(here, there).unwrap();
            assert!(
                text.contains("libfabric <1.18 (net)") && text.contains("do: "),
                "{text}"
            );
        }
        for (here, there) in [
            (&old, &old),
            (&new, &new),
            (&hello("1.17", "tcp;ofi_rxm"), &hello("2.5", "tcp;ofi_rxm")),
            (&hello("1.18", "net"), &new),
            (&hello("", "net"), &new),
        ] {
            assert_eq!(known(here, there), None);
        }
    }
}
