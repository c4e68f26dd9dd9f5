//! Any text is a PCI address, groups of NICs, a dump of hwloc, a file for NCCL, or an error that says so.

use ofi_topo::{
    Accelerators, Nic, NodeGuid, PciAddress, Rule, Tree, UserGroups, group, group_near, nccl_read,
    nccl_xml,
};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(address) = text.parse::<PciAddress>() {
        assert_eq!(address.to_string(), text.to_lowercase());
    }
    if text.parse::<NodeGuid>().is_ok() {
        assert_eq!(text.len(), 19);
    }
    if let Ok(tree) = Tree::from_hwloc_xml(text) {
        // Every function is taken for a NIC, also those that are accelerators.
        let places = tree.functions().iter().map(|function| function.address);
        let nics: Vec<Nic> = (places.enumerate())
            .map(|(index, place)| Nic::new(index, index.to_string()).with_pci(place))
            .collect();
        match group_near(&nics, &tree, Accelerators::ANY) {
            Ok(grouping) => {
                assert!(grouping.rails_max() <= 4);
                let rails = grouping.devices.iter().map(|device| device.rails.len());
                assert_eq!(rails.sum::<usize>(), nics.len());
                let file = nccl_xml::file(&tree, (&nics, &grouping), Accelerators::ANY, 1);
                assert_eq!(file.is_some(), grouping.rails_max() > 1);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    file_of_nccl(text);
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
}

/// What is checked can be read too, and the other way round.
fn file_of_nccl(text: &str) {
    let faults = nccl_read::faults(text, None);
    assert_eq!(faults.is_ok(), Tree::from_nccl_xml(text).is_ok());
    let faults = faults.unwrap_or_default();
    assert!(faults.iter().all(|fault| !fault.to_string().is_empty()));
}
