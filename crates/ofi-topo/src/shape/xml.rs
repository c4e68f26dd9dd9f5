//! A shape as a dump of hwloc 2.

use core::fmt::{self, Write as _};
use std::collections::BTreeSet;

use super::Shape;
use crate::{PciAddress, PciFunction};

/// Class of a bridge between PCI buses.
const BRIDGE_CLASS: u16 = 0x0604;

/// The processors and the memory of NUMA nodes, of which each has one processor with its number: what hwloc
/// wants to know of all but I/O.
fn sets(nodes: &[u32]) -> String {
    let bit = |node: &u32| 1_u32.checked_shl(*node).unwrap_or(0);
    let mask = nodes.iter().map(bit).fold(0, |mask, bit| mask | bit);
    format!(
        "cpuset=\"{mask:#010x}\" complete_cpuset=\"{mask:#010x}\" nodeset=\"{mask:#010x}\" complete_nodeset=\"{mask:#010x}\""
    )
}

impl Shape {
    /// What `lstopo --whole-io` would write of it: packages, NUMA nodes, and all PCI functions where they
    /// hang.
    #[must_use]
    pub fn hwloc_xml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        match self.write_xml(&mut text) {
            Ok(()) | Err(fmt::Error) => text,
        }
    }

    fn write_xml(&self, out: &mut String) -> fmt::Result {
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        out.push_str("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
        let all: Vec<u32> = self.tree.packages().keys().copied().collect();
        writeln!(
            out,
            "<object type=\"Machine\" os_index=\"0\" {}>",
            sets(&all)
        )?;
        let packages: BTreeSet<u32> = self.tree.packages().values().copied().collect();
        for package in packages {
            let nodes = self.tree.packages().iter();
            let nodes: Vec<u32> = nodes
                .filter(|(_, of)| **of == package)
                .map(|(node, _)| *node)
                .collect();
            let around = sets(&nodes);
            writeln!(
                out,
                "<object type=\"Package\" os_index=\"{package}\" {around}>"
            )?;
            for node in &nodes {
                let own = sets(&[*node]);
                // A group for each node, where there are several in a package.
                if nodes.len() > 1 {
                    writeln!(
                        out,
                        "<object type=\"Group\" kind=\"1001\" subkind=\"0\" {own}>"
                    )?;
                }
                writeln!(
                    out,
                    "<object type=\"NUMANode\" os_index=\"{node}\" {own} local_memory=\"4096\"/>"
                )?;
                writeln!(out, "<object type=\"PU\" os_index=\"{node}\" {own}/>")?;
                self.buses(out, Some(*node))?;
                if nodes.len() > 1 {
                    out.push_str("</object>\n");
                }
            }
            out.push_str("</object>\n");
        }
        self.buses(out, None)?;
        out.push_str("</object>\n</topology>\n");
        Ok(())
    }

    /// The root buses of a NUMA node, with all that is below.
    fn buses(&self, out: &mut String, numa: Option<u32>) -> fmt::Result {
        let functions = self.tree.functions().iter();
        let near: Vec<&PciFunction> = functions
            .filter(|function| self.tree.numa_of(function) == numa)
            .collect();
        for bus in near.chunk_by(|a, b| a.root() == b.root()) {
            let (domain, number) = bus.first().map_or((0, 0), |first| first.root());
            writeln!(
                out,
                "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"{domain:04x}:[{number:02x}-ff]\">"
            )?;
            let mut open: Vec<PciAddress> = Vec::new();
            for function in bus {
                while open
                    .last()
                    .is_some_and(|last| !function.bridges.contains(last))
                {
                    open.pop();
                    out.push_str("</object>\n");
                }
                self.function(out, function, &mut open)?;
            }
            out.push_str(&"</object>\n".repeat(open.len() + 1));
        }
        Ok(())
    }

    /// A bridge stays open for what is behind it.
    fn function(
        &self,
        out: &mut String,
        function: &PciFunction,
        open: &mut Vec<PciAddress>,
    ) -> fmt::Result {
        let PciFunction {
            address,
            class,
            vendor,
            device,
            ..
        } = function;
        let about = format!(
            "pci_busid=\"{address}\" pci_type=\"{class:04x} [{vendor:04x}:{device:04x}] [0000:0000] 00\" pci_link_speed=\"0.000000\""
        );
        if *class == BRIDGE_CLASS {
            let depth = function.bridges.len() + 1;
            open.push(*address);
            return writeln!(
                out,
                "<object type=\"Bridge\" bridge_type=\"1-1\" depth=\"{depth}\" {about}>"
            );
        }
        writeln!(out, "<object type=\"PCIDev\" {about}>")?;
        for nic in self.nics.iter().filter(|nic| nic.address == *address) {
            let name = &nic.name;
            writeln!(
                out,
                "<object type=\"OSDev\" name=\"{name}\" osdev_type=\"3\"/>"
            )?;
        }
        out.push_str("</object>\n");
        Ok(())
    }
}
