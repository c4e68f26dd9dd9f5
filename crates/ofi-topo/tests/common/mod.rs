//! What the tests share.
#![expect(clippy::unwrap_used, reason = "test code")]
#![expect(unreachable_pub, reason = "compiled into several test binaries")]

use ofi_topo::{Grouping, Nic};

/// Devices by the names of their rails, leader first.
pub fn devices(grouping: &Grouping, nics: &[Nic]) -> Vec<Vec<String>> {
    let name = |index: &usize| {
        let nic = nics.iter().find(|nic| nic.index == *index).unwrap();
        nic.name.clone()
    };
    let device = |device: &ofi_topo::DeviceGroup| {
        assert_eq!(device.leader, device.rails[0]);
        device.rails.iter().map(name).collect()
    };
    grouping.devices.iter().map(device).collect()
}
