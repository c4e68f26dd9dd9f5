//! Which entries get virtual addresses, and what that costs.

use super::{Candidate, Config, MrMode, V1_17, config, consts, entry, run};

#[test]
fn interfaces_of_the_ip_stack_get_virtual_addresses_without_another_query() {
    let offsets = |domain| Candidate {
        virtual_addresses: false,
        provider_keys: false,
        mr_mode: MrMode::empty(),
        ..entry("tcp;ofi_rxm", domain)
    };
    let answers = || vec![None, Some(vec![offsets("eth0"), offsets("eth1")])];
    let outcome = run(&config(None), V1_17, answers());
    assert_eq!(outcome.asked.len(), 2, "{:?}", outcome.asked);
    let chosen = outcome.chosen.unwrap();
    assert!(chosen.len() == 2 && chosen.iter().all(|c| c.virtual_addresses));
    // Unless the user wants the provider's own addressing.
    let theirs = Config {
        provider_addressing: true,
        ..config(None)
    };
    let chosen = run(&theirs, V1_17, answers()).chosen.unwrap();
    assert!(chosen.len() == 2 && chosen.iter().all(|c| c.mr_mode.is_empty()));
}

#[test]
fn virtual_addresses_of_others_are_asked_for_once_more() {
    let offsets = Candidate {
        virtual_addresses: false,
        provider_keys: false,
        mr_mode: MrMode::empty(),
        addr_format: consts::FI_ADDR_STR,
        ..entry("cloud", "c0")
    };
    let virt = Candidate {
        addr_format: consts::FI_ADDR_STR,
        ..entry("cloud", "c0")
    };
    let other = entry("udp;ofi_rxd", "eth0");
    let answers = vec![Some(vec![offsets.clone()]), Some(vec![other, virt])];
    let outcome = run(&config(None), V1_17, answers);
    assert!(
        outcome.asked[1].contains("mr_mode FI_MR_BASIC, "),
        "{:?}",
        outcome.asked
    );
    let chosen = outcome.chosen.unwrap();
    assert!(chosen[0].virtual_addresses && chosen[0].provider == "cloud");
    // Offset addressing is the last resort, and works; it is also what there is before a third query.
    for answers in [
        vec![Some(vec![offsets.clone()]), None],
        vec![None, Some(vec![offsets])],
    ] {
        let outcome = run(&config(None), V1_17, answers);
        assert_eq!(outcome.asked.len(), 2, "{:?}", outcome.asked);
        assert!(!outcome.chosen.unwrap()[0].virtual_addresses);
    }
}
