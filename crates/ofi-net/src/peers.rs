//! The peers that one endpoint can reach: its address vector, with each name inserted once.
//!
//! A thousand communicators to one peer are one entry. Entries stay until the endpoint closes, as in
//! the reference (protocol trap 27): their number is that of distinct peers.

use efa_fabric::{Av, PeerAddr as FiAddr};
use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, PeerAddr};
use ofi_sys::consts::{FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use std::collections::HashMap;

/// What addresses look like on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// `FI_SOCKADDR_IN` and so on.
    pub(crate) format: u32,
    /// Bytes of our own name: those of a peer's have the same length, but for strings.
    pub(crate) bytes: usize,
}

/// The address vector of one endpoint.
#[derive(Debug)]
pub(crate) struct Peers {
    av: Av,
    shape: Shape,
    known: HashMap<[u8; EP_NAME_BYTES], FiAddr>,
}

impl Peers {
    /// Peers reached through `av`, whose endpoint has addresses of `shape`.
    pub(crate) fn new(av: Av, shape: Shape) -> Self {
        Self {
            av,
            shape,
            known: HashMap::new(),
        }
    }

    /// The address of the endpoint called `name`, inserted if it is new here.
    ///
    /// # Errors
    /// The provider's, or `EINVAL` for bytes that are no address of this format.
    pub(crate) fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        if let Some(&known) = self.known.get(name) {
            return Ok(PeerAddr(known.as_raw()));
        }
        let address = address_in(self.shape, name).ok_or(Cause::errno(libc::EINVAL))?;
        // The provider gets a copy with zeros behind it, whatever the peer sent.
        let inserted = self.av.insert(address);
        let addr = inserted.map_err(|error| Cause::errno(error.errno().code()))?;
        self.known.insert(*name, addr);
        Ok(PeerAddr(addr.as_raw()))
    }
}

/// The address in a name of 56 bytes; `None` for bytes that a provider should not be given: some read
/// a family they do not expect, or a string without end, beyond what is there.
fn address_in(shape: Shape, name: &[u8; EP_NAME_BYTES]) -> Option<&[u8]> {
    let family = i32::from(u16::from_ne_bytes([name[0], name[1]]));
    let fits = match shape.format {
        FI_SOCKADDR_IN => family == libc::AF_INET,
        FI_SOCKADDR_IN6 => family == libc::AF_INET6,
        FI_SOCKADDR => family == libc::AF_INET || family == libc::AF_INET6,
        FI_ADDR_STR => return text_in(name),
        _ => name.iter().any(|&byte| byte != 0),
    };
    if fits { name.get(..shape.bytes) } else { None }
}

/// A printable string with a scheme, its NUL included.
fn text_in(name: &[u8; EP_NAME_BYTES]) -> Option<&[u8]> {
    let end = name.iter().position(|&byte| byte == 0)?;
    let text = name.get(..end)?;
    let is_name = text.contains(&b':') && text.iter().all(u8::is_ascii_graphic);
    if is_name { name.get(..=end) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> [u8; EP_NAME_BYTES] {
        let mut name = [0; EP_NAME_BYTES];
        name[..bytes.len()].copy_from_slice(bytes);
        name
    }

    fn plausible(format: u32, name: &[u8; EP_NAME_BYTES]) -> Option<usize> {
        address_in(Shape { format, bytes: 16 }, name).map(<[u8]>::len)
    }

    #[test]
    fn bytes_of_another_family_are_no_socket_address() {
        let inet = name(&[2, 0, 0x12, 0x34, 127, 0, 0, 1]);
        assert_eq!(plausible(FI_SOCKADDR_IN, &inet), Some(16));
        assert_eq!(plausible(FI_SOCKADDR_IN6, &inet), None);
        assert_eq!(plausible(FI_SOCKADDR_IN, &name(&[])), None);
        assert_eq!(plausible(FI_SOCKADDR_IN, &[0xFF; EP_NAME_BYTES]), None);
    }

    #[test]
    fn a_string_name_ends_and_is_printable() {
        assert_eq!(plausible(FI_ADDR_STR, &name(b"fi_shm://12:0:1")), Some(16));
        assert_eq!(
            plausible(FI_ADDR_STR, &[b':'; EP_NAME_BYTES]),
            None,
            "no end"
        );
        assert_eq!(plausible(FI_ADDR_STR, &name(b"")), None);
        assert_eq!(plausible(FI_ADDR_STR, &name(b"a/\x01:b")), None);
    }

    #[test]
    fn a_zeroed_name_is_nobody() {
        assert_eq!(
            plausible(ofi_sys::consts::FI_ADDR_EFA, &[0; EP_NAME_BYTES]),
            None
        );
        assert_eq!(
            plausible(ofi_sys::consts::FI_ADDR_EFA, &[1; EP_NAME_BYTES]),
            Some(16)
        );
    }
}
