//! The topology file, by the checks that NCCL makes when it reads one.
#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_topo::shape::Shape;
use ofi_topo::{
    Accelerators, Grouping, Link, Nic, PciAddress, PciFunction, Rule, Tree, group, group_near,
    nccl_xml,
};
use roxmltree::{Document, Node};
use std::collections::HashSet;

/// NCCL up to 2.19 has room for so many elements in all; a file should leave half to what it finds itself.
const NODES_MAX: usize = 128;
/// Of NCCL's reader: children of an element, attributes of one, characters of a value.
const CHILDREN_MAX: usize = 128;
const ATTRIBUTES_MAX: usize = 16;
const VALUE_MAX: usize = 254;

fn check(node: Node<'_, '_>, seen: &mut HashSet<String>) -> usize {
    let children: Vec<Node<'_, '_>> = node.children().filter(Node::is_element).collect();
    assert!(children.len() <= CHILDREN_MAX);
    assert!(node.attributes().len() <= ATTRIBUTES_MAX);
    assert!(node.attributes().all(|a| a.value().len() <= VALUE_MAX));
    let attribute = |name| node.attribute(name);
    let allowed: &[&str] = match node.tag_name().name() {
        "system" => {
            assert_eq!(attribute("version"), Some("1"));
            &["cpu"]
        }
        "cpu" => {
            let numa = attribute("numaid").unwrap();
            assert!(numa.parse::<u32>().is_ok(), "{numa}");
            let host = attribute("host_hash").unwrap().strip_prefix("0x").unwrap();
            assert!(u64::from_str_radix(host, 16).is_ok(), "{host}");
            assert!(!children.is_empty(), "a cpu of nothing");
            assert!(seen.insert(format!("cpu {numa}")), "{numa} twice");
            &["pci"]
        }
        "pci" => {
            let bus = attribute("busid").unwrap();
            let address: PciAddress = bus.parse().unwrap();
            assert_eq!(address.to_string(), bus, "NCCL compares text");
            assert!(seen.insert(bus.to_owned()), "{bus} twice");
            if let Some(speed) = attribute("link_speed") {
                let known = ["2.5", "5", "8", "16", "32", "64"].map(|s| format!("{s} GT/s PCIe/s"));
                assert!(known.contains(&speed.to_owned()), "{speed}");
                let width: u32 = attribute("link_width").unwrap().parse().unwrap();
                assert!((1..=64).contains(&width));
            }
            &["pci"]
        }
        other => panic!("<{other}>"),
    };
    let inside: usize = children
        .iter()
        .map(|child| {
            assert!(allowed.contains(&child.tag_name().name()));
            check(*child, seen)
        })
        .sum();
    inside + 1
}

fn near(shape: &Shape) -> (Vec<Nic>, Grouping) {
    let nics = shape.provider_list();
    let grouping = group_near(&nics, &shape.tree, Accelerators::NVIDIA).unwrap();
    (nics, grouping)
}

fn file_of(shape: &Shape) -> Option<String> {
    let (nics, grouping) = near(shape);
    nccl_xml::file(
        &shape.tree,
        (&nics, &grouping),
        Accelerators::NVIDIA,
        0xabcd,
    )
}

/// Leaders that the file has with a link, and that the devices have.
fn leaders_agree(shape: &Shape, document: &Document<'_>) {
    let (nics, grouping) = near(shape);
    let listed: HashSet<String> = document
        .descendants()
        .filter(|node| node.has_attribute("link_speed"))
        .map(|node| node.attribute("busid").unwrap().to_owned())
        .collect();
    let told: HashSet<String> = grouping
        .devices
        .iter()
        .map(|device| nics[device.leader].pci.unwrap().to_string())
        .collect();
    assert_eq!(listed, told);
}

#[test]
fn files_are_what_nccl_takes() {
    for name in Shape::NAMES {
        let shape = Shape::by_name(name).unwrap();
        let several = name.starts_with("p5");
        let file = file_of(&shape);
        assert_eq!(file.is_some(), several, "{name}");
        let Some(file) = file else { continue };
        // NCCL's reader knows elements and attributes, no declarations.
        assert!(file.is_ascii() && file.starts_with("<system version=\"1\">"));
        // Nor has it anything that the parser may not take.
        let faults = ofi_topo::nccl_read::faults(&file, Some(&shape.tree));
        assert_eq!(faults.unwrap(), []);
        let document = Document::parse(&file).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "system");
        let nodes = check(document.root_element(), &mut HashSet::new());
        assert!(nodes <= NODES_MAX, "{name}: {nodes}");
        leaders_agree(&shape, &document);
    }
}

#[test]
fn p5_carries_four_nics_on_a_leader_behind_a_switch() {
    let file = file_of(&Shape::by_name("p5").unwrap()).unwrap();
    let head = "<system version=\"1\">
  <cpu host_hash=\"0xabcd\" numaid=\"0\">
    <pci busid=\"0000:45:00.0\">
      <pci busid=\"0000:52:00.0\" link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"/>
    </pci>
    <pci busid=\"0000:56:00.0\">
";
    assert!(file.starts_with(head), "{file}");
    assert_eq!(file.lines().count(), 2 + 2 * (2 + 4 * 3));
}

/// A root port with a GPU and so many NICs behind ports of their own.
fn behind_ports(nics: u8, nic: Link, port: Link, gpu: Link) -> (Tree, Vec<Nic>) {
    let up = PciAddress::new(0, 0x40, 0, 0).unwrap();
    let down = PciAddress::new(0, 0x41, 0, 0).unwrap();
    let mut functions = Vec::new();
    let mut list = Vec::new();
    for number in 0..=nics {
        let at = PciAddress::new(0, 0x42, number, 0).unwrap();
        let mut bridge = PciFunction::new(at, vec![up, down]);
        bridge.link = port;
        functions.push(bridge);
        let place = PciAddress::new(0, 0x50 + number, 0, 0).unwrap();
        let mut function = PciFunction::new(place, vec![up, down, at]);
        if number == nics {
            (function.class, function.vendor, function.link) = (0x0302, 0x10de, gpu);
        } else {
            function.link = nic;
            list.push(Nic::new(list.len(), format!("n{number}")).with_pci(place));
        }
        functions.push(function);
    }
    (Tree::new(functions, [].into()), list)
}

#[test]
fn links_fold_by_speed_then_width_and_never_beyond_the_accelerator() {
    let link = |speed: &str, width| Link::parse(&format!("{speed} GT/s PCIe"), width);
    let free = Link::default();
    let cases = [
        // (NICs, NIC, port, GPU) -> (speed, width)
        (
            (4, link("8.0", "16"), free, link("32.0", "16")),
            ("32", "16"),
        ),
        (
            (4, link("8.0", "8"), free, link("16.0", "16")),
            ("16", "16"),
        ),
        (
            (4, link("16.0", "8"), free, link("16.0", "16")),
            ("16", "16"),
        ),
        (
            (2, link("16.0", "16"), free, link("16.0", "16")),
            ("16", "16"),
        ),
        ((3, link("8.0", "4"), free, link("64.0", "16")), ("16", "4")),
        // The port is the bottleneck, of the NIC and of the GPU.
        (
            (2, link("32.0", "16"), link("8.0", "8"), link("32.0", "16")),
            ("8", "8"),
        ),
        // Nothing is known: what the reference takes for the NIC, and a fast slot for the accelerator.
        ((4, free, free, free), ("32", "16")),
        ((2, free, free, free), ("32", "8")),
        ((4, link("8.0", "8"), free, link("16.0", "x")), ("16", "16")),
        // The port says what the NIC does not.
        ((2, free, link("8.0", "16"), link("8.0", "16")), ("8", "16")),
        ((4, free, free, link("32.0", "16")), ("32", "16")),
    ];
    for ((nics, nic, port, gpu), (speed, width)) in cases {
        let (tree, list) = behind_ports(nics, nic, port, gpu);
        let grouping = group_near(&list, &tree, Accelerators::NVIDIA).unwrap();
        let file = nccl_xml::file(&tree, (&list, &grouping), Accelerators::NVIDIA, 1).unwrap();
        let want = format!("link_speed=\"{speed} GT/s PCIe/s\" link_width=\"{width}\"");
        assert!(
            file.contains(&want),
            "{nics} {nic:?} {port:?} {gpu:?}:\n{file}"
        );
        // Nobody knows the node: it is 0.
        assert!(file.contains("numaid=\"0\"") && !file.contains("numaid=\"1\""));
    }
}

/// `shape` as a host that does not show the links of some functions.
fn hiding(shape: &Shape, hidden: impl Fn(&PciFunction) -> bool) -> Shape {
    let functions = shape.tree.functions().iter().cloned();
    let functions = functions.map(|mut function| {
        if hidden(&function) {
            function.link = Link::default();
        }
        function
    });
    let mut hiding = shape.clone();
    hiding.tree = Tree::new(functions.collect(), shape.tree.packages().clone());
    hiding
}

/// Whatever a host hides of its links, NCCL is told of no less than what the NICs of a device carry, and it is said.
#[test]
fn links_that_are_not_shown_are_told_wide_enough_and_said() {
    for name in ["p5", "p5en"] {
        let shape = Shape::by_name(name).unwrap();
        let (nics, grouping) = near(&shape);
        let unshown = |shape: &Shape| nccl_xml::unshown(&shape.tree, &nics, &grouping);
        assert_eq!(unshown(&shape), None, "{name}");
        let dir = tempfile::tempdir().unwrap();
        let all = hiding(&shape, |_| true);
        all.write_sysfs(dir.path()).unwrap();
        // As Linux writes that it does not know: "Unknown" and 255.
        let read = ofi_topo::Sysfs::new(dir.path()).tree().unwrap();
        assert!(read.functions().iter().all(|f| f.link == Link::default()));
        let mut blind = all;
        blind.tree = read;
        let says = unshown(&blind).unwrap();
        for what in [
            "of 8 NICs that lead devices (0000:",
            ", ..): NCCL is told",
            "of 8 accelerators (",
        ] {
            assert!(says.contains(what), "{says}");
        }
        let file = file_of(&blind).unwrap();
        let want = "link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"";
        assert_eq!(file.matches(want).count(), 8, "{name}: {file}");
        // Accelerators alone.
        let says = unshown(&hiding(&shape, |f| {
            f.vendor == 0x10de || !f.bridges.is_empty()
        }))
        .unwrap();
        assert!(says.contains("accelerators"), "{says}");
    }
    // Devices of one NIC each: NCCL gets no file.
    let p4d = Shape::by_name("p4d").unwrap();
    let (nics, grouping) = near(&p4d);
    assert_eq!(
        nccl_xml::unshown(&hiding(&p4d, |_| true).tree, &nics, &grouping),
        None
    );
}

/// A NIC that is faster than what is taken for one that does not say.
#[test]
fn a_fast_nic_that_does_not_show_its_link_is_told_by_its_own_speed() {
    let free = Link::default();
    let slow = Link::parse("2.5 GT/s", "1");
    for (gbps, nic, want) in [
        (100, free, ("16", "8")),
        (200, free, ("16", "16")),
        (400, free, ("32", "16")),
        (1600, free, ("64", "16")),
        // What is shown stays.
        (400, Link::parse("32.0 GT/s PCIe", "8"), ("32", "8")),
        (400, Link::parse("16.0 GT/s PCIe", "255"), ("16", "16")),
        (200, Link::parse("Unknown", "8"), ("32", "8")),
    ] {
        // The accelerator lets no more through: nothing is folded.
        let (tree, list) = behind_ports(2, nic, free, slow);
        let list: Vec<Nic> = list
            .into_iter()
            .map(|nic| nic.with_speed_bps(gbps * 1_000_000_000))
            .collect();
        let grouping = group_near(&list, &tree, Accelerators::NVIDIA).unwrap();
        let file = nccl_xml::file(&tree, (&list, &grouping), Accelerators::NVIDIA, 1).unwrap();
        let (speed, width) = want;
        let want = format!("link_speed=\"{speed} GT/s PCIe/s\" link_width=\"{width}\"");
        assert!(file.contains(&want), "{gbps} {nic:?}: {file}");
    }
}

#[test]
fn one_nic_a_device_needs_no_file() {
    let p5 = Shape::by_name("p5").unwrap();
    let nics = p5.provider_list();
    let file =
        |grouping: &Grouping| nccl_xml::file(&p5.tree, (&nics, grouping), Accelerators::NVIDIA, 1);
    let alone = group(&nics, &Rule::OnePerNic).unwrap();
    assert_eq!(file(&alone), None);
    // Four rails on one NIC are one NIC.
    assert_eq!(file(&alone.force_rails(4).unwrap()), None);
    let (_, near) = near(&p5);
    assert_eq!(file(&near.clone().force_rails(1).unwrap()), None);
    assert!(file(&near.force_rails(2).unwrap()).is_some());
}

/// A file that names no NIC tells NCCL nothing, and hides the one that a hypervisor made.
#[test]
fn nics_that_the_tree_does_not_have_make_no_file() {
    let p5 = Shape::by_name("p5").unwrap();
    let file = |tree: &Tree, nics: &[Nic]| {
        let alone = group_near(nics, tree, Accelerators::NVIDIA).unwrap();
        let pairs = alone.join_alike(2, |_| Some(0)).force_rails(2).unwrap();
        assert!(pairs.devices.iter().all(|device| device.rails.len() == 2));
        nccl_xml::file(tree, (nics, &pairs), Accelerators::NVIDIA, 1)
    };
    // Without a place, in a tree of others and in none.
    let nowhere: Vec<Nic> = (0..4).map(|i| Nic::new(i, format!("eth{i}"))).collect();
    assert_eq!(file(&p5.tree, &nowhere), None);
    assert_eq!(file(&Tree::default(), &nowhere), None);
    // With one that nobody shows.
    let hidden: Vec<Nic> = p5.provider_list();
    assert_eq!(file(&Tree::default(), &hidden), None);
    // One that is there is enough.
    assert!(file(&p5.tree, &hidden).is_some());
}
