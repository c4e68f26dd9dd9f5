//! The instances. Bridges are functions too; what no test looks at (storage, consoles) is left out, but
//! for the Ethernet adapters, which are of a NIC's class and none of ours.

use std::collections::BTreeMap;

use super::Shape;
use crate::{Link, PciAddress, PciFunction, Tree};

pub(super) const ALL: [fn() -> Shape; 8] = [p3dn, p4d, p5, p5en, g5, c5n, trn1, trn2];

/// Class, vendor, device, speed of a lane; all links here have 16 lanes.
#[derive(Clone, Copy)]
struct Kind(u16, u16, u16, &'static str);

const GEN3: &str = "8.0 GT/s PCIe";
const GEN4: &str = "16.0 GT/s PCIe";
const GEN5: &str = "32.0 GT/s PCIe";
const UNKNOWN: &str = "Unknown";

/// Elastic Network Adapter.
const ENA: Kind = Kind(0x0200, 0x1d0f, 0xec20, UNKNOWN);
/// The bridges of p5 (dump).
const BRIDGE: Kind = Kind(0x0604, 0x1d0f, 0x0200, GEN3);
/// "System peripheral" (hwloc of trn1).
const NEURON: Kind = Kind(0x0880, 0x1d0f, 0x7164, GEN4);
/// Trainium2; the class is ours, that of trn1.
const NEURON2: Kind = Kind(0x0880, 0x1d0f, 0x7364, GEN5);

const fn efa(generation: u16, speed: &'static str) -> Kind {
    Kind(0x0200, 0x1d0f, 0xefa0 + generation, speed)
}

const fn gpu(device: u16, speed: &'static str) -> Kind {
    Kind(0x0302, 0x10de, device, speed)
}

/// p3dn.24xlarge (dump): one root bus of no NUMA node, with an EFA (spec: 100 Gb/s) and eight GPUs.
fn p3dn() -> Shape {
    flat(("p3dn", "p3dn.24xlarge"), gpu(0x1db5, GEN3))
}

/// g5.48xlarge (dump): as p3dn.
fn g5() -> Shape {
    flat(("g5", "g5.48xlarge"), gpu(0x2237, GEN4))
}

fn flat(name: (&str, &str), gpu: Kind) -> Shape {
    let mut host = Host::new(2);
    host.add(None, &[at(0, 0x05, 0)], ENA);
    host.nic(None, &[at(0, 0x15, 0)], efa(0, UNKNOWN));
    for device in 0x16..=0x1d {
        host.add(None, &[at(0, device, 0)], gpu);
    }
    host.shape(name, 100)
}

/// c5n.18xlarge (dump): an EFA (spec: 100 Gb/s), no accelerator, no NUMA node told.
fn c5n() -> Shape {
    let mut host = Host::new(2);
    host.add(None, &[at(0, 0x05, 0)], ENA);
    host.nic(None, &[at(0, 0x1f, 0)], efa(0, UNKNOWN));
    host.shape(("c5n", "c5n.18xlarge"), 100)
}

/// p4d.24xlarge (dump, topo): four root buses, each with an EFA (spec: 400 Gb/s in all) and two GPUs.
fn p4d() -> Shape {
    let mut host = Host::new(2);
    for (bus, numa) in [(0x10, 0), (0x20, 0), (0x90, 1), (0xa0, 1)] {
        let numa = Some(numa);
        host.add(numa, &[at(bus, u8::from(bus != 0x10), 0)], ENA);
        host.nic(numa, &[at(bus, 0x1b, 0)], efa(0, UNKNOWN));
        for device in [0x1c, 0x1d] {
            host.add(numa, &[at(bus, device, 0)], gpu(0x20b0, GEN4));
        }
    }
    host.shape(("p4d", "p4d.24xlarge"), 100)
}

/// p5.48xlarge (dump): eight switches, each with four EFAs (spec: 3200 Gb/s in all) and a GPU.
fn p5() -> Shape {
    let mut host = Host::new(2);
    host.switches(4, efa(1, GEN3), gpu(0x2330, GEN5));
    host.shape(("p5", "p5.48xlarge"), 100)
}

/// p5en.48xlarge: sixteen EFAs of 200 Gb/s (spec; protocol 2a.4, `speed`); that they sit as those of p5,
/// two a switch, is ours, and so are device numbers and links.
fn p5en() -> Shape {
    let mut host = Host::new(2);
    host.switches(2, efa(2, GEN5), gpu(0x2335, GEN5));
    host.shape(("p5en", "p5en.48xlarge"), 200)
}

/// trn1.32xlarge (lspci): four root buses, each with two EFAs (spec: 800 Gb/s in all) and four Neuron
/// devices. NUMA nodes are ours, as in p4d.
fn trn1() -> Shape {
    let mut host = Host::new(2);
    for (bus, numa) in [(0x10, 0), (0x20, 0), (0x90, 1), (0xa0, 1)] {
        let numa = Some(numa);
        for device in [0x00, 0x01] {
            host.add(numa, &[at(bus, device, 0)], ENA);
        }
        for device in [0x19, 0x1a] {
            host.nic(numa, &[at(bus, device, 0)], efa(0, UNKNOWN));
        }
        for device in 0x1b..=0x1e {
            host.add(numa, &[at(bus, device, 0)], NEURON);
        }
    }
    host.shape(("trn1", "trn1.32xlarge"), 100)
}

/// trn2.48xlarge: the addresses of its EFAs (fabtests), 200 Gb/s each (spec: 3200 Gb/s in all). Bridges,
/// NUMA nodes and links are ours; so is that the Neuron device that an EFA belongs to (fabtests has such
/// pairs) is on its bus.
fn trn2() -> Shape {
    let mut host = Host::new(2);
    for first in [0x56, 0x6c, 0x82, 0x98, 0xb3, 0xc9, 0xdf, 0xf5_u8] {
        let numa = Some(u32::from(first >= 0x98));
        let up = at(first - 2, 0, 0);
        host.add(numa, &[up], BRIDGE);
        for nic in 0..2 {
            let port = at(first - 1, nic, 0);
            host.add(numa, &[up, port], BRIDGE);
            host.nic(numa, &[up, port, at(first + nic, 0, 0)], efa(2, GEN5));
            host.add(numa, &[up, port, at(first + nic, 1, 0)], NEURON2);
        }
    }
    host.shape(("trn2", "trn2.48xlarge"), 200)
}

/// A host as it is put together.
struct Host {
    functions: Vec<PciFunction>,
    nics: Vec<PciAddress>,
    packages: BTreeMap<u32, u32>,
}

impl Host {
    /// With so many packages of one NUMA node each.
    fn new(packages: u32) -> Self {
        Self {
            functions: Vec::new(),
            nics: Vec::new(),
            packages: (0..packages).map(|number| (number, number)).collect(),
        }
    }

    fn add(&mut self, numa: Option<u32>, path: &[PciAddress], kind: Kind) {
        let Some((address, bridges)) = path.split_last() else {
            return;
        };
        let Kind(class, vendor, device, speed) = kind;
        let mut function = PciFunction::new(*address, bridges.to_vec());
        (function.class, function.vendor, function.device) = (class, vendor, device);
        function.numa = numa;
        let width = if speed == UNKNOWN { "255" } else { "16" };
        function.link = Link::parse(speed, width);
        self.functions.push(function);
    }

    fn nic(&mut self, numa: Option<u32>, path: &[PciAddress], kind: Kind) {
        self.nics.extend(path.last());
        self.add(numa, path, kind);
    }

    /// Eight switches as in p5: behind each Ethernet adapters, so many EFAs, and a GPU with port 4
    /// and the bus behind the four of the EFAs.
    fn switches(&mut self, nics: u8, nic: Kind, gpu: Kind) {
        for (switch, base) in (0x44..=0xbb_u8).step_by(0x11).enumerate() {
            let numa = Some(u32::from(switch >= 4));
            let (up, down) = (at(base, 0, 0), at(base + 1, 0, 0));
            self.add(numa, &[up], BRIDGE);
            self.add(numa, &[up, down], BRIDGE);
            for ena in 1..4 {
                let port = at(base + 2, 0, ena);
                self.add(numa, &[up, down, port], BRIDGE);
                self.add(numa, &[up, down, port, at(base + 3 + ena, 0, 0)], ENA);
            }
            for number in 0..nics {
                let port = at(base + 2, 1, number);
                let Kind(class, vendor, device, _) = BRIDGE;
                let speed = nic.3;
                self.add(numa, &[up, down, port], Kind(class, vendor, device, speed));
                self.nic(numa, &[up, down, port, at(base + 0x0b + number, 0, 0)], nic);
            }
            let port = at(base + 2, 1, 4);
            let Kind(class, vendor, device, _) = BRIDGE;
            self.add(numa, &[up, down, port], Kind(class, vendor, device, GEN5));
            self.add(numa, &[up, down, port, at(base + 0x0f, 0, 0)], gpu);
        }
    }

    fn shape(self, name: (&str, &str), gbps: u64) -> Shape {
        let tree = Tree::new(self.functions, self.packages);
        Shape::new(name, tree, &self.nics, gbps * 1_000_000_000)
    }
}

/// An address of domain 0. The numbers above are in range.
fn at(bus: u8, device: u8, function: u8) -> PciAddress {
    PciAddress::in_domain_0(bus, device & 31, function & 7)
}
