//! What `ofi emu --shape` can play, as a table: of the shapes that it plays, and of the functions by which
//! the plugins choose what they speak.

use efa_emu::shape::{NicSpec, Shape};
use ofi_net::params::Flavour;
use ofi_net::{Config, Expected, Protocol};

/// PCI device of the first generation of EFA; each has its own, one after the other.
const FIRST_GENERATION: u32 = 0xefa0;

/// One line a shape, under a line of titles.
pub(super) fn lines() -> Vec<String> {
    let mut lines = vec![format!(
        "{:<7} {:<15} {:>4} {:>9} {:>10}  {}",
        "shape", "instance", "NICs", "Gb/s each", "generation", "the plugins"
    )];
    lines.extend(Shape::NAMES.iter().filter_map(|name| line(name)));
    lines.push(
        "\ncustom:nics=4,speed=100,generation=2,pci=0000:10:1b.0+..,names=rdmap0s4+..,product=p9.large: NICs as they are\n\
         described; every word may be left out. What the plugins speak follows from the product, or from the NICs of a\n\
         device: OFI_NCCL_PROTOCOL beats both. Every emulated NIC can write; EFA_EMU_LACKS=write makes\n\
         NICs that write by messages, and say so, EFA_EMU_LACKS=rma such that only send."
            .to_owned(),
    );
    lines
}

fn line(name: &str) -> Option<String> {
    let shape = Shape::by_name(name).ok()?;
    let nic = shape.nics().first()?;
    Some(format!(
        "{name:<7} {:<15} {:>4} {:>9} {:>10}  {}",
        shape.product(),
        shape.nics().len(),
        nic.speed_bps / 1_000_000_000,
        generation(nic).map_or_else(|| "?".to_owned(), |number| number.to_string()),
        spoken(name),
    ))
}

/// The generation of EFA, from 1.
fn generation(nic: &NicSpec) -> Option<u32> {
    let digits = nic.device_id.strip_prefix("0x")?;
    let device = u32::from_str_radix(digits, 16).ok()?;
    Some(device.checked_sub(FIRST_GENERATION)? + 1)
}

/// What the plugins do with these NICs unless they are told otherwise.
fn spoken(name: &str) -> &'static str {
    let Some(shape) = ofi_topo::shape::Shape::by_name(name) else {
        return "?";
    };
    let is_neuron = shape.product.starts_with("trn");
    let flavour = if is_neuron {
        Flavour::Neuron
    } else {
        Flavour::Nccl
    };
    let config = Config {
        product_name: Some(shape.product.clone()),
        ..Config::new(flavour)
    };
    match Expected::of(&config, &shape.provider_list(), &shape.tree) {
        Ok(expected) if expected.protocol == Protocol::Rdma => "write (RDMA)",
        Ok(_) => "only send (SENDRECV)",
        Err(_) => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_line_with_what_it_is() {
        let lines = lines();
        assert_eq!(lines.len(), Shape::NAMES.len() + 2);
        let words = |name: &str| {
            let line = lines.iter().find(|line| line.starts_with(name));
            let words = line.expect("a line").split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("p5 "), "p5 p5.48xlarge 32 100 2 write (RDMA)");
        assert_eq!(
            words("p4d "),
            "p4d p4d.24xlarge 4 100 1 only send (SENDRECV)"
        );
        assert_eq!(words("trn2 "), "trn2 trn2.48xlarge 16 200 3 write (RDMA)");
        assert!(!lines.concat().contains('?'));
    }
}
