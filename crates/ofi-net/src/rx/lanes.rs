//! Which lanes a domain has.

use ofi_rdma::Lane;

/// The lanes of a domain, data first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    data: u8,
    control: u8,
    next: u8,
}

/// The lanes of a domain with so many data and control rails.
pub(crate) fn lanes(data: u32, control: u32) -> Lanes {
    let narrow = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
    Lanes {
        data: narrow(data),
        control: narrow(control),
        next: 0,
    }
}

impl Iterator for Lanes {
    type Item = Lane;

    fn next(&mut self) -> Option<Lane> {
        let at = self.next;
        let lane = if at < self.data {
            Lane::data(at)
        } else if at - self.data < self.control {
            Lane::control(at - self.data)
        } else {
            return None;
        };
        self.next += 1;
        Some(lane)
    }
}
