//! Shapes against the facts.

use super::{Shape, nic_name};

fn shape(name: &str) -> Shape {
    Shape::by_name(name).unwrap()
}

#[test]
fn instances_have_their_nics() {
    for (name, count, gbps_in_all) in [
        ("p3dn", 1, 100),
        ("p4d", 4, 400),
        ("p5", 32, 3200),
        ("p5en", 16, 3200),
        ("g5", 1, 100),
        ("c5n", 1, 100),
        ("trn1", 8, 800),
        ("trn2", 16, 3200),
    ] {
        let shape = shape(name);
        assert_eq!(shape.nics.len(), count, "{name}");
        let bps: u64 = shape.nics.iter().map(|nic| nic.speed_bps).sum();
        assert_eq!(bps, gbps_in_all * 1_000_000_000, "{name}");
        assert_eq!(self::shape(&shape.product), shape);
    }
    assert_eq!(Shape::NAMES.len(), super::instance::ALL.len());
}

#[test]
fn names_are_those_of_the_dumps() {
    // hwloc dumps of p5.48xlarge, p4d.24xlarge and g5.48xlarge.
    for (place, name) in [
        ("0000:4f:00.0", "rdmap79s0"),
        ("0000:10:1b.0", "rdmap16s27"),
        ("0000:00:15.0", "rdmap0s21"),
        ("0001:a0:1b.7", "rdmaP1p160s27f7"),
    ] {
        assert_eq!(nic_name(place.parse().unwrap()), name);
    }
}

#[test]
fn guids_tell_the_functions_of_a_card_apart() {
    let p5 = shape("p5");
    let card: Vec<u8> = (0..4).map(|i| p5.nics[i].guid.function_index()).collect();
    assert_eq!(card, [0, 1, 2, 3]);
    let (last, next) = (p5.nics[3].guid, p5.nics[4].guid);
    assert_eq!(last.card_bus(), 0x4f);
    assert_eq!((next.card_bus(), next.function_index()), (0x60, 0));
}
