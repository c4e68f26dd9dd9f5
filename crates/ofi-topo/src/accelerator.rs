//! Which PCI functions are accelerators, told by vendor and class.

use crate::PciFunction;

/// Makers of accelerators that NICs can be grouped by.
///
/// Hosts that are to talk to each other have to group alike, so that more than the reference knows
/// ([`Accelerators::NVIDIA`]) has to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accelerators {
    nvidia: bool,
    amd: bool,
    neuron: bool,
}

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;
const AMAZON: u16 = 0x1d0f;

/// Base class of display controllers, GPUs among them.
const DISPLAY: u16 = 0x03;
/// GPUs of AMD without a display: 3D controller, other display controller, processing accelerator.
const AMD_CLASSES: [u16; 3] = [0x0302, 0x0380, 0x1200];
/// Neuron devices are "system peripherals", or accelerators in later generations.
const NEURON_CLASSES: [u16; 2] = [0x0880, 0x1200];
/// Device numbers of Neuron devices: 7064 (inf1), 7164 (trn1), 7264 (inf2), 7364 (trn2) and on; those of
/// Amazon's other system peripherals lie above.
const NEURON_DEVICES: core::ops::RangeInclusive<u16> = 0x7000..=0x7fff;

impl Accelerators {
    /// None: each NIC is a device.
    pub const NONE: Self = Self {
        nvidia: false,
        amd: false,
        neuron: false,
    };
    /// GPUs of NVIDIA, the reference's rule (protocol 2h.3): vendor 10de, base class 03.
    pub const NVIDIA: Self = Self {
        nvidia: true,
        ..Self::NONE
    };
    /// GPUs of AMD that have no display.
    pub const AMD: Self = Self {
        amd: true,
        ..Self::NONE
    };
    /// Neuron devices of AWS Trainium and Inferentia.
    pub const NEURON: Self = Self {
        neuron: true,
        ..Self::NONE
    };
    /// All of them.
    pub const ANY: Self = Self {
        nvidia: true,
        amd: true,
        neuron: true,
    };

    /// Whether `function` is one of them. A virtual function of one that is here is no other: it was made for a
    /// virtual machine, and the collectives library of this host does not see it.
    #[must_use]
    pub fn contain(self, function: &PciFunction) -> bool {
        if function.is_part {
            return false;
        }
        let class = function.class;
        match function.vendor {
            NVIDIA => self.nvidia && class >> 8 == DISPLAY,
            AMD => self.amd && AMD_CLASSES.contains(&class),
            AMAZON => {
                self.neuron
                    && NEURON_CLASSES.contains(&class)
                    && NEURON_DEVICES.contains(&function.device)
            }
            _ => false,
        }
    }
}

/// As the reference has it.
impl Default for Accelerators {
    fn default() -> Self {
        Self::NVIDIA
    }
}

#[cfg(test)]
mod tests {
    use super::Accelerators;
    use crate::PciFunction;

    fn function(class: u16, vendor: u16, device: u16) -> PciFunction {
        let mut function = PciFunction::new("0000:00:05.0".parse().unwrap(), Vec::new());
        (function.class, function.vendor, function.device) = (class, vendor, device);
        function
    }

    #[test]
    fn a_part_of_an_accelerator_is_none() {
        let mut part = function(0x0302, 0x10de, 0x20b0);
        assert!(Accelerators::NVIDIA.contain(&part));
        part.is_part = true;
        assert!(!Accelerators::ANY.contain(&part));
    }

    #[test]
    fn each_maker_is_told_from_the_others() {
        let cases = [
            (0x0302, 0x10de, 0x20b0, Accelerators::NVIDIA),
            (0x0300, 0x10de, 0x1db5, Accelerators::NVIDIA),
            (0x1200, 0x1002, 0x74a1, Accelerators::AMD),
            (0x0380, 0x1002, 0x7408, Accelerators::AMD),
            (0x0880, 0x1d0f, 0x7164, Accelerators::NEURON),
            (0x1200, 0x1d0f, 0x7364, Accelerators::NEURON),
        ];
        for (class, vendor, device, maker) in cases {
            let function = function(class, vendor, device);
            let all = [
                Accelerators::NVIDIA,
                Accelerators::AMD,
                Accelerators::NEURON,
            ];
            for each in all {
                assert_eq!(each.contain(&function), each == maker, "{function:?}");
            }
            assert!(Accelerators::ANY.contain(&function));
            assert!(!Accelerators::NONE.contain(&function));
        }
    }

    #[test]
    fn other_functions_of_these_makers_are_none() {
        // A network adapter and a bridge of NVIDIA, EFA, EBS, the console of AWS and its enclaves
        // device, a display of AMD.
        for (class, vendor, device) in [
            (0x0200, 0x10de, 0x1021),
            (0x0604, 0x10de, 0x1af1),
            (0x0200, 0x1d0f, 0xefa1),
            (0x0108, 0x1d0f, 0x8061),
            (0x0300, 0x1d0f, 0x1111),
            (0x0880, 0x1d0f, 0xe4c1),
            (0x0300, 0x1002, 0x7300),
        ] {
            assert!(!Accelerators::ANY.contain(&function(class, vendor, device)));
        }
    }
}
