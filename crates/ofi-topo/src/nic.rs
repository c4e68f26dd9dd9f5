//! What is known of one NIC, and the order NICs have whatever the provider's list does.

use core::cmp::Ordering;

use crate::{NodeGuid, PciAddress, TopoError};

/// One NIC as the provider lists it. Everything but the index and the name may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nic {
    /// The caller's own number for it; rails are given in these numbers. Unique within a list.
    pub index: usize,
    /// Name of the device, for example `rdmap0s6` or `eth0`.
    pub name: String,
    /// Where it sits; software providers do not say.
    pub pci: Option<PciAddress>,
    /// Speed of the link in bits per second; 0 when unknown.
    pub speed_bps: u64,
    /// Its GUID, where it is an EFA: orders the rails of one card (protocol 2h.5).
    pub guid: Option<NodeGuid>,
}

impl Nic {
    /// A NIC of which only the name is known.
    ///
    /// ```
    /// use ofi_topo::Nic;
    /// let nic = Nic::new(3, "rdmap0s6").with_pci("0000:00:06.0".parse().unwrap());
    /// assert_eq!((nic.index, nic.speed_bps), (3, 0));
    /// ```
    #[must_use]
    pub fn new(index: usize, name: impl Into<String>) -> Self {
        Self {
            index,
            name: name.into(),
            pci: None,
            speed_bps: 0,
            guid: None,
        }
    }

    /// The same NIC at this PCI address.
    #[must_use]
    pub fn with_pci(mut self, pci: PciAddress) -> Self {
        self.pci = Some(pci);
        self
    }

    /// The same NIC with this link speed, in bits per second.
    #[must_use]
    pub fn with_speed_bps(mut self, speed_bps: u64) -> Self {
        self.speed_bps = speed_bps;
        self
    }

    /// The same NIC with this GUID.
    #[must_use]
    pub fn with_guid(mut self, guid: NodeGuid) -> Self {
        self.guid = Some(guid);
        self
    }

    /// Name and PCI address for messages: `eth0` or `rdmap0s6 (0000:00:06.0)`.
    pub(crate) fn label(&self) -> String {
        match self.pci {
            Some(pci) => format!("{} ({pci})", self.name),
            None => self.name.clone(),
        }
    }
}

/// The NICs in the order of this crate: those with a PCI address first, by address, then by name
/// with numbers compared as numbers. Two processes that see the same NICs get the same order.
pub(crate) fn in_stable_order(nics: &[Nic]) -> Result<Vec<&Nic>, TopoError> {
    let mut sorted: Vec<&Nic> = nics.iter().collect();
    sorted.sort_by(|a, b| by_place(a, b));
    if let Some(twins) = sorted
        .windows(2)
        .find(|pair| by_place(pair[0], pair[1]).is_eq())
    {
        let (a, b) = (twins[0], twins[1]);
        return Err(TopoError::DuplicateNic {
            name: a.name.clone(),
            pci: a
                .pci
                .map_or_else(|| "unknown".to_owned(), |pci| pci.to_string()),
            first: a.index.min(b.index),
            second: a.index.max(b.index),
        });
    }
    refuse_equal_indices(nics)?;
    Ok(sorted)
}

fn by_place(a: &Nic, b: &Nic) -> Ordering {
    let unknown_last = |nic: &Nic| (nic.pci.is_none(), nic.pci);
    unknown_last(a)
        .cmp(&unknown_last(b))
        .then_with(|| natural(&a.name, &b.name))
}

fn refuse_equal_indices(nics: &[Nic]) -> Result<(), TopoError> {
    let mut by_index: Vec<&Nic> = nics.iter().collect();
    by_index.sort_by(|a, b| a.index.cmp(&b.index).then_with(|| a.name.cmp(&b.name)));
    match by_index
        .windows(2)
        .find(|pair| pair[0].index == pair[1].index)
    {
        Some(pair) => Err(TopoError::DuplicateIndex {
            index: pair[0].index,
            first: pair[0].name.clone(),
            second: pair[1].name.clone(),
        }),
        None => Ok(()),
    }
}

/// Text order in which runs of digits count as numbers: eth2 before eth10. Total: names that
/// differ only in leading zeros fall back to plain text order.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a, b);
    loop {
        let order = match (rest_a.is_empty(), rest_b.is_empty()) {
            (true, true) => return a.cmp(b),
            (a_ends, b_ends) if a_ends || b_ends => b_ends.cmp(&a_ends),
            _ => compare_runs(next_run(&mut rest_a), next_run(&mut rest_b)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_runs(a: &str, b: &str) -> Ordering {
    match (number(a), number(b)) {
        // Compared by length, then digit by digit: no number is too long.
        (Some(x), Some(y)) => x.len().cmp(&y.len()).then_with(|| x.cmp(y)),
        _ => a.cmp(b),
    }
}

/// Cuts the longest run of digits, or of anything else, off the front.
fn next_run<'a>(rest: &mut &'a str) -> &'a str {
    let starts_with_digit = rest.starts_with(|c: char| c.is_ascii_digit());
    let end = rest
        .find(|c: char| c.is_ascii_digit() != starts_with_digit)
        .unwrap_or(rest.len());
    let (head, tail) = rest.split_at(end);
    *rest = tail;
    head
}

/// The significant digits of a run of digits.
fn number(run: &str) -> Option<&str> {
    run.starts_with(|c: char| c.is_ascii_digit())
        .then(|| run.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::{Nic, Ordering, in_stable_order, natural};
    use crate::TopoError;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = vec![
            "eth10", "eth2", "eth02", "eth", "ib0", "eth2a", "10", "9", "eth02x",
        ];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            [
                "9", "10", "eth", "eth02", "eth2", "eth2a", "eth02x", "eth10", "ib0"
            ]
        );
    }

    #[test]
    fn known_places_come_first_and_in_order() {
        let nics = [
            Nic::new(0, "a"),
            Nic::new(1, "z").with_pci("0000:00:06.0".parse().unwrap()),
            Nic::new(2, "y").with_pci("0000:a0:05.0".parse().unwrap()),
            Nic::new(3, "x").with_pci("0000:00:06.0".parse().unwrap()),
        ];
        let order: Vec<usize> = in_stable_order(&nics)
            .unwrap()
            .iter()
            .map(|nic| nic.index)
            .collect();
        assert_eq!(
            order,
            [3, 1, 2, 0],
            "a two-port card's ports are told apart by name"
        );
    }

    #[test]
    fn twins_are_refused() {
        let twins = [
            Nic::new(4, "eth0"),
            Nic::new(1, "eth1"),
            Nic::new(2, "eth0"),
        ];
        let error = in_stable_order(&twins).unwrap_err();
        assert!(
            matches!(
                error,
                TopoError::DuplicateNic {
                    first: 2,
                    second: 4,
                    ..
                }
            ),
            "{error}"
        );
        let error = in_stable_order(&[Nic::new(7, "eth1"), Nic::new(7, "eth0")]).unwrap_err();
        assert!(
            matches!(error, TopoError::DuplicateIndex { index: 7, .. }),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn natural_order_is_total(a in "[a-b0-2\u{e9}]{0,6}", b in "[a-b0-2\u{e9}]{0,6}", c in "[a-b0-2\u{e9}]{0,6}") {
            prop_assert_eq!(natural(&a, &b), natural(&b, &a).reverse());
            prop_assert_eq!(natural(&a, &b) == Ordering::Equal, a == b);
            if natural(&a, &b).is_le() && natural(&b, &c).is_le() {
                prop_assert!(natural(&a, &c).is_le(), "{a:?} {b:?} {c:?}");
            }
        }
    }
}
