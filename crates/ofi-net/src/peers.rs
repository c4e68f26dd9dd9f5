//! The peers that one endpoint can reach: its address vector, with each name inserted once.
//!
//! A thousand communicators to one peer are one entry. Entries stay until the endpoint closes, as in
//! the reference (protocol trap 27): their number is that of distinct peers.

use crate::report::Note;
use efa_fabric::{Av, FabricError, PeerAddr as FiAddr};
use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, EpName, Event, Failure, HostName, PeerAddr, Why};
use ofi_sys::consts::{FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use std::collections::HashMap;

/// What addresses look like on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// `FI_SOCKADDR_IN` and so on.
    pub(crate) format: u32,
    /// Our own name: those of peers have the same length, or for strings the same form.
    pub(crate) own: EpName,
}

/// Why a name has no address.
#[derive(Debug)]
pub(crate) enum Unresolved {
    /// It is no address of our format: rubbish, or a peer with another provider.
    Form,
    /// The provider did not take it.
    Refused(FabricError),
}

impl Unresolved {
    /// For the engine.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::Form => Cause::errno(libc::EINVAL),
            Self::Refused(error) => Cause::errno(error.errno().code()),
        }
    }
}

/// The address vector of one endpoint.
#[derive(Debug)]
pub(crate) struct Peers {
    av: Av,
    shape: Shape,
    /// By the address alone: what stands behind it in a name differs from message to message (a
    /// capability word, rubbish of a BASE peer).
    known: HashMap<EpName, FiAddr>,
    hosts: Hosts,
}

/// The names of hosts, as far as they are known: BASE peers do not say theirs.
#[derive(Debug, Default)]
struct Hosts {
    own: Option<Box<str>>,
    peers: HashMap<PeerAddr, Box<str>>,
}

impl Peers {
    /// Peers reached through `av`, whose endpoint has addresses of `shape`.
    pub(crate) fn new(av: Av, shape: Shape) -> Self {
        Self {
            av,
            shape,
            known: HashMap::new(),
            hosts: Hosts::default(),
        }
    }

    /// What this host is called.
    pub(crate) fn name_own_host(&mut self, host: Option<HostName>) {
        self.hosts.own = host.map(|host| host.as_str().into());
    }

    /// A peer said what its host is called.
    pub(crate) fn on_host(&mut self, peer: PeerAddr, host: &HostName) {
        self.hosts.peers.insert(peer, host.as_str().into());
    }

    /// The address of a peer and its host, as far as they are known; what tells two hosts apart names both.
    fn described(&self, peer: PeerAddr, between_hosts: bool) -> Option<Box<str>> {
        let address = self.shown(peer)?;
        let theirs = self.hosts.peers.get(&peer);
        let theirs = theirs.map(|name| format!("host {name}"));
        let own = self.hosts.own.as_ref().filter(|_| between_hosts);
        let own = own.map(|name| format!("this is host {name}"));
        let told: Vec<String> = theirs.into_iter().chain(own).collect();
        if told.is_empty() {
            return Some(address);
        }
        Some(format!("{address} ({})", told.join("; ")).into())
    }

    /// The name of an endpoint that was resolved here, as people read it. For the log: it looks at all.
    pub(crate) fn shown(&self, peer: PeerAddr) -> Option<Box<str>> {
        let mut known = self.known.iter();
        let (name, _) = known.find(|(_, addr)| addr.as_raw() == peer.0)?;
        let bytes = name.bytes.get(..usize::from(name.len))?;
        Some(ofi_trace::show_address(self.shape.format, bytes).into())
    }

    /// A name in a handle, as people read it.
    pub(crate) fn show_name(&self, name: &[u8; EP_NAME_BYTES]) -> String {
        let used = name.get(..usize::from(self.shape.own.len));
        ofi_trace::show_address(self.shape.format, used.unwrap_or(name))
    }

    /// Our own address, as people read it.
    pub(crate) fn own_text(&self) -> String {
        let own = &self.shape.own;
        let bytes = own.bytes.get(..usize::from(own.len)).unwrap_or(&[]);
        ofi_trace::show_address(self.shape.format, bytes)
    }

    /// All peers that were resolved here.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&EpName, PeerAddr)> {
        let known = self.known.iter();
        known.map(|(name, addr)| (name, PeerAddr(addr.as_raw())))
    }

    /// The same, as people read them.
    pub(crate) fn all_shown(&self) -> HashMap<PeerAddr, String> {
        let shown = |(name, addr): (&EpName, PeerAddr)| {
            let bytes = name.bytes.get(..usize::from(name.len)).unwrap_or(&[]);
            (addr, ofi_trace::show_address(self.shape.format, bytes))
        };
        self.known().map(shown).collect()
    }

    /// An event of the engine with the peer it is about.
    pub(crate) fn note(&self, event: Event) -> Note {
        let peer = match event {
            Event::Failed(_, Failure { peer, .. })
            | Event::Connected { peer, .. }
            | Event::Stalled { peer, .. } => peer,
            _ => None,
        };
        let is_mismatch = |failure: Failure| matches!(failure.why, Why::Mismatch { .. });
        let between = matches!(event, Event::Failed(_, failure) if is_mismatch(failure));
        match peer.and_then(|peer| self.described(peer, between)) {
            Some(peer) => Note::About { event, peer },
            None => Note::Event(event),
        }
    }

    /// The form of addresses here.
    pub(crate) const fn format(&self) -> u32 {
        self.shape.format
    }

    /// Our own name.
    pub(crate) const fn own(&self) -> &EpName {
        &self.shape.own
    }

    /// The address of the endpoint called `name`, inserted if it is new here.
    ///
    /// # Errors
    /// The provider's, or that the bytes are no address of this format.
    pub(crate) fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Unresolved> {
        let address = address_of(self.shape, name).ok_or(Unresolved::Form)?;
        if let Some(&known) = self.known.get(&address) {
            return Ok(PeerAddr(known.as_raw()));
        }
        let bytes = address.bytes.get(..usize::from(address.len));
        // The provider gets a copy with zeros behind it, whatever the peer sent.
        let inserted = self.av.insert(bytes.unwrap_or(&[]));
        let addr = inserted.map_err(Unresolved::Refused)?;
        self.known.insert(address, addr);
        Ok(PeerAddr(addr.as_raw()))
    }
}

/// Bytes of a `sockaddr_in` that mean something, of 16 (`ip(7)`).
const IPV4_BYTES: usize = 8;

/// The address in a name of 56 bytes with nothing but zeros where bytes mean nothing: two names of one
/// endpoint give the same.
fn address_of(shape: Shape, name: &[u8; EP_NAME_BYTES]) -> Option<EpName> {
    let mut address = EpName::new(address_in(shape, name)?)?;
    if shape.format == FI_SOCKADDR_IN {
        if let Some(padding) = address.bytes.get_mut(IPV4_BYTES..) {
            padding.fill(0);
        }
    }
    Some(address)
}

/// The address in a name of 56 bytes; `None` for bytes that a provider should not be given: some read
/// a family they do not expect, or a string without end, beyond what is there.
fn address_in(shape: Shape, name: &[u8; EP_NAME_BYTES]) -> Option<&[u8]> {
    let family = i32::from(u16::from_ne_bytes([name[0], name[1]]));
    let fits = match shape.format {
        FI_SOCKADDR_IN => family == libc::AF_INET,
        FI_SOCKADDR_IN6 => family == libc::AF_INET6,
        FI_SOCKADDR => family == libc::AF_INET || family == libc::AF_INET6,
        FI_ADDR_STR => return text_in(name, &shape.own.bytes),
        _ => name.iter().any(|&byte| byte != 0),
    };
    if fits {
        name.get(..shape.own.len.into())
    } else {
        None
    }
}

/// A string like our own, its NUL included: shm of libfabric 1.17 crashes when it sends to a name that
/// is cut off. Names of shm have three numbers, `fi_shm://12:0:1`, and on libfabric 2.x a fourth where
/// the file of that name was there already, so either side may have one more than the other. Names of
/// any other form have exactly that of our own.
fn text_in<'a>(name: &'a [u8; EP_NAME_BYTES], own: &[u8; EP_NAME_BYTES]) -> Option<&'a [u8]> {
    let end = name.iter().position(|&byte| byte == 0)?;
    let (theirs, ours) = (form(name), form(own));
    let is_alike = match (without_fourth(&theirs), without_fourth(&ours)) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => theirs == ours,
    };
    if end > 0 && is_alike {
        name.get(..=end)
    } else {
        None
    }
}

/// A string up to its NUL with each number in it as one digit: `fi_shm://12:0:1` is `fi_shm://0:0:0`.
fn form(name: &[u8; EP_NAME_BYTES]) -> Vec<u8> {
    let mut in_number = false;
    name.iter()
        .take_while(|&&byte| byte != 0)
        .filter_map(|&byte| {
            let is_digit = byte.is_ascii_digit();
            let repeats = is_digit && in_number;
            in_number = is_digit;
            (!repeats).then_some(if is_digit { b'0' } else { byte })
        })
        .collect()
}

/// The form of a name of shm without the number that may follow the third; `None` for other names.
fn without_fourth(form: &[u8]) -> Option<&[u8]> {
    let three = match form.strip_suffix(b":0") {
        Some(shorter) if shorter.ends_with(b"/0:0:0") => shorter,
        _ => form,
    };
    three.ends_with(b"/0:0:0").then_some(three)
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
        let own = match format {
            FI_ADDR_STR => EpName::new(b"fi_shm://4321:0:1\0"),
            _ => EpName::new(&[1; 16]),
        };
        let shape = Shape {
            format,
            own: own.unwrap(),
        };
        address_in(shape, name).map(<[u8]>::len)
    }

    /// The tail of a name differs in every message: a capability word, rubbish of a BASE peer.
    #[test]
    fn trap_27_one_endpoint_is_one_address_whatever_stands_behind_it() {
        let own = EpName::new(&[2; 16]).unwrap();
        let shape = Shape {
            format: FI_SOCKADDR_IN,
            own,
        };
        let clean = name(&[2, 0, 0x12, 0x34, 127, 0, 0, 1]);
        let (mut tail, mut pad, mut other) = (clean, clean, clean);
        (tail[20], pad[9], other[3]) = (7, 7, 7);
        let of = |name| address_of(shape, &name).unwrap();
        assert_eq!((of(tail), of(pad)), (of(clean), of(clean)));
        assert_ne!(of(other), of(clean));
        let own = EpName::new(b"fi_shm://4321:0:1\0").unwrap();
        let shape = Shape {
            format: FI_ADDR_STR,
            own,
        };
        let (clean, mut tail) = (name(b"fi_shm://12:0:1"), name(b"fi_shm://12:0:1"));
        tail[40] = 7;
        assert_eq!(address_of(shape, &tail), address_of(shape, &clean));
    }

    #[test]
    fn bytes_of_another_family_are_no_socket_address() {
        let inet = name(&[2, 0, 0x12, 0x34, 127, 0, 0, 1]);
        assert_eq!(plausible(FI_SOCKADDR_IN, &inet), Some(16));
        assert_eq!(plausible(FI_SOCKADDR_IN6, &inet), None);
        assert_eq!(plausible(FI_SOCKADDR_IN, &name(&[])), None);
        assert_eq!(plausible(FI_SOCKADDR_IN, &[0xFF; EP_NAME_BYTES]), None);
    }

    /// libfabric 2.x adds a number where a killed process left a file of the same name.
    #[test]
    fn names_of_shm_may_have_a_number_more_on_either_side() {
        let (short, long) = (b"fi_shm://4321:0:1\0", b"fi_shm://24141:0:1:1582277560\0");
        for own in [&short[..], &long[..]] {
            let own = EpName::new(own).unwrap();
            let shape = Shape {
                format: FI_ADDR_STR,
                own,
            };
            for theirs in [&short[..], &long[..]] {
                let address = address_in(shape, &name(theirs)).map(<[u8]>::len);
                assert_eq!(address, Some(theirs.len()));
            }
            assert_eq!(address_in(shape, &name(b"fi_sm2://1:0:1")), None);
            assert_eq!(address_in(shape, &name(b"fi_shm://1:0")), None);
            for bad in ["fi_shm://1:0:1:x", "fi_shm://1:0:1:", "fi_shm://1:0:1:2:3"] {
                assert_eq!(address_in(shape, &name(bad.as_bytes())), None, "{bad}");
            }
        }
    }

    #[test]
    fn names_of_another_form_have_exactly_that_of_our_own() {
        let own = EpName::new(b"fi_ns://host:7\0").unwrap();
        let shape = Shape {
            format: FI_ADDR_STR,
            own,
        };
        assert!(address_in(shape, &name(b"fi_ns://host:4711")).is_some());
        for bad in [
            "fi_ns://host",
            "fi_ns://",
            "fi_shm:/",
            "anything",
            "fi_shm://1:0:1",
        ] {
            assert_eq!(address_in(shape, &name(bad.as_bytes())), None, "{bad}");
        }
    }

    #[test]
    fn a_string_name_ends_and_is_printable() {
        assert_eq!(plausible(FI_ADDR_STR, &name(b"fi_shm://12:0:1")), Some(16));
        assert_eq!(
            plausible(FI_ADDR_STR, &[b':'; EP_NAME_BYTES]),
            None,
            "no end"
        );
        for bad in [
            "",
            "a/\u{1}:b",
            "fi_shm:/",
            "fi_shm://",
            "fi_shm://12",
            "fi_shm://12:0:",
            "x",
        ] {
            assert_eq!(
                plausible(FI_ADDR_STR, &name(bad.as_bytes())),
                None,
                "{bad:?}"
            );
        }
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
