//! Endpoint addresses as people read them.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::Write as _;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

/// libfabric's numbers of address formats (`fi_getinfo(3)`, `fi_info.addr_format`).
const FI_SOCKADDR: u32 = 1;
const FI_SOCKADDR_IN: u32 = 2;
const FI_SOCKADDR_IN6: u32 = 3;
const FI_ADDR_STR: u32 = 9;
const FI_ADDR_EFA: u32 = 12;

const AF_INET: [u8; 2] = [2, 0];
const AF_INET6: [u8; 2] = [10, 0];

/// The name of an endpoint (`fi_getname(3)`) in a format of `fi_info.addr_format`, as people read it:
/// `127.0.0.1:4433`, `[::1]:4433`, `fi_shm://12:0:1`, `fe80::1%qp7`; hexadecimal where nothing else fits.
/// Control characters are spelled out.
pub fn show_address(format: u32, name: &[u8]) -> String {
    let shown = match format {
        FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => socket(name),
        FI_ADDR_STR => text(name),
        FI_ADDR_EFA => efa(name),
        _ => None,
    };
    shown.unwrap_or_else(|| hex(name))
}

/// A `sockaddr_in` or `sockaddr_in6` (`ip(7)`, `ipv6(7)`).
fn socket(name: &[u8]) -> Option<String> {
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    if name.get(..2)? == AF_INET {
        let ip: [u8; 4] = name.get(4..8)?.try_into().ok()?;
        return Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).to_string());
    }
    if name.get(..2)? == AF_INET6 {
        let ip: [u8; 16] = name.get(8..24)?.try_into().ok()?;
        return Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0).to_string());
    }
    None
}

fn text(name: &[u8]) -> Option<String> {
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let text = core::str::from_utf8(name.get(..end)?).ok()?;
    Some(printable(text))
}

/// A GID, then a queue pair number (protocol C).
fn efa(name: &[u8]) -> Option<String> {
    let gid: [u8; 16] = name.get(..16)?.try_into().ok()?;
    let qp = u16::from_le_bytes(name.get(16..18)?.try_into().ok()?);
    Some(format!("{}%qp{qp}", Ipv6Addr::from(gid)))
}

/// The text with everything a terminal would act on spelled out.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn hex(name: &[u8]) -> String {
    let used = name
        .iter()
        .rposition(|&b| b != 0)
        .map_or(0, |last| last + 1);
    let mut text = String::from("0x");
    for byte in name.iter().take(used) {
        // Writing to a String does not fail.
        let _ok: bool = write!(text, "{byte:02x}").is_ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_each_kind() {
        let v4 = [2, 0, 0x11, 0x51, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(show_address(FI_SOCKADDR_IN, &v4), "127.0.0.1:4433");
        let mut v6 = [0; 28];
        (v6[0], v6[2], v6[3], v6[23]) = (10, 0x11, 0x51, 1);
        assert_eq!(show_address(FI_SOCKADDR_IN6, &v6), "[::1]:4433");
        assert_eq!(
            show_address(FI_ADDR_STR, b"fi_shm://12:0:1\0\0rubbish"),
            "fi_shm://12:0:1"
        );
        let mut efa = [0; 32];
        (efa[0], efa[1], efa[15], efa[16]) = (0xfe, 0x80, 1, 7);
        assert_eq!(show_address(FI_ADDR_EFA, &efa), "fe80::1%qp7");
    }

    /// What is written comes from peers.
    #[test]
    fn bytes_that_are_no_address_are_shown_as_bytes() {
        assert_eq!(show_address(FI_SOCKADDR_IN, &[9, 9, 9, 0, 0]), "0x090909");
        assert_eq!(show_address(FI_SOCKADDR_IN, &[2]), "0x02");
        assert_eq!(show_address(FI_ADDR_EFA, &[1; 3]), "0x010101");
        assert_eq!(show_address(77, &[0; 56]), "0x");
        assert_eq!(show_address(FI_ADDR_STR, b"a\x1b[2J"), "a\\u{1b}[2J");
    }
}
