//! Any environment is parameters with notes, and a configuration or an error.

use ofi_net::config::Config;
use ofi_net::params::{Flavour, parse};

/// Lines of `NAME=VALUE`.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    let pairs: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    for flavour in [Flavour::Neuron, Flavour::Nccl] {
        let (values, mut notes) = parse(flavour, pairs.iter().copied());
        // One a pair, and never more than the names have.
        assert!(notes.len() <= 2 * pairs.len(), "{notes:?}");
        match Config::from_values(&values, &mut notes) {
            Ok(config) => config.check().expect("what was made can be used"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        assert!(notes.iter().all(|note| !note.to_string().is_empty()));
    }
}
