//! Any text is a PCI address, groups of NICs, or an error that says so.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ofi_topo::{Nic, NodeGuid, PciAddress, Rule, UserGroups, group};

fuzz_target!(|text: &str| {
    if let Ok(address) = text.parse::<PciAddress>() {
        assert_eq!(address.to_string(), text.to_lowercase());
    }
    if text.parse::<NodeGuid>().is_ok() {
        assert_eq!(text.len(), 19);
    }
    let Ok(groups) = text.parse::<UserGroups>() else {
        return;
    };
    let devices = groups.len();
    let nics = ["a", "b", "eth0", "eth1"].into_iter().enumerate();
    let nics: Vec<Nic> = nics.map(|(index, name)| Nic::new(index, name)).collect();
    match group(&nics, &Rule::UserGroups(groups)) {
        Ok(grouping) => {
            assert_eq!(grouping.devices.len(), devices);
            assert!((1..=4).contains(&grouping.rails_max()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
