//! Hosts for EFA (protocol 2h.1 (1)): nothing else is taken in silence.

use super::{Candidate, Config, V2_5, config, domains, efa, entry, look};
use crate::error::Code;
use ofi_topo::shape::Shape;

/// A host of this instance type; with a root, of what that shows.
fn host(product: &str, root: Option<&std::path::Path>, provider: Option<&str>) -> Config {
    let mut config = config(provider);
    config.product_name = Some(product.to_owned());
    if let Some(root) = root {
        config.fs_root = root.to_owned();
    }
    config
}

fn others() -> Vec<Candidate> {
    vec![entry("tcp", "eth0"), entry("tcp;ofi_rxm", "eth0")]
}

#[test]
fn no_efa_on_a_host_for_efa_is_an_error_that_says_why_whatever_else_there_is() {
    let root = tempfile::tempdir().unwrap();
    let shape = Shape::by_name("c5n").unwrap();
    shape.write_sysfs(root.path()).unwrap();
    let cases = [
        (host("p5.48xlarge", None, None), "p5.48xlarge has 32 EFAs"),
        (host("p4d.24xlarge", None, None), "p4d.24xlarge has 4 EFAs"),
        (
            host("g5.48xlarge", None, None),
            "g5.48xlarge is of a family",
        ),
        (
            host("unknown.9xlarge", Some(root.path()), None),
            "this host shows 1 EFAs",
        ),
    ];
    for (config, says) in cases {
        for tagged in [false, true] {
            // Listed for what is asked for exactly, or for anything, or not at all.
            for answers in [
                vec![Some(others()), Some(others())],
                vec![None, Some(others())],
                vec![None, None],
            ] {
                let outcome = look(&config, (V2_5, tagged), answers);
                assert_eq!(outcome.asked.len(), 2, "{:?}", outcome.asked);
                let error = outcome.chosen.unwrap_err();
                assert_eq!(error.code(), Code::NoEfa, "{error}");
                let line = error.to_string();
                assert!(error.what().starts_with(says), "{line}");
                for part in ["EFA", "FI_PROVIDER=tcp", "ofi doctor"] {
                    assert!(line.contains(part), "{part}: {line}");
                }
            }
        }
    }
}

/// tcp of libfabric 2 has all that is asked for, and an EFA without device memory has not.
#[test]
fn an_efa_that_lacks_what_others_have_is_found_by_the_second_query() {
    let config = host("p5.48xlarge", None, None);
    for tagged in [false, true] {
        let second = vec![entry("tcp", "eth0"), efa("a-rdm", "efa")];
        let outcome = look(&config, (V2_5, tagged), vec![Some(others()), Some(second)]);
        assert_eq!(domains(&outcome), ["a-rdm"]);
    }
}

#[test]
fn who_names_a_provider_has_it() {
    for provider in ["tcp", "^efa", "^shm", "efa,tcp"] {
        let config = host("p5.48xlarge", None, Some(provider));
        let outcome = look(&config, (V2_5, false), vec![Some(others())]);
        assert_eq!(domains(&outcome), ["eth0"], "{provider}");
    }
}

#[test]
fn hosts_of_which_nothing_speaks_for_efa_take_what_there_is() {
    for product in ["", "c5n.18xlarge", "KVM"] {
        let outcome = look(
            &host(product, None, None),
            (V2_5, false),
            vec![Some(others())],
        );
        assert_eq!(domains(&outcome), ["eth0"], "{product}");
    }
}
