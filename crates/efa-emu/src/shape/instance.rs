//! Where NICs and accelerators sit in real instances: a row a fact, with its source.
//!
//! Sources: *dump*: a hwloc dump of the instance (as in nixl, Apache-2.0). *topo*: the topology file
//! that aws-ofi-nccl installs (Apache-2.0). *lspci*: `lspci -tv` in the Neuron documentation.
//! *fabtests*: the table of libfabric's tests. *spec*: the instance's page at AWS. *ours*: nobody
//! told us; made up so that it fits the rest.

use super::pci::Pci;
use super::{Function, Kind, Link, Shape};

/// What the functions of an instance have in common.
struct Instance {
    name: &'static str,
    product: &'static str,
    nic_device: u16,
    nic_speed_gbps: u64,
    accelerator: Ids,
    accelerator_link: Link,
}

#[derive(Clone, Copy)]
struct Ids {
    vendor: u16,
    device: u16,
    class: u32,
}

const NVIDIA_CLASS: u32 = 0x03_02_00;
/// "System peripheral": Neuron devices (providers 5).
const NEURON: Ids = Ids {
    vendor: 0x1d0f,
    device: 0x7164,
    class: 0x08_80_00,
};

const GEN3: Link = Link::new("8.0 GT/s PCIe", 16);
const GEN4: Link = Link::new("16.0 GT/s PCIe", 16);
const GEN5: Link = Link::new("32.0 GT/s PCIe", 16);

/// p4d.24xlarge (dump, topo): four root buses, each with an EFA and two GPUs.
pub(super) fn p4d() -> Shape {
    let of = Instance {
        name: "p4d",
        product: "p4d.24xlarge",
        nic_device: 0xefa0,
        nic_speed_gbps: 100, // spec: 400 Gb/s in all
        accelerator: Ids {
            vendor: 0x10de,
            device: 0x20b0,
            class: NVIDIA_CLASS,
        },
        accelerator_link: GEN4,
    };
    let mut functions = Vec::new();
    for (bus, numa) in [(0x10, 0), (0x20, 0), (0x90, 1), (0xa0, 1)] {
        functions.push(of.nic(Pci::new(bus, 0x1b, 0), Vec::new(), numa));
        for device in [0x1c, 0x1d] {
            functions.push(of.accelerator(Pci::new(bus, device, 0), Vec::new(), numa));
        }
    }
    of.shape(functions)
}

/// p5.48xlarge (dump): eight switches, each with four EFAs and a GPU.
pub(super) fn p5() -> Shape {
    switches(
        &Instance {
            name: "p5",
            product: "p5.48xlarge",
            nic_device: 0xefa1,
            nic_speed_gbps: 100, // spec: 3200 Gb/s in all
            accelerator: Ids {
                vendor: 0x10de,
                device: 0x2330,
                class: NVIDIA_CLASS,
            },
            accelerator_link: GEN5,
        },
        4,
    )
}

/// p5en.48xlarge: sixteen EFAs of 200 Gb/s (spec; protocol 2a.4, `speed`); that they sit as those
/// of p5, two a switch, is ours, and so are the device numbers.
pub(super) fn p5en() -> Shape {
    switches(
        &Instance {
            name: "p5en",
            product: "p5en.48xlarge",
            nic_device: 0xefa2,
            nic_speed_gbps: 200,
            accelerator: Ids {
                vendor: 0x10de,
                device: 0x2335,
                class: NVIDIA_CLASS,
            },
            accelerator_link: GEN5,
        },
        2,
    )
}

/// trn1.32xlarge (lspci): four root buses, each with two EFAs and four Neuron devices. NUMA nodes
/// are ours, as in p4d; so is the device number.
pub(super) fn trn1() -> Shape {
    let of = Instance {
        name: "trn1",
        product: "trn1.32xlarge",
        nic_device: 0xefa0,
        nic_speed_gbps: 100, // spec: 800 Gb/s in all
        accelerator: NEURON,
        accelerator_link: GEN4,
    };
    let mut functions = Vec::new();
    for (bus, numa) in [(0x10, 0), (0x20, 0), (0x90, 1), (0xa0, 1)] {
        for device in [0x19, 0x1a] {
            functions.push(of.nic(Pci::new(bus, device, 0), Vec::new(), numa));
        }
        for device in 0x1b..=0x1e {
            functions.push(of.accelerator(Pci::new(bus, device, 0), Vec::new(), numa));
        }
    }
    of.shape(functions)
}

/// trn2.48xlarge: the addresses of its EFAs (fabtests), 200 Gb/s each (spec: 3200 Gb/s in all).
/// The bridge above each pair, NUMA nodes and the device number are ours; where the Neuron devices
/// sit is not known, so there are none.
pub(super) fn trn2() -> Shape {
    let of = Instance {
        name: "trn2",
        product: "trn2.48xlarge",
        nic_device: 0xefa2,
        nic_speed_gbps: 200,
        accelerator: NEURON,
        accelerator_link: GEN5,
    };
    let mut functions = Vec::new();
    for first in [0x56, 0x6c, 0x82, 0x98, 0xb3, 0xc9, 0xdf, 0xf5_u8] {
        let numa = u8::from(first >= 0x98);
        for nic in 0..2 {
            let bridges = vec![Pci::new(first - 2, 0, 0), Pci::new(first - 1, nic, 0)];
            functions.push(of.nic(Pci::new(first + nic, 0, 0), bridges, numa));
        }
    }
    of.shape(functions)
}

/// Eight switches as in p5, each with so many EFAs and a GPU. The GPU has port 4 and the bus behind
/// the four of the EFAs.
fn switches(of: &Instance, nics: u8) -> Shape {
    let mut functions = Vec::new();
    for (switch, base) in (0x44..=0xbb).step_by(0x11).enumerate() {
        let numa = u8::from(switch >= 4);
        let up = Pci::new(base, 0, 0);
        let down = Pci::new(base + 1, 0, 0);
        let port = |function| vec![up, down, Pci::new(base + 2, 1, function)];
        for nic in 0..nics {
            functions.push(of.nic(Pci::new(base + 0x0b + nic, 0, 0), port(nic), numa));
        }
        functions.push(of.accelerator(Pci::new(base + 0x0f, 0, 0), port(4), numa));
    }
    of.shape(functions)
}

impl Instance {
    fn nic(&self, pci: Pci, bridges: Vec<Pci>, numa: u8) -> Function {
        Function {
            pci,
            bridges,
            numa,
            kind: Kind::Nic,
            class: super::NIC_CLASS,
            vendor: super::AMAZON,
            device: self.nic_device,
            link: GEN3,
        }
    }

    fn accelerator(&self, pci: Pci, bridges: Vec<Pci>, numa: u8) -> Function {
        Function {
            pci,
            bridges,
            numa,
            kind: Kind::Accelerator,
            class: self.accelerator.class,
            vendor: self.accelerator.vendor,
            device: self.accelerator.device,
            link: self.accelerator_link,
        }
    }

    fn shape(&self, functions: Vec<Function>) -> Shape {
        Shape::of(
            self.name,
            self.product,
            self.nic_speed_gbps * 1_000_000_000,
            functions,
        )
    }
}
