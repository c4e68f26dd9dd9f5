//! NICs grouped by the accelerator nearest to them (protocol 2h.3).
//!
//! ```text
//!            bridge: one accelerator below                bus: two accelerators, four NICs
//!            /    |    |    |    \                        /   /   /   /    \    \
//!         NIC a   b    c    d    GPU        NIC a  b  c  d   GPU  GPU
//!         one device, rails d c b a         two devices, rails d c and b a
//! ```
//!
//! 1. Each accelerator climbs to the first place that has a NIC below it, and counts there.
//! 2. Each NIC climbs to the first place where an accelerator counts; where none does it is a device.
//! 3. The NICs of a place are split evenly over the accelerators that count there, in the reverse of the
//!    tree's order, and if the cards of AWS have several functions, over these in turn.
//!
//! Rail i of a device talks to rail i of its peer's, so that order matters as much as membership does.

use std::collections::{BTreeMap, BTreeSet};

use crate::nic::in_stable_order;
use crate::tree::Node;
use crate::{
    Accelerators, DeviceGroup, Grouping, MAX_RAILS, Nic, NodeGuid, PciAddress, PciFunction, Remark,
    TopoError, Tree,
};

/// Devices of the NICs nearest to accelerators, one for each accelerator where there are enough NICs. NICs
/// without an accelerator near them are devices of one rail; so are those that are not in the tree, which
/// come last. Devices are numbered by where their leaders are in the tree.
///
/// The result depends on the host and the NICs, not on the order of the list.
///
/// # Errors
/// Entries that cannot be told apart: [`TopoError::DuplicateNic`], [`TopoError::DuplicateIndex`].
///
/// # Costs
/// O(f log f) for f functions in the tree; made once per process.
pub fn group_near(
    nics: &[Nic],
    tree: &Tree,
    accelerators: Accelerators,
) -> Result<Grouping, TopoError> {
    let ordered = in_stable_order(nics)?;
    let (placed, elsewhere) = place(&ordered, tree);
    let counts = count(tree, accelerators, &placed);
    let mut devices: Vec<(usize, DeviceGroup)> = Vec::new();
    let mut remarks = Vec::new();
    for (node, list) in lists(tree, &counts, &placed) {
        let asked = counts.get(&node).map_or(list.len(), |count| count.number);
        let groups = asked.min(list.len()).max(list.len().div_ceil(MAX_RAILS));
        if groups > asked {
            remarks.push(Remark::Spread {
                nics: list.len(),
                accelerators: asked,
                devices: groups,
            });
        }
        let near = counts.get(&node).map(|count| count.last);
        devices.extend(split(&sorted_for_rails(list, groups), groups, near));
    }
    devices.sort_by_key(|(place, _)| *place);
    let alone = elsewhere.iter().map(|nic| DeviceGroup {
        rails: vec![nic.index],
        leader: nic.index,
        near: None,
    });
    let near = devices.into_iter().map(|(_, device)| device);
    let devices: Vec<DeviceGroup> = near.chain(alone).collect();
    remarks.extend(unequal(&devices));
    remarks.extend(
        elsewhere
            .iter()
            .map(|nic| Remark::Elsewhere { index: nic.index }),
    );
    Ok(Grouping {
        devices,
        unused: Vec::new(),
        remarks,
    })
}

/// The NICs nearest to the function at `address`: those below the first place above it that has any, in
/// the order of the list given. Empty when there is no such function, or no NIC on this host is in the
/// tree.
#[must_use]
pub fn nearest<'n>(nics: &'n [Nic], tree: &Tree, address: PciAddress) -> Vec<&'n Nic> {
    let Some(from) = tree.find(address) else {
        return Vec::new();
    };
    let below = |node: Node, nic: &Nic| {
        let function = nic.pci.and_then(|pci| tree.find(pci));
        function.is_some_and(|function| tree.above(function).contains(&node))
    };
    let near = |node: Node| -> Vec<&Nic> { nics.iter().filter(|nic| below(node, nic)).collect() };
    let mut found = tree.above(from).into_iter().map(near);
    found.find(|list| !list.is_empty()).unwrap_or_default()
}

/// A NIC with its function's number in the tree. Ports of one card share a function.
struct Placed<'a> {
    number: usize,
    function: &'a PciFunction,
    nic: &'a Nic,
}

/// The NICs in the order of the tree, then those that are not in it.
fn place<'a>(nics: &[&'a Nic], tree: &'a Tree) -> (Vec<Placed<'a>>, Vec<&'a Nic>) {
    let mut placed = Vec::new();
    let mut elsewhere = Vec::new();
    let numbers: BTreeMap<PciAddress, usize> = (tree.functions().iter().enumerate())
        .map(|(number, function)| (function.address, number))
        .collect();
    for &nic in nics {
        let number = nic.pci.and_then(|pci| numbers.get(&pci).copied());
        match number.and_then(|number| Some((number, tree.functions().get(number)?))) {
            Some((number, function)) => placed.push(Placed {
                number,
                function,
                nic,
            }),
            None => elsewhere.push(nic),
        }
    }
    placed.sort_by_key(|placed| placed.number);
    (placed, elsewhere)
}

/// Accelerators that count at a place.
struct Count {
    number: usize,
    last: PciAddress,
}

fn count(tree: &Tree, accelerators: Accelerators, placed: &[Placed<'_>]) -> BTreeMap<Node, Count> {
    let with_nics: BTreeSet<Node> = placed
        .iter()
        .flat_map(|placed| tree.above(placed.function))
        .collect();
    let mut counts = BTreeMap::new();
    for function in tree.functions() {
        if !accelerators.contain(function) {
            continue;
        }
        let above = tree.above(function);
        if let Some(node) = above.into_iter().find(|node| with_nics.contains(node)) {
            let last = function.address;
            let count = counts.entry(node).or_insert(Count { number: 0, last });
            (count.number, count.last) = (count.number + 1, last);
        }
    }
    counts
}

/// NICs by the place where their accelerators count, or their own place; each list in the reverse of the
/// tree's order.
fn lists<'p, 'a>(
    tree: &Tree,
    counts: &BTreeMap<Node, Count>,
    placed: &'p [Placed<'a>],
) -> BTreeMap<Node, Vec<&'p Placed<'a>>> {
    let mut lists: BTreeMap<Node, Vec<&Placed<'_>>> = BTreeMap::new();
    for one in placed.iter().rev() {
        let above = tree.above(one.function);
        let node = above.into_iter().find(|node| counts.contains_key(node));
        let node = node.unwrap_or(Node::Function(one.function.address));
        lists.entry(node).or_default().push(one);
    }
    lists
}

/// The rails of cards with several functions take these in turn: 0, 1, .. , 0, 1, .. (protocol 2h.5). So
/// does the reference where a device would have rails of several cards, that is where there are twice as
/// many NICs as one more than a device has; elsewhere, and where a GUID is missing, the order stays.
fn sorted_for_rails<'p, 'a>(list: Vec<&'p Placed<'a>>, groups: usize) -> Vec<&'p Placed<'a>> {
    let each = list.len() / groups.max(1);
    if list.len() < 2 * (each + 1) {
        return list;
    }
    let index = |placed: &&Placed<'_>| placed.nic.guid.map(NodeGuid::function_index);
    let Some(indices) = list.iter().map(index).collect::<Option<Vec<u8>>>() else {
        return list;
    };
    let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
    let mut turns: Vec<((usize, u8), &Placed<'_>)> = Vec::with_capacity(list.len());
    for (index, placed) in indices.into_iter().zip(list) {
        let round = seen.entry(index).or_insert(0);
        turns.push(((*round, index), placed));
        *round += 1;
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, placed)| placed).collect()
}

/// So many groups of consecutive NICs; the first ones have one more where it does not come out even. Each
/// with the number of its leader's function.
fn split(
    list: &[&Placed<'_>],
    groups: usize,
    near: Option<PciAddress>,
) -> Vec<(usize, DeviceGroup)> {
    let (each, more) = (list.len() / groups.max(1), list.len() % groups.max(1));
    let mut rest = list;
    let mut devices = Vec::with_capacity(groups);
    for group in 0..groups {
        let (members, others) = rest.split_at(each + usize::from(group < more));
        rest = others;
        let Some(leader) = members.first() else {
            continue;
        };
        let device = DeviceGroup {
            rails: members.iter().map(|member| member.nic.index).collect(),
            leader: leader.nic.index,
            near,
        };
        devices.push((leader.number, device));
    }
    devices
}

fn unequal(devices: &[DeviceGroup]) -> Option<Remark> {
    let rails = devices.iter().map(|device| device.rails.len());
    let (least, most) = (rails.clone().min()?, rails.max()?);
    (least < most).then_some(Remark::Unequal { least, most })
}
