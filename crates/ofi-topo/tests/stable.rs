//! The same NICs give the same devices, whatever the order of the provider's list.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::devices;
use ofi_topo::{MAX_RAILS, Nic, PciAddress, Rule, group};
use proptest::prelude::*;

/// Distinct NICs, some with an address, some sharing one (two ports of a card), shuffled.
fn shuffled() -> impl Strategy<Value = (Vec<Nic>, Vec<Nic>)> {
    let places = prop::collection::vec(prop::option::of((0u32..2, 0u8..3, 0u8..3)), 0..12);
    let nics = places.prop_map(|places| {
        let nic = |(index, place): (usize, Option<(u32, u8, u8)>)| {
            let nic = Nic::new(index, format!("eth{index}"));
            match place {
                Some((domain, bus, device)) => {
                    nic.with_pci(PciAddress::new(domain, bus, device, 0).unwrap())
                }
                None => nic,
            }
        };
        places.into_iter().enumerate().map(nic).collect::<Vec<_>>()
    });
    nics.prop_flat_map(|nics| (Just(nics.clone()), Just(nics).prop_shuffle()))
}

/// The shuffled list with indices of its own: what another process would pass.
fn renumbered(nics: &[Nic]) -> Vec<Nic> {
    let own = |(index, nic): (usize, &Nic)| {
        let mut nic = nic.clone();
        nic.index = index;
        nic
    };
    nics.iter().enumerate().map(own).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn order_of_the_list_does_not_matter((nics, other) in shuffled(), forced in 0..=MAX_RAILS) {
        let other = renumbered(&other);
        for rule in [Rule::OnePerNic, Rule::ForceRails(forced)] {
            let here = group(&nics, &rule).unwrap();
            let there = group(&other, &rule).unwrap();
            prop_assert_eq!(devices(&here, &nics), devices(&there, &other));
            prop_assert_eq!(here.devices.len(), nics.len());
        }
    }

    #[test]
    fn user_groups_keep_the_users_order((nics, other) in shuffled(), width in 1..=MAX_RAILS) {
        let names: Vec<&str> = other.iter().map(|nic| nic.name.as_str()).collect();
        let groups: Vec<Vec<&str>> = names.chunks(width).map(<[_]>::to_vec).collect();
        let spec = groups.iter().map(|names| names.join(",")).collect::<Vec<_>>().join(" ; ");
        prop_assume!(!spec.is_empty());
        let rule = Rule::UserGroups(spec.parse().unwrap());
        let grouping = group(&nics, &rule).unwrap();
        prop_assert_eq!(devices(&grouping, &nics), groups);
        prop_assert!(grouping.unused.is_empty());
    }

    #[test]
    fn forced_rails_use_only_the_devices_own_nics((nics, _) in shuffled(), forced in 0usize..9) {
        let spec = nics.chunks(3).map(|nics| {
            nics.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(",")
        }).collect::<Vec<_>>().join(";");
        prop_assume!(!spec.is_empty());
        let before = group(&nics, &Rule::UserGroups(spec.parse().unwrap())).unwrap();
        match before.clone().force_rails(forced) {
            Ok(after) => for (old, new) in before.devices.iter().zip(&after.devices) {
                let want = if forced == 0 { old.rails.len() } else { forced };
                prop_assert_eq!(new.rails.len(), want);
                for (rail, nic) in new.rails.iter().enumerate() {
                    prop_assert_eq!(*nic, old.rails[rail % old.rails.len()]);
                }
            },
            Err(error) => prop_assert!(
                forced > MAX_RAILS
                    || before.devices.iter().any(|d| {
                        forced > d.rails.len() && forced % d.rails.len() != 0
                    }),
                "{error}"
            ),
        }
    }
}
