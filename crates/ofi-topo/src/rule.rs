//! What the user can ask for, parsed with errors that name the offending piece.

use core::str::FromStr;

use crate::{Nic, PciAddress, TopoError};

/// How NICs become devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Each NIC is a device with one rail.
    #[default]
    OnePerNic,
    /// The devices are spelt out; NICs not named serve no device.
    UserGroups(UserGroups),
    /// Each NIC is a device whose rails are that NIC so many times
    /// (`OFI_NCCL_FORCE_NUM_RAILS`; 0 means "not forced"). For the same on top of groups see
    /// [`Grouping::force_rails`](crate::Grouping::force_rails).
    ForceRails(usize),
}

/// Groups that the user spelt out: `eth0,eth1;eth2,eth3` is two devices of two rails.
///
/// A rail is named by the NIC's name or by its PCI address; blanks around names do not matter. The
/// order is the user's: of the devices and, within a device, of the rails (rail i talks to the
/// peer's rail i). A NIC repeated within a group gives that many rails on it.
///
/// ```
/// use ofi_topo::UserGroups;
/// let groups: UserGroups = "eth0, eth1; 0000:a0:05.0".parse().unwrap();
/// assert_eq!(groups.len(), 2);
/// let error = "eth0,,eth1".parse::<UserGroups>().unwrap_err().to_string();
/// assert!(error.starts_with("group 1 of \"eth0,,eth1\" has an empty name"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserGroups {
    groups: Vec<Vec<String>>,
}

impl UserGroups {
    /// How many devices are spelt out; at least 1.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "parsing refuses an empty specification"
    )]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// The NICs of each group. Refuses names that match no NIC or two, and a NIC in two groups.
    pub(crate) fn resolve<'n>(&self, nics: &[&'n Nic]) -> Result<Vec<Vec<&'n Nic>>, TopoError> {
        let mut owner: Vec<(usize, usize)> = Vec::new();
        let mut resolved = Vec::with_capacity(self.groups.len());
        for (number, items) in (1..).zip(&self.groups) {
            let mut rails = Vec::with_capacity(items.len());
            for item in items {
                let nic = find(nics, number, item)?;
                match owner.iter().find(|(index, _)| *index == nic.index) {
                    Some(&(_, first)) if first != number => {
                        let nic = nic.label();
                        return Err(TopoError::NicInTwoGroups {
                            nic,
                            first,
                            second: number,
                        });
                    }
                    Some(_) => {}
                    None => owner.push((nic.index, number)),
                }
                rails.push(nic);
            }
            resolved.push(rails);
        }
        Ok(resolved)
    }
}

fn find<'n>(nics: &[&'n Nic], group: usize, item: &str) -> Result<&'n Nic, TopoError> {
    let address: Option<PciAddress> = item.parse().ok();
    let mut hits = nics
        .iter()
        .filter(|nic| nic.name == item || (address.is_some() && nic.pci == address));
    match (hits.next(), hits.next()) {
        (Some(nic), None) => Ok(nic),
        (None, _) => Err(TopoError::UnknownNic {
            group,
            item: item.to_owned(),
            known: match nics {
                [] => "none".to_owned(),
                _ => nics
                    .iter()
                    .map(|nic| nic.label())
                    .collect::<Vec<_>>()
                    .join(", "),
            },
        }),
        (Some(first), Some(second)) => Err(TopoError::AmbiguousNic {
            group,
            item: item.to_owned(),
            first: first.label(),
            second: second.label(),
        }),
    }
}

impl FromStr for UserGroups {
    type Err = TopoError;

    fn from_str(spec: &str) -> Result<Self, TopoError> {
        let groups: Vec<Vec<String>> = spec
            .split(';')
            .map(|group| {
                group
                    .split(',')
                    .map(|item| item.trim().to_owned())
                    .collect()
            })
            .collect();
        for (number, items) in (1..).zip(&groups) {
            if items.iter().any(String::is_empty) {
                return Err(TopoError::EmptyGroupSpec {
                    spec: spec.to_owned(),
                    group: number,
                    what: if items.len() == 1 {
                        "is empty"
                    } else {
                        "has an empty name"
                    },
                });
            }
        }
        Ok(Self { groups })
    }
}

#[cfg(test)]
mod tests {
    use super::UserGroups;
    use crate::{Nic, TopoError};

    fn parse(spec: &str) -> UserGroups {
        spec.parse().unwrap()
    }

    #[test]
    fn empty_pieces_are_named() {
        for (spec, want) in [
            ("", "group 1 of \"\" is empty"),
            ("eth0;", "group 2 of \"eth0;\" is empty"),
            ("a;;b", "group 2 of \"a;;b\" is empty"),
            ("a;b,", "group 2 of \"a;b,\" has an empty name"),
            (" , ", "group 1 of \" , \" has an empty name"),
        ] {
            let error = spec.parse::<UserGroups>().unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn names_and_addresses_find_nics() {
        let port =
            |index, name: &str| Nic::new(index, name).with_pci("0000:00:06.0".parse().unwrap());
        let (a, b, c) = (port(0, "p0"), port(1, "p1"), Nic::new(2, "eth0"));
        let nics = [&a, &b, &c];
        let rails = parse("eth0;p1,p0").resolve(&nics).unwrap();
        assert_eq!(rails, [vec![&c], vec![&b, &a]]);

        let error = parse("eth0;eth9").resolve(&nics).unwrap_err();
        assert!(
            matches!(error, TopoError::UnknownNic { group: 2, .. }),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains("p0 (0000:00:06.0), p1 (0000:00:06.0), eth0")
        );
        let error = parse("0000:00:06.0").resolve(&nics).unwrap_err();
        assert!(
            matches!(error, TopoError::AmbiguousNic { group: 1, .. }),
            "{error}"
        );
        let error = parse("p0;eth0;p0").resolve(&nics).unwrap_err();
        assert!(
            matches!(
                error,
                TopoError::NicInTwoGroups {
                    first: 1,
                    second: 3,
                    ..
                }
            ),
            "{error}"
        );
        let error = parse("eth0").resolve(&[]).unwrap_err().to_string();
        assert!(error.contains("there are: none"), "{error}");
    }

    #[test]
    fn an_address_finds_one_nic_in_either_case() {
        let nic = Nic::new(5, "rdmap0s6").with_pci("0000:a0:06.0".parse().unwrap());
        assert_eq!(
            parse("0000:A0:06.0").resolve(&[&nic]).unwrap(),
            [vec![&nic]]
        );
    }
}
