//! NCCL's topology file read back: as a tree, and by the rules of NCCL's reader (protocol 2h.4).

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node, ParsingOptions};

use crate::plain_xml;
use crate::tree::BRIDGES_MAX;
use crate::{Link, LinkSpeed, PciAddress, PciFunction, TopoError, Tree};

/// Elements that are looked at.
const READ_MAX: u32 = 1 << 16;
/// Elements that NCCL up to 2.19 has room for, its own among them, and that a file should not exceed.
const ROOM: usize = 256;
const ELEMENTS_MAX: usize = 128;
/// Of NCCL's reader: children of an element, attributes of one, characters of a value.
const CHILDREN_MAX: usize = 128;
const ATTRIBUTES_MAX: usize = 16;
const VALUE_MAX: usize = 254;
/// PCI domain of bridges that files make up.
const MADE_UP: u32 = 0xffff;

fn document(text: &str) -> Result<Document<'_>, TopoError> {
    let options = ParsingOptions {
        nodes_limit: READ_MAX,
        ..ParsingOptions::default()
    };
    let bad = |what: String| TopoError::BadNcclXml { what };
    let document =
        Document::parse_with_options(text, options).map_err(|error| bad(error.to_string()))?;
    let name = document.root_element().tag_name().name().to_owned();
    if name == "system" {
        return Ok(document);
    }
    Err(bad(format!(
        "it begins with <{name}>, a file of NCCL with <system>"
    )))
}

/// An element with the bridges above it and its NUMA node.
type Element<'a, 'i> = (Node<'a, 'i>, Vec<PciAddress>, Option<u32>);

/// Elements, in any order.
///
/// # Errors
/// More bridges above each other than there can be.
fn elements<'a, 'i>(document: &'a Document<'i>) -> Result<Vec<Element<'a, 'i>>, TopoError> {
    let mut found = Vec::new();
    // A stack of our own: how deep a file nests is up to whoever wrote it.
    let mut stack = vec![(document.root_element(), Vec::new(), None)];
    while let Some((node, bridges, mut numa)) = stack.pop() {
        if node.has_tag_name("cpu") {
            numa = node.attribute("numaid").and_then(|text| text.parse().ok());
        }
        let mut below = bridges.clone();
        below.extend(bus_id(node));
        if below.len() > BRIDGES_MAX + 1 {
            let what = format!("more than {BRIDGES_MAX} bridges above each other");
            return Err(TopoError::BadNcclXml { what });
        }
        let children = node.children().filter(Node::is_element);
        stack.extend(children.map(|child| (child, below.clone(), numa)));
        found.push((node, bridges, numa));
    }
    Ok(found)
}

fn bus_id(node: Node<'_, '_>) -> Option<PciAddress> {
    let text = node.has_tag_name("pci").then(|| node.attribute("busid"));
    text.flatten()?.parse().ok()
}

impl Tree {
    /// The functions that a topology file of NCCL names, where it puts them; bridges that it leaves out are
    /// not there.
    ///
    /// # Errors
    /// [`TopoError::BadNcclXml`] for what is no XML, no such file, or has more than 65536 elements, or
    /// more than 64 bridges above each other.
    pub fn from_nccl_xml(text: &str) -> Result<Self, TopoError> {
        let document = document(text)?;
        let functions = elements(&document)?
            .into_iter()
            .filter_map(|(node, bridges, numa)| {
                let mut function = PciFunction::new(bus_id(node)?, bridges);
                let hex = |name| {
                    let text = node.attribute(name)?;
                    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
                };
                let small =
                    |number: Option<u32>| number.and_then(|number| u16::try_from(number).ok());
                function.class = small(hex("class").map(|class| class >> 8)).unwrap_or(0);
                function.vendor = small(hex("vendor")).unwrap_or(0);
                function.device = small(hex("device")).unwrap_or(0);
                function.numa = numa;
                let link = |name| node.attribute(name).unwrap_or_default();
                function.link = Link::parse(link("link_speed"), link("link_width"));
                Some(function)
            });
        let tree = Self::new(functions.collect(), BTreeMap::new());
        let elements = document
            .descendants()
            .filter(|node| node.has_tag_name("pci"));
        let texts = elements.map(|node| node.attribute("busid").unwrap_or_default());
        Ok(tree.with_unread(texts.filter(|text| text.parse::<PciAddress>().is_err())))
    }
}

/// What is wrong with a topology file; its text is a line that names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is more than NCCL has room for, so that it refuses the file.
    TooMuch(String),
    /// NCCL takes something else than what is meant, or may come to have no room.
    Misread(String),
    /// The file names what the host does not have: a part of the host may be hidden, or it is of another.
    NotHere(String),
    /// It is XML that files of NCCL have nowhere: NCCL reads it by a parser of its own, which may refuse it.
    Doubtful(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TooMuch(text)
        | Self::Misread(text)
        | Self::NotHere(text)
        | Self::Doubtful(text)) = self;
        f.write_str(text)
    }
}

impl Fault {
    /// The same at a place.
    fn at(self, place: &str) -> Self {
        let at = |text: String| format!("{place}: {text}");
        match self {
            Self::TooMuch(text) => Self::TooMuch(at(text)),
            Self::Misread(text) => Self::Misread(at(text)),
            Self::NotHere(text) => Self::NotHere(at(text)),
            Self::Doubtful(text) => Self::Doubtful(at(text)),
        }
    }
}

/// What NCCL would refuse or misread of a topology file; nothing where all is well. With a `host` also what
/// the file names and the host does not have. Last what it may refuse ([`Fault::Doubtful`]).
///
/// # Errors
/// As [`Tree::from_nccl_xml`].
pub fn faults(text: &str, host: Option<&Tree>) -> Result<Vec<Fault>, TopoError> {
    let document = document(text)?;
    let elements = elements(&document)?;
    let mut faults = Vec::new();
    let count = elements.len();
    let crowd = || {
        format!(
            "{count} elements: NCCL up to 2.19 has room for {ROOM} in all, and adds its own; {ELEMENTS_MAX} \
             should do"
        )
    };
    if count > ROOM {
        faults.push(Fault::TooMuch(crowd()));
    } else if count > ELEMENTS_MAX {
        faults.push(Fault::Misread(crowd()));
    }
    let mut seen = BTreeSet::new();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    for (node, ..) in elements.iter().rev() {
        let name = node.tag_name().name();
        // The document's own answer counts the lines from the beginning each time.
        let line = ends.partition_point(|end| *end < node.range().start) + 1;
        let place = format!("line {line}, <{name}>");
        for what in sizes(*node).into_iter().chain(contents(*node, host)) {
            faults.push(what.at(&place));
        }
        let key = match name {
            "cpu" => node.attribute("numaid"),
            "pci" => node.attribute("busid"),
            _ => None,
        };
        if key.is_some_and(|key| !seen.insert((name, key))) {
            let twice = format!("{} is there twice", key.unwrap_or_default());
            faults.push(Fault::Misread(twice).at(&place));
        }
    }
    faults.extend(plain_xml::beyond(text).into_iter().map(Fault::Doubtful));
    Ok(faults)
}

fn sizes(node: Node<'_, '_>) -> Vec<Fault> {
    let too_much = Fault::TooMuch;
    let mut faults = Vec::new();
    let children = node.children().filter(Node::is_element).count();
    if children > CHILDREN_MAX {
        faults.push(too_much(format!(
            "{children} children, NCCL takes {CHILDREN_MAX}"
        )));
    }
    let attributes = node.attributes().len();
    if attributes > ATTRIBUTES_MAX {
        faults.push(too_much(format!(
            "{attributes} attributes, NCCL takes {ATTRIBUTES_MAX}"
        )));
    }
    for attribute in node.attributes() {
        let chars = attribute.value().len();
        if chars > VALUE_MAX {
            let name = attribute.name();
            faults.push(too_much(format!(
                "{name} has {chars} characters, NCCL takes {VALUE_MAX}"
            )));
        }
    }
    faults
}

fn contents(node: Node<'_, '_>, host: Option<&Tree>) -> Vec<Fault> {
    let text = |name: &str| node.attribute(name).unwrap_or_default();
    match node.tag_name().name() {
        "system" if text("version") != "1" => {
            let version = text("version");
            vec![Fault::Misread(format!("version is \"{version}\", not 1"))]
        }
        "cpu" => cpu(text("numaid"), node.attribute("host_hash")),
        "pci" => pci(node, host),
        _ => Vec::new(),
    }
}

fn cpu(numa: &str, host_hash: Option<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut misread = |text: String| faults.push(Fault::Misread(text));
    if numa.parse::<u32>().is_err() {
        misread(format!(
            "numaid is \"{numa}\", not the number of a NUMA node"
        ));
    }
    let is_hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).is_ok();
    if let Some(hash) = host_hash.filter(|hash| !is_hex(hash)) {
        misread(format!(
            "host_hash is \"{hash}\", not a number in hexadecimal"
        ));
    }
    faults
}

fn pci(node: Node<'_, '_>, host: Option<&Tree>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |fault| faults.push(fault);
    let bus = node.attribute("busid").unwrap_or_default();
    match bus.parse::<PciAddress>() {
        Ok(address) if address.to_string() != bus => {
            add(Fault::Misread(format!(
                "busid \"{bus}\" is written \"{address}\": NCCL compares text"
            )));
        }
        Ok(address) => {
            let is_there = |tree: &Tree| tree.find(address).is_some();
            if address.domain() != MADE_UP && host.is_some_and(|tree| !is_there(tree)) {
                add(Fault::NotHere(format!("this host has no {address}")));
            }
        }
        Err(error) => add(Fault::Misread(error.to_string())),
    }
    if let Some(speed) = node.attribute("link_speed") {
        if LinkSpeed::parse(speed).is_none() {
            add(Fault::Misread(format!(
                "link_speed \"{speed}\" is none that NCCL knows: it counts as 8 GT/s"
            )));
        }
    }
    if let Some(width) = node.attribute("link_width") {
        if !width
            .parse::<u8>()
            .is_ok_and(|lanes| (1..=64).contains(&lanes))
        {
            add(Fault::Misread(format!(
                "link_width is \"{width}\", not 1 to 64 lanes"
            )));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{Fault, faults};
    use crate::{TopoError, Tree};

    #[test]
    fn each_fault_is_named_with_its_line() {
        let text = r#"<system version="2">
<cpu numaid="x" host_hash="zz">
<pci busid="0000:0A:00.0" link_speed="7 GT/s" link_width="0"/>
<pci busid="0000:0b:00.0"/>
<pci busid="0000:0b:00.0"/>
<pci/>
</cpu>
</system>"#;
        let found = faults(text, Some(&Tree::default())).unwrap();
        for (line, what) in [
            (1, "version is \"2\""),
            (2, "numaid is \"x\""),
            (2, "host_hash is \"zz\""),
            (3, "is written \"0000:0a:00.0\""),
            (3, "link_speed \"7 GT/s\""),
            (3, "link_width is \"0\""),
            (4, "this host has no 0000:0b:00.0"),
            (5, "0000:0b:00.0 is there twice"),
            (6, "not a PCI address"),
        ] {
            let found: Vec<String> = found.iter().map(Fault::to_string).collect();
            let is_it = |fault: &&String| {
                fault.starts_with(&format!("line {line}, ")) && fault.contains(what)
            };
            assert_eq!(
                found.iter().filter(is_it).count(),
                1,
                "{line} {what}: {found:#?}"
            );
        }
        let long = format!(
            "<system version=\"1\"><cpu numaid=\"0\">{}</cpu></system>",
            "<x/>".repeat(200)
        );
        let found = faults(&long, None).unwrap();
        assert!(
            matches!(&found[0], Fault::Misread(text) if text.starts_with("202 elements")),
            "{found:?}"
        );
        assert!(
            matches!(&found[1], Fault::TooMuch(text) if text.contains("200 children")),
            "{found:?}"
        );
        let full = format!(
            "<system version=\"1\">{}</system>",
            "<cpu numaid=\"0\"/>".repeat(256)
        );
        let found = faults(&full, None).unwrap();
        assert!(matches!(&found[0], Fault::TooMuch(text) if text.starts_with("257 elements")));
    }

    #[test]
    fn what_is_no_file_of_nccl_is_refused() {
        for bad in ["", "<topology/>", "<system>", "text"] {
            let error = faults(bad, None).unwrap_err();
            assert!(
                matches!(error, TopoError::BadNcclXml { .. }),
                "{bad}: {error}"
            );
            Tree::from_nccl_xml(bad).unwrap_err();
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let depth = 20_000;
        let text = format!(
            "<system>{}{}</system>",
            "<pci>".repeat(depth),
            "</pci>".repeat(depth)
        );
        let bridges = text.replace("<pci>", "<pci busid=\"0000:01:00.0\">");
        for error in [
            Tree::from_nccl_xml(&bridges).unwrap_err(),
            faults(&bridges, None).unwrap_err(),
        ] {
            assert!(error.to_string().contains("64 bridges"), "{error}");
        }
        // Deep or refused, but never a crash.
        assert!(Tree::from_nccl_xml(&text).is_ok_and(|tree| tree.functions().is_empty()));
    }
}
