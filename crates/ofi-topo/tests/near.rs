//! NICs grouped by accelerators, on the shapes of real instances and on what is left of them.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::devices;
use ofi_topo::shape::Shape;
use ofi_topo::{
    Accelerators, Grouping, MAX_RAILS, Nic, NodeGuid, PciAddress, PciFunction, Remark, Tree,
    group_near, nccl_xml, nearest,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Numbers that look random and are the same each time.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// The list with indices of its own: what another process would pass.
fn renumbered(nics: &[Nic]) -> Vec<Nic> {
    let own = |(index, nic): (usize, &Nic)| {
        let mut nic = nic.clone();
        nic.index = index;
        nic
    };
    nics.iter().enumerate().map(own).collect()
}

fn shape(name: &str) -> Shape {
    Shape::by_name(name).unwrap()
}

fn grouped(shape: &Shape, accelerators: Accelerators) -> Grouping {
    group_near(&shape.provider_list(), &shape.tree, accelerators).unwrap()
}

fn names(shape: &Shape, accelerators: Accelerators) -> Vec<Vec<String>> {
    let grouping = grouped(shape, accelerators);
    devices(&grouping, &shape.provider_list())
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

#[test]
fn instances_have_the_devices_that_the_reference_makes() {
    let nvidia = |name| names(&shape(name), Accelerators::NVIDIA);
    // Trees of a NIC for two GPUs each, or of one NIC: nothing to group.
    assert_eq!(
        nvidia("p4d"),
        [
            ["rdmap16s27"],
            ["rdmap32s27"],
            ["rdmap144s27"],
            ["rdmap160s27"]
        ]
    );
    assert_eq!(nvidia("g5"), [["rdmap0s21"]]);
    assert_eq!(nvidia("p3dn"), [["rdmap0s21"]]);
    assert_eq!(nvidia("c5n"), [["rdmap0s31"]]);
    // Four NICs a GPU, the last one leads.
    let p5 = nvidia("p5");
    assert_eq!(p5.len(), 8);
    assert_eq!(p5[0], ["rdmap82s0", "rdmap81s0", "rdmap80s0", "rdmap79s0"]);
    assert_eq!(
        p5[7],
        ["rdmap201s0", "rdmap200s0", "rdmap199s0", "rdmap198s0"]
    );
    let p5en = nvidia("p5en");
    assert_eq!(p5en.len(), 8);
    assert!(p5en.iter().all(|rails| rails.len() == 2));
    for name in Shape::NAMES {
        assert_eq!(
            grouped(&shape(name), Accelerators::NVIDIA).remarks,
            [],
            "{name}"
        );
    }
}

#[test]
fn neuron_devices_group_only_when_asked() {
    for name in ["trn1", "trn2"] {
        let shape = shape(name);
        let plain = names(&shape, Accelerators::NVIDIA);
        assert_eq!(plain.len(), shape.nics.len(), "{name}");
        // With as many devices as NICs or more, each NIC is one, near a Neuron device now.
        let asked = grouped(&shape, Accelerators::NEURON);
        assert_eq!(asked.devices.len(), shape.nics.len(), "{name}");
        assert!(asked.devices.iter().all(|device| device.near.is_some()));
        assert!(asked.devices.iter().all(|device| device.rails.len() == 1));
    }
    // One Neuron device for two NICs: now they make one device.
    let thinned = shape("trn1").without(|f| f.device == 0x7164 && f.address.device() != 0x1b);
    let grouping = grouped(&thinned, Accelerators::NEURON);
    assert_eq!(grouping.devices.len(), 4);
    assert_eq!(
        devices(&grouping, &thinned.provider_list())[0],
        ["rdmap16s26", "rdmap16s25"]
    );
}

#[test]
fn the_nearest_nics_of_an_accelerator() {
    let trn2 = shape("trn2");
    let nics = trn2.provider_list();
    let mut pairs = 0;
    for function in trn2.tree.functions() {
        if Accelerators::NEURON.contain(function) {
            let near = nearest(&nics, &trn2.tree, function.address);
            assert_eq!(near.len(), 1);
            assert_eq!(near[0].pci.unwrap().bus(), function.address.bus());
            pairs += 1;
        }
    }
    assert_eq!(pairs, 16);
    let p4d = shape("p4d");
    let nics = p4d.provider_list();
    let near = nearest(&nics, &p4d.tree, address("0000:90:1d.0"));
    assert_eq!(near[0].name, "rdmap144s27");
    // Without a NIC of its own, all of its node are as near.
    let poorer = p4d.without(|f| f.address == address("0000:10:1b.0"));
    let nics = poorer.provider_list();
    let near = nearest(&nics, &poorer.tree, address("0000:10:1c.0"));
    assert_eq!(near.len(), 1);
    assert_eq!(near[0].name, "rdmap32s27");
    assert!(nearest(&nics, &poorer.tree, address("0000:99:00.0")).is_empty());
    assert!(nearest(&[], &poorer.tree, address("0000:10:1c.0")).is_empty());
}

#[test]
fn fewer_accelerators_than_usual_widen_devices_up_to_the_wires_limit() {
    // A root bus with eight NICs and one GPU: two devices of four, since four rails is all there is.
    let functions = (0..8)
        .map(|device| PciFunction::new(PciAddress::new(0, 0, device, 0).unwrap(), Vec::new()));
    let mut gpu = PciFunction::new(address("0000:00:1e.0"), Vec::new());
    (gpu.class, gpu.vendor) = (0x0302, 0x10de);
    let tree = Tree::new(functions.chain([gpu]).collect(), [].into());
    let nics: Vec<Nic> = (0..8)
        .map(|i| {
            Nic::new(i, format!("n{i}"))
                .with_pci(PciAddress::new(0, 0, u8::try_from(i).unwrap(), 0).unwrap())
        })
        .collect();
    let grouping = group_near(&nics, &tree, Accelerators::NVIDIA).unwrap();
    assert_eq!(
        devices(&grouping, &nics),
        [["n3", "n2", "n1", "n0"], ["n7", "n6", "n5", "n4"]]
    );
    assert_eq!(
        grouping.remarks,
        [Remark::Spread {
            nics: 8,
            accelerators: 1,
            devices: 2
        }]
    );
    // Five for two GPUs do not come out even.
    let mut other = tree.functions().last().unwrap().clone();
    other.address = address("0000:00:1f.0");
    let functions = tree.functions().iter().cloned().chain([other]).collect();
    let tree = Tree::new(functions, [].into());
    let grouping = group_near(&nics[..5], &tree, Accelerators::NVIDIA).unwrap();
    assert_eq!(
        devices(&grouping, &nics),
        [vec!["n1", "n0"], vec!["n4", "n3", "n2"]]
    );
    assert_eq!(grouping.remarks, [Remark::Unequal { least: 2, most: 3 }]);
}

#[test]
fn cards_with_several_functions_take_turns() {
    // Two GPUs and two cards of four functions, one behind the other: each device gets two of each.
    let mut functions = Vec::new();
    for (device, class, vendor) in [(0x1c, 0x0302, 0x10de), (0x1d, 0x0302, 0x10de)] {
        let mut gpu = PciFunction::new(PciAddress::new(0, 0, device, 0).unwrap(), Vec::new());
        (gpu.class, gpu.vendor) = (class, vendor);
        functions.push(gpu);
    }
    let mut nics = Vec::new();
    for (index, (card, function)) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
        .into_iter()
        .enumerate()
    {
        let place = PciAddress::new(0, 0, card, function).unwrap();
        functions.push(PciFunction::new(place, Vec::new()));
        nics.push(
            Nic::new(index, format!("c{card}f{function}"))
                .with_pci(place)
                .with_guid(NodeGuid(u64::from(card) << 8 | u64::from(function))),
        );
    }
    let tree = Tree::new(functions.clone(), [].into());
    // Six NICs for two GPUs: three a device, and 6 is below 2 * (3 + 1): the order stays.
    let grouping = group_near(&nics, &tree, Accelerators::NVIDIA).unwrap();
    let three = [["c1f2", "c1f1", "c1f0"], ["c2f2", "c2f1", "c2f0"]];
    assert_eq!(devices(&grouping, &nics), three);
    // With one more GPU two a device, and functions alternate.
    let mut gpu = functions[1].clone();
    gpu.address = address("0000:00:1e.0");
    let functions = functions.into_iter().chain([gpu]).collect();
    let tree = Tree::new(functions, [].into());
    let grouping = group_near(&nics, &tree, Accelerators::NVIDIA).unwrap();
    let turns = [["c1f1", "c1f2"], ["c2f0", "c2f1"], ["c2f2", "c1f0"]];
    assert_eq!(devices(&grouping, &nics), turns);
    // Where a GUID cannot be read the order of the tree stays.
    nics[0].guid = None;
    let grouping = group_near(&nics, &tree, Accelerators::NVIDIA).unwrap();
    let plain = [["c1f1", "c1f0"], ["c2f0", "c1f2"], ["c2f2", "c2f1"]];
    assert_eq!(devices(&grouping, &nics), plain);
}

#[test]
fn nics_that_are_nowhere_are_devices_of_their_own() {
    let p5 = shape("p5");
    let mut nics = p5.provider_list();
    nics.push(Nic::new(40, "rxe0"));
    nics.push(Nic::new(41, "hidden").with_pci(address("0000:fe:00.0")));
    let grouping = group_near(&nics, &p5.tree, Accelerators::NVIDIA).unwrap();
    let names = devices(&grouping, &nics);
    assert_eq!(names.len(), 10);
    assert_eq!(names[8..], [["hidden"], ["rxe0"]]);
    assert_eq!(
        grouping.remarks,
        [
            // With the devices of four.
            Remark::Unequal { least: 1, most: 4 },
            Remark::Elsewhere { index: 41 },
            Remark::Elsewhere { index: 40 }
        ]
    );
    // No PCI at all.
    let grouping = group_near(&nics, &Tree::default(), Accelerators::NVIDIA).unwrap();
    assert_eq!(grouping.devices.len(), 34);
    assert!(
        grouping
            .devices
            .iter()
            .all(|device| device.rails.len() == 1)
    );
    // Two ports of a function are two NICs of its GPU.
    let ports = [
        Nic::new(0, "p0").with_pci(address("0000:10:1b.0")),
        Nic::new(1, "p1").with_pci(address("0000:10:1b.0")),
    ];
    let p4d = shape("p4d").without(|f| f.address == address("0000:10:1d.0"));
    let grouping = group_near(&ports, &p4d.tree, Accelerators::NVIDIA).unwrap();
    assert_eq!(devices(&grouping, &ports)[0].len(), 2);
}

#[test]
fn ten_thousand_orders_of_each_instance_give_the_same() {
    let mut dice = Lcg(7);
    for name in Shape::NAMES {
        let shape = shape(name);
        let list = shape.provider_list();
        let first = group_near(&list, &shape.tree, Accelerators::ANY).unwrap();
        let want = devices(&first, &list);
        let file = nccl_xml::file(&shape.tree, (&list, &first), Accelerators::ANY, 3);
        let (mut list, mut functions) = (list, shape.tree.functions().to_vec());
        for round in 0..10_000 {
            dice.shuffle(&mut list);
            let other = renumbered(&list);
            let grouping = group_near(&other, &shape.tree, Accelerators::ANY).unwrap();
            assert_eq!(devices(&grouping, &other), want, "{name}, round {round}");
            let same = nccl_xml::file(&shape.tree, (&other, &grouping), Accelerators::ANY, 3);
            assert_eq!(same, file, "{name}, round {round}");
            if round % 100 == 0 {
                // The order in which a directory lists functions is nobody's promise either.
                dice.shuffle(&mut functions);
                let tree = Tree::new(functions.clone(), shape.tree.packages().clone());
                assert_eq!(tree, shape.tree, "{name}, round {round}");
            }
        }
    }
}

/// Bridges that a hypervisor hides: what is left of the tree, packages and nodes, decides, and no more than
/// that is lost.
#[test]
fn hidden_bridges_leave_the_nodes() {
    let p5 = shape("p5");
    let flat = |function: &PciFunction| {
        let mut function = function.clone();
        function.bridges.clear();
        function
    };
    let functions = p5.tree.functions().iter().filter(|f| f.class != 0x0604);
    let packages = (0..2).filter_map(|node| Some((node, p5.tree.package_of(node)?)));
    let tree = Tree::new(functions.map(flat).collect(), packages.collect());
    let list = p5.provider_list();
    let grouping = group_near(&list, &tree, Accelerators::NVIDIA).unwrap();
    let rails = grouping.devices.iter().map(|device| device.rails.len());
    assert_eq!(rails.collect::<Vec<_>>(), [4; 8]);
    let numa = |index: usize| tree.find(list[index].pci.unwrap()).unwrap().numa;
    for device in &grouping.devices {
        assert!(
            device
                .rails
                .iter()
                .all(|&rail| numa(rail) == numa(device.leader))
        );
    }
}

/// More NICs than any instance has, behind one switch with few accelerators, of no NUMA node, all with one
/// GUID: in one order all the same, whatever the list's.
#[test]
fn two_hundred_nics_of_one_guid_have_one_order() {
    let bridge = address("0000:01:00.0");
    let at = |bus: u8| PciAddress::new(0, bus, 0, 0).unwrap();
    let behind = |bus: u8, class: u16, vendor: u16| {
        let mut function = PciFunction::new(at(bus), vec![bridge]);
        (function.class, function.vendor) = (class, vendor);
        function
    };
    let mut functions = vec![PciFunction::new(bridge, Vec::new())];
    functions.extend((2..=201).map(|bus| behind(bus, 0x0200, 0x1d0f)));
    functions.extend((202..=204).map(|bus| behind(bus, 0x0302, 0x10de)));
    let tree = Tree::new(functions, BTreeMap::new());
    let guid: NodeGuid = "0000:0000:0000:0000".parse().unwrap();
    let nic = |bus: u8| {
        let nic = Nic::new(usize::from(bus) - 2, format!("nic{bus}"));
        nic.with_pci(at(bus)).with_guid(guid)
    };
    let mut list: Vec<Nic> = (2..=201).map(nic).collect();
    let of = |list: &[Nic]| {
        let grouping = group_near(list, &tree, Accelerators::NVIDIA).unwrap();
        let spread = Remark::Spread {
            nics: 200,
            accelerators: 3,
            devices: 50,
        };
        assert_eq!(grouping.remarks, [spread]);
        devices(&grouping, list)
    };
    let want = of(&list);
    assert!(want.len() == 50 && want.iter().all(|device| device.len() == MAX_RAILS));
    let mut dice = Lcg(3);
    for round in 0..100 {
        dice.shuffle(&mut list);
        assert_eq!(of(&renumbered(&list)), want, "round {round}");
    }
}

/// One and the same number of rails for all, or it is remarked with both: wherever a NIC stays alone.
#[test]
fn devices_that_differ_are_remarked_wherever_they_are() {
    let p5 = shape("p5");
    let list = p5.provider_list();
    let is_gpu = |f: &PciFunction| f.vendor == 0x10de;
    let gpus: Vec<PciAddress> = (p5.tree.functions().iter().filter(|f| is_gpu(f)))
        .map(|f| f.address)
        .collect();
    let unequal = |list: &[Nic], gone: &[PciAddress]| {
        let tree = p5.without(|f| gone.contains(&f.address)).tree;
        let grouping = group_near(list, &tree, Accelerators::NVIDIA).unwrap();
        let mut rails: Vec<usize> = grouping.devices.iter().map(|d| d.rails.len()).collect();
        rails.sort_unstable();
        let bounds = (rails[0], rails[rails.len() - 1]);
        let remarked = grouping.remarks.iter().find_map(|remark| match remark {
            Remark::Unequal { least, most } => Some((*least, *most)),
            _ => None,
        });
        assert_eq!(remarked, (bounds.0 < bounds.1).then_some(bounds));
        remarked
    };
    assert_eq!(unequal(&list, &[]), None);
    // An accelerator is gone: its NICs are devices of one rail, near to nothing.
    assert_eq!(unequal(&list, &gpus[..1]), Some((1, 4)));
    assert_eq!(unequal(&list, &gpus), None);
    let mut more = list.clone();
    more.push(Nic::new(99, "nowhere"));
    assert_eq!(unequal(&more, &[]), Some((1, 4)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is missing: every NIC serves one device, no device is too wide, sources agree.
    #[test]
    fn what_is_left_of_an_instance_is_grouped_too(
        name in prop::sample::select(Shape::NAMES.to_vec()),
        drop in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        kinds in prop::sample::select(vec![
            Accelerators::NONE, Accelerators::NVIDIA, Accelerators::NEURON, Accelerators::ANY,
        ]),
    ) {
        let whole = shape(name);
        let functions = whole.tree.functions();
        // Bridges stay: without them nothing would be behind them.
        let droppable: Vec<PciAddress> = functions.iter()
            .filter(|f| f.class != 0x0604).map(|f| f.address).collect();
        let dropped: Vec<PciAddress> =
            drop.iter().map(|i| *i.get(&droppable)).collect();
        let left = whole.without(|f| dropped.contains(&f.address));
        let nics = left.provider_list();
        let grouping = group_near(&nics, &left.tree, kinds).unwrap();
        let mut rails: Vec<usize> = grouping.devices.iter()
            .flat_map(|device| device.rails.clone()).collect();
        rails.sort_unstable();
        prop_assert_eq!(rails, (0..nics.len()).collect::<Vec<_>>());
        for device in &grouping.devices {
            prop_assert!((1..=MAX_RAILS).contains(&device.rails.len()));
            prop_assert_eq!(device.leader, device.rails[0]);
        }
        let read = Tree::from_hwloc_xml(&left.hwloc_xml()).unwrap();
        prop_assert_eq!(group_near(&nics, &read, kinds).unwrap(), grouping);
    }
}
