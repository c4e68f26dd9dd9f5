//! NICs and a rule to devices.

use std::collections::BTreeMap;

use crate::nic::in_stable_order;
use crate::{Nic, PciAddress, Rule, TopoError};

/// Most rails a device can have: the connection message has four entries a kind (protocol 2c.3).
pub const MAX_RAILS: usize = 4;

/// One device: what the collectives library sees as one network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGroup {
    /// [`Nic::index`] of each rail, 1 to [`MAX_RAILS`] of them. A repeated NIC is several rails.
    pub rails: Vec<usize>,
    /// [`Nic::index`] of the NIC whose name, PCI path and GUID stand for the device: the first
    /// of the group.
    pub leader: usize,
    /// The accelerator that the NICs were grouped by, where they were.
    pub near: Option<PciAddress>,
}

/// All devices of a host, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grouping {
    /// The devices; the position is the device's number.
    pub devices: Vec<DeviceGroup>,
    /// [`Nic::index`] of the NICs that serve no device: those the rule left out, in stable order,
    /// then those that [`force_rails`](Self::force_rails) cut off.
    pub unused: Vec<usize>,
    /// What was made otherwise than one might think.
    pub remarks: Vec<Remark>,
}

/// Something about a grouping that its user may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A NIC without a PCI address, or with one that the tree does not have (a container that hides it,
    /// a virtual device): a device of its own, after the others.
    Elsewhere {
        /// [`Nic::index`].
        index: usize,
    },
    /// More NICs for each of some accelerators than a device can have rails: they make more devices
    /// than there are accelerators. The reference refuses such a host.
    Spread {
        /// NICs near these accelerators.
        nics: usize,
        /// Devices that the accelerators alone would have had.
        accelerators: usize,
        /// Devices made.
        devices: usize,
    },
    /// Devices differ in their number of rails, so that those that differ cannot be connected; those near no
    /// accelerator, or not in the tree, among them.
    Unequal {
        /// Rails of the narrowest.
        least: usize,
        /// Rails of the widest.
        most: usize,
    },
}

impl Grouping {
    /// Rails of the widest device; 0 when there is no device. A device's speed is reported as
    /// link speed times this (protocol 2a.4).
    #[must_use]
    pub fn rails_max(&self) -> usize {
        self.devices
            .iter()
            .map(|device| device.rails.len())
            .max()
            .unwrap_or(0)
    }

    /// Devices of one NIC each joined to devices of `forced` NICs, where so many are alike: `kind` says
    /// of a NIC's index what it is alike in, `None` where it is to stay alone. For NICs without a place,
    /// which no accelerator is near to: who asks for four rails on a host with four of them means these
    /// four. The reference has no rule for them (it refuses NICs without a PCI address). Those that do not
    /// make up a whole device stay as they are.
    ///
    /// ```
    /// use ofi_topo::{Nic, Rule, group};
    /// let nics = [Nic::new(0, "eth0"), Nic::new(1, "eth1"), Nic::new(2, "eth2")];
    /// let two = group(&nics, &Rule::OnePerNic)?.join_alike(2, |_| Some(0)).force_rails(2)?;
    /// let rails: Vec<_> = two.devices.iter().map(|device| device.rails.clone()).collect();
    /// assert_eq!(rails, [[0, 1], [2, 2]]);
    /// # Ok::<(), ofi_topo::TopoError>(())
    /// ```
    #[must_use]
    pub fn join_alike(mut self, forced: usize, kind: impl Fn(usize) -> Option<u64>) -> Self {
        if !(2..=MAX_RAILS).contains(&forced) {
            return self;
        }
        let mut alike: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (position, device) in self.devices.iter().enumerate() {
            if let ([only], Some(kind)) = (&device.rails[..], kind(device.leader)) {
                debug_assert_eq!(*only, device.leader, "the first leads");
                alike.entry(kind).or_default().push(position);
            }
        }
        for joined in alike.values().flat_map(|list| list.chunks_exact(forced)) {
            let mut rails = Vec::with_capacity(forced);
            for at in joined {
                if let Some(device) = self.devices.get_mut(*at) {
                    rails.append(&mut device.rails);
                }
            }
            if let Some(first) = joined.first().and_then(|at| self.devices.get_mut(*at)) {
                first.rails = rails;
            }
        }
        self.devices.retain(|device| !device.rails.is_empty());
        self
    }

    /// `OFI_NCCL_FORCE_NUM_RAILS=forced` on every device, by the rules of protocol 2h.3: fewer than
    /// it has takes the first ones; a multiple of what it has deals them out in turn, A,B,A,B; 0
    /// changes nothing. Peers must use the same number.
    ///
    /// ```
    /// use ofi_topo::{Nic, Rule, group};
    /// let nics = [Nic::new(0, "eth0"), Nic::new(1, "eth1")];
    /// let rule = Rule::UserGroups("eth0,eth1".parse()?);
    /// let four = group(&nics, &rule)?.force_rails(4)?;
    /// assert_eq!(four.devices[0].rails, [0, 1, 0, 1]);
    /// # Ok::<(), ofi_topo::TopoError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopoError::TooManyRails`] above [`MAX_RAILS`]; [`TopoError::RailsDoNotFit`] when a
    /// device's NICs cannot be dealt out to that many.
    pub fn force_rails(mut self, forced: usize) -> Result<Self, TopoError> {
        if forced == 0 {
            return Ok(self);
        }
        if forced > MAX_RAILS {
            let what = format!("OFI_NCCL_FORCE_NUM_RAILS={forced}");
            return Err(TopoError::TooManyRails {
                what,
                rails: forced,
            });
        }
        for (device, group) in self.devices.iter_mut().enumerate() {
            let nics = group.rails.len();
            if forced < nics {
                let cut = group.rails.split_off(forced);
                let idle = cut.into_iter().filter(|rail| !group.rails.contains(rail));
                self.unused.extend(idle);
            } else if nics > 0 && forced % nics == 0 {
                group.rails = group.rails.iter().copied().cycle().take(forced).collect();
            } else {
                return Err(TopoError::RailsDoNotFit {
                    forced,
                    nics,
                    device,
                });
            }
        }
        Ok(self)
    }
}

/// The devices that a rule makes of these NICs.
///
/// The result depends on what the NICs are, not on the order of the list: devices are numbered by
/// PCI address, then by name with numbers compared as numbers; NICs without an address come last.
/// Groups that the user spelt out keep the user's order.
///
/// # Errors
/// Entries that cannot be told apart, groups that do not match the NICs, numbers of rails that
/// cannot be had: see [`TopoError`]. No NICs give no devices, which is no error here.
///
/// # Costs
/// O(n log n) comparisons and a few allocations a device; made once per process.
pub fn group(nics: &[Nic], rule: &Rule) -> Result<Grouping, TopoError> {
    let ordered = in_stable_order(nics)?;
    match rule {
        Rule::OnePerNic => Ok(one_per_nic(&ordered)),
        Rule::ForceRails(forced) => one_per_nic(&ordered).force_rails(*forced),
        Rule::UserGroups(groups) => {
            let mut devices = Vec::with_capacity(groups.len());
            for (number, members) in (1..).zip(groups.resolve(&ordered)?) {
                devices.push(device(number, &members)?);
            }
            let used: Vec<usize> = devices
                .iter()
                .flat_map(|device| device.rails.iter().copied())
                .collect();
            let unused = ordered
                .iter()
                .map(|nic| nic.index)
                .filter(|index| !used.contains(index))
                .collect();
            Ok(Grouping {
                devices,
                unused,
                remarks: Vec::new(),
            })
        }
    }
}

fn one_per_nic(ordered: &[&Nic]) -> Grouping {
    let device = |nic: &&Nic| DeviceGroup {
        rails: vec![nic.index],
        leader: nic.index,
        near: None,
    };
    Grouping {
        devices: ordered.iter().map(device).collect(),
        unused: Vec::new(),
        remarks: Vec::new(),
    }
}

fn device(number: usize, members: &[&Nic]) -> Result<DeviceGroup, TopoError> {
    let rails: Vec<usize> = members.iter().map(|nic| nic.index).collect();
    match rails.first() {
        Some(&leader) if rails.len() <= MAX_RAILS => Ok(DeviceGroup {
            rails,
            leader,
            near: None,
        }),
        _ => Err(TopoError::TooManyRails {
            what: format!("group {number}"),
            rails: rails.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceGroup, MAX_RAILS, group};
    use crate::{Nic, Rule, TopoError};

    fn hosts(names: &[&str]) -> Vec<Nic> {
        names
            .iter()
            .enumerate()
            .map(|(index, name)| Nic::new(index, *name))
            .collect()
    }

    fn rails(nics: &[Nic], spec: &str, forced: usize) -> Result<Vec<Vec<usize>>, TopoError> {
        let rule = Rule::UserGroups(spec.parse()?);
        let grouping = group(nics, &rule)?.force_rails(forced)?;
        Ok(grouping
            .devices
            .into_iter()
            .map(|device| device.rails)
            .collect())
    }

    #[test]
    fn one_device_per_nic_by_default() {
        let nics = hosts(&["eth10", "eth9"]);
        let grouping = group(&nics, &Rule::default()).unwrap();
        let want = [1, 0].map(|index| DeviceGroup {
            rails: vec![index],
            leader: index,
            near: None,
        });
        assert_eq!(grouping.devices, want);
        assert_eq!((grouping.rails_max(), grouping.unused), (1, vec![]));
        assert_eq!(group(&[], &Rule::default()).unwrap().rails_max(), 0);
    }

    #[test]
    fn alike_nics_are_joined_and_others_stay_alone() {
        let nics = hosts(&["eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "lo"]);
        // Two speeds, and one that is to stay alone.
        let kind = |index| [Some(1), Some(2), Some(1), Some(2), Some(1), Some(1), None][index];
        let joined = |forced| {
            let made = group(&nics, &Rule::OnePerNic).unwrap();
            let made = made.join_alike(forced, kind);
            let leads = |device: &DeviceGroup| device.rails.first() == Some(&device.leader);
            assert!(made.devices.iter().all(leads), "{made:?}");
            let rails: Vec<Vec<usize>> = made.devices.into_iter().map(|d| d.rails).collect();
            rails
        };
        let alone: Vec<Vec<usize>> = (0..7).map(|index| vec![index]).collect();
        for forced in [0, 1, 5] {
            assert_eq!(joined(forced), alone);
        }
        assert_eq!(joined(2), [vec![0, 2], vec![1, 3], vec![4, 5], vec![6]]);
        assert_eq!(
            joined(3),
            [vec![0, 2, 4], vec![1], vec![3], vec![5], vec![6]]
        );
        assert_eq!(joined(4), [vec![0, 2, 4, 5], vec![1], vec![3], vec![6]]);
        // What has rails already is left alone.
        let pairs = Rule::UserGroups("eth0,eth1;eth2,eth3".parse().unwrap());
        let pairs = group(&nics, &pairs).unwrap();
        assert_eq!(pairs.clone().join_alike(2, kind), pairs);
    }

    #[test]
    fn four_rails_on_one_nic() {
        let grouping = group(&hosts(&["lo"]), &Rule::ForceRails(4)).unwrap();
        assert_eq!(
            grouping.devices,
            [DeviceGroup {
                rails: vec![0; 4],
                leader: 0,
                near: None
            }]
        );
        assert_eq!(grouping.rails_max(), 4);
    }

    #[test]
    fn forced_rails_follow_the_table_of_2h3() {
        let nics = hosts(&["a", "b", "c"]);
        assert_eq!(
            rails(&nics, "a,b,c", 0).unwrap(),
            [[0, 1, 2]],
            "0 changes nothing"
        );
        assert_eq!(
            rails(&nics, "a,b,c", 2).unwrap(),
            [[0, 1]],
            "fewer: the first"
        );
        assert_eq!(
            rails(&nics, "a,b,c", 3).unwrap(),
            [[0, 1, 2]],
            "as many: the same"
        );
        assert_eq!(
            rails(&nics, "b,a;c", 4).unwrap(),
            [[1, 0, 1, 0], [2, 2, 2, 2]]
        );
        let error = rails(&nics, "a;a", 1).unwrap_err();
        assert!(matches!(error, TopoError::NicInTwoGroups { .. }), "{error}");
        let error = rails(&nics, "a,b,c", 4).unwrap_err();
        assert!(
            matches!(
                error,
                TopoError::RailsDoNotFit {
                    forced: 4,
                    nics: 3,
                    device: 0
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn no_more_rails_than_the_wire_has_room_for() {
        let nics = hosts(&["a", "b", "c", "d", "e"]);
        let error = group(&nics, &Rule::ForceRails(MAX_RAILS + 1)).unwrap_err();
        assert!(
            matches!(error, TopoError::TooManyRails { rails: 5, .. }),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .starts_with("OFI_NCCL_FORCE_NUM_RAILS=5 asks for 5 rails")
        );
        let error = rails(&nics, "a;b,b,b,b,b", 0).unwrap_err();
        assert!(
            error.to_string().starts_with("group 2 asks for 5 rails"),
            "{error}"
        );
    }

    #[test]
    fn nics_left_over_are_named() {
        let nics = hosts(&["a", "b", "c", "d"]);
        let rule = Rule::UserGroups("c,b".parse().unwrap());
        let grouping = group(&nics, &rule).unwrap();
        assert_eq!(
            (grouping.devices[0].leader, &grouping.unused[..]),
            (2, &[0, 3][..])
        );
        assert_eq!(grouping.force_rails(1).unwrap().unused, [0, 3, 1]);
    }
}
