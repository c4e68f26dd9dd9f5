//! The tree of PCI functions from a dump of hwloc (`lstopo --whole-io dump.xml`).
//!
//! hwloc says where root buses hang (package, NUMA node, machine), and of links only a product of speed
//! and width, which is not taken.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use crate::tree::BRIDGES_MAX;
use crate::{PciAddress, PciFunction, TopoError, Tree};

/// Elements and texts of a dump; those of the largest hosts have some ten thousand.
const NODES_MAX: u32 = 1 << 18;

/// What is known of the objects around an object.
#[derive(Clone, Default)]
struct Around {
    numa: Option<u32>,
    package: Option<u32>,
    bridges: Vec<PciAddress>,
}

impl Tree {
    /// Reads a dump of hwloc 1.x or 2.x.
    ///
    /// # Errors
    /// [`TopoError::BadXml`] for what is no XML, no dump of hwloc, or has more than a quarter
    /// of a million elements and texts, or more than 64 bridges above each other.
    pub fn from_hwloc_xml(text: &str) -> Result<Self, TopoError> {
        let options = ParsingOptions {
            allow_dtd: true,
            nodes_limit: NODES_MAX,
            ..ParsingOptions::default()
        };
        let bad = |what: String| TopoError::BadXml { what };
        let document =
            Document::parse_with_options(text, options).map_err(|error| bad(error.to_string()))?;
        let top = document.root_element();
        if top.tag_name().name() != "topology" {
            let name = top.tag_name().name();
            return Err(bad(format!(
                "it begins with <{name}>, a dump of hwloc with <topology>"
            )));
        }
        let mut functions = Vec::new();
        let mut packages = BTreeMap::new();
        // A stack of our own: how deep a file nests is up to whoever wrote it.
        let mut stack = vec![(top, Around::default())];
        while let Some((node, around)) = stack.pop() {
            let around = enter(node, around, &mut functions);
            if around.bridges.len() > BRIDGES_MAX {
                return Err(bad(format!(
                    "more than {BRIDGES_MAX} bridges above each other"
                )));
            }
            if let (Some(numa), Some(package)) = (around.numa, around.package) {
                packages.insert(numa, package);
            }
            stack.extend(objects(node).map(|child| (child, around.clone())));
        }
        // In the order of the file, whatever that of the stack.
        let unread = document.descendants().filter_map(unread);
        Ok(Self::new(functions, packages).with_unread(unread))
    }
}

/// Takes what an object is itself, and says what its children have around them.
fn enter(node: Node<'_, '_>, mut around: Around, functions: &mut Vec<PciFunction>) -> Around {
    let number = |name| node.attribute(name).and_then(|text| text.parse().ok());
    let kind = node.attribute("type").unwrap_or_default();
    match kind {
        // "Socket" and nodes that hold what is near them: hwloc 1.x.
        "Package" | "Socket" => around.package = number("os_index"),
        "NUMANode" => around.numa = number("os_index"),
        "Bridge" if is_root(node) => around.bridges.clear(),
        _ => {}
    }
    // Memory is a child of what it is near to: one node is that of its siblings, of several none is.
    let mut nodes = objects(node).filter(|child| is_numa_node(*child));
    match (nodes.next(), nodes.next()) {
        (Some(one), None) => {
            around.numa = one
                .attribute("os_index")
                .and_then(|text| text.parse().ok())
                .or(around.numa);
        }
        (Some(_), Some(_)) => around.numa = None,
        _ => {}
    }
    if let Some(function) = function(node, &around) {
        let address = function.address;
        functions.push(function);
        if kind == "Bridge" {
            around.bridges.push(address);
        }
    }
    around
}

fn objects<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(|child| child.has_tag_name("object"))
}

fn is_root(node: Node<'_, '_>) -> bool {
    node.attribute("bridge_type")
        .is_some_and(|kind| kind.starts_with("0-"))
}

/// A NUMA node that has processors: memory alone is near to nothing.
fn is_numa_node(node: Node<'_, '_>) -> bool {
    let set = node.attribute("cpuset").unwrap_or_default();
    node.attribute("type") == Some("NUMANode") && set.contains(|c| !matches!(c, '0' | 'x' | ','))
}

/// What a device or a bridge has in place of an address. Root buses have none.
fn unread<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    match node.attribute("pci_busid") {
        Some(text) => text.parse::<PciAddress>().is_err().then_some(text),
        None => (node.attribute("type") == Some("PCIDev")).then_some(""),
    }
}

fn function(node: Node<'_, '_>, around: &Around) -> Option<PciFunction> {
    let address = node.attribute("pci_busid")?.parse().ok()?;
    let mut function = PciFunction::new(address, around.bridges.clone());
    function.numa = around.numa;
    // "0302 [10de:20b0] [10de:134f] a1": class, ids, ids of the card, revision.
    let mut words = node.attribute("pci_type").unwrap_or_default().split(' ');
    let hex = |text: &str| u16::from_str_radix(text, 16).ok();
    function.class = words.next().and_then(hex).unwrap_or(0);
    let ids = words
        .next()
        .and_then(|ids| ids.strip_prefix('[')?.strip_suffix(']'));
    let ids = ids.and_then(|ids| ids.split_once(':'));
    if let Some((vendor, device)) = ids {
        function.vendor = hex(vendor).unwrap_or(0);
        function.device = hex(device).unwrap_or(0);
    }
    Some(function)
}

#[cfg(test)]
mod tests {
    use crate::{TopoError, Tree};

    #[test]
    fn what_is_no_dump_is_refused() {
        for bad in ["", "<topology>", "<system version=\"1\"/>", "not xml"] {
            let error = Tree::from_hwloc_xml(bad).unwrap_err();
            assert!(matches!(error, TopoError::BadXml { .. }), "{bad}: {error}");
        }
        assert_eq!(
            Tree::from_hwloc_xml("<topology/>").unwrap(),
            Tree::default()
        );
    }

    #[test]
    fn depth_is_no_danger() {
        let depth = 50_000;
        let text = format!(
            "<topology>{}{}</topology>",
            "<object>".repeat(depth),
            "</object>".repeat(depth)
        );
        // Deep or refused, but never a crash.
        assert!(Tree::from_hwloc_xml(&text).is_ok_and(|tree| tree.functions().is_empty()));
    }

    #[test]
    fn bridges_without_end_and_entities_of_entities_are_refused() {
        let nested = |depth: usize| {
            let bridge = "<object type=\"Bridge\" pci_busid=\"0000:01:00.0\">";
            let ends = "</object>".repeat(depth);
            format!("<topology>{}{ends}</topology>", bridge.repeat(depth))
        };
        Tree::from_hwloc_xml(&nested(64)).unwrap();
        let error = Tree::from_hwloc_xml(&nested(20_000)).unwrap_err();
        assert!(error.to_string().contains("64 bridges"), "{error}");
        let entities: String = (1..12)
            .map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10)))
            .collect();
        let laughs = format!(
            "<!DOCTYPE topology [<!ENTITY e0 \"<object/>\">{entities}]><topology>&e11;</topology>"
        );
        let error = Tree::from_hwloc_xml(&laughs).unwrap_err();
        assert!(matches!(error, TopoError::BadXml { .. }), "{error}");
    }

    #[test]
    fn both_generations_of_dumps_say_the_same() {
        // Of 1.x the node holds what is near it; of 2.x it is beside, and the package is a "Socket" no more.
        let devices = r#"<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[10-12]">
            <object type="Bridge" bridge_type="1-1" pci_busid="0000:10:00.0" pci_type="0604 [1d0f:0200]">
            <object type="PCIDev" pci_busid="0000:11:00.0" pci_type="0200 [1d0f:efa1] [1d0f:efa1] 00"/>
            </object></object>"#;
        let old = format!(
            r#"<topology><object type="Machine"><object type="Socket" os_index="1" cpuset="0x3">
            <object type="NUMANode" os_index="1" cpuset="0x3">{devices}</object></object></object></topology>"#
        );
        let new = format!(
            r#"<topology version="2.0"><object type="Machine"><object type="Package" os_index="1" cpuset="0x3">
            <object type="NUMANode" os_index="1" cpuset="0x3"/>{devices}</object></object></topology>"#
        );
        let [old, new] = [old, new].map(|text| Tree::from_hwloc_xml(&text).unwrap());
        assert_eq!(old, new);
        let efa = &old.functions()[1];
        assert_eq!(
            (efa.device, efa.numa, efa.bridges.len()),
            (0xefa1, Some(1), 1)
        );
        assert_eq!(old.package_of(1), Some(1));
    }

    #[test]
    fn memory_without_processors_is_near_to_nothing() {
        // TOPO-03: nodes of a GPU's memory, outside of every package.
        let text = r#"<topology version="2.0"><object type="Machine">
            <object type="NUMANode" os_index="4" cpuset="0x0"/>
            <object type="NUMANode" os_index="5" cpuset="0x00000000,0x00000000"/>
            <object type="Package" os_index="0" cpuset="0x3">
              <object type="NUMANode" os_index="0" cpuset="0x3"/>
              <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[10-10]">
                <object type="PCIDev" pci_busid="0000:10:00.0" pci_type="0302 [10de:2941]"/>
              </object>
            </object>
            <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[20-20]">
              <object type="PCIDev" pci_busid="0000:20:00.0" pci_type="none"/>
              <object type="PCIDev" pci_busid="nowhere"/>
              <object type="PCIDev"/>
            </object></object></topology>"#;
        let tree = Tree::from_hwloc_xml(text).unwrap();
        assert_eq!(tree.unread(), ["nowhere", ""]);
        let numa: Vec<_> = tree.functions().iter().map(|f| f.numa).collect();
        assert_eq!(numa, [Some(0), None]);
        assert_eq!((tree.package_of(0), tree.package_of(4)), (Some(0), None));
        assert_eq!(tree.functions()[0].vendor, 0x10de);
        assert_eq!(tree.functions()[1].class, 0);
    }
}
