//! What to ask libfabric for.

use core::ffi::CStr;
use core::fmt;
use core::ptr;
use std::ffi::CString;

use ofi_sys::{Library, bindings as b, consts as c};

use crate::error::{Errno, FabricError, check};
use crate::flags::{Caps, Mode, MrMode};
use crate::info::{InfoBuf, InfoList, Progress, Threading};
use crate::version::Version;

/// Hints for `fi_getinfo`, fi_getinfo(3): what the program needs and can do.
///
/// [`Hints::rdm`] starts with reliable unconnected endpoints, FI_THREAD_SAFE (which the `Sync` of
/// this crate's types relies on), both context modes (every post here has a
/// [`Context2`](crate::Context2)), and API 1.20 or what the library implements.
///
/// A provider's name is honoured by libfabric; names of fabric and domain are ignored before 1.19,
/// so filter the list by them instead.
#[derive(Clone, Debug)]
pub struct Hints {
    caps: Caps,
    mode: Mode,
    mr_mode: MrMode,
    threading: Threading,
    progress: Progress,
    version: Version,
    provider: Option<CString>,
    source: Option<CString>,
    cq_data_size: usize,
    mr_key_size: usize,
    msg_order: u64,
    addr_format: u32,
    traffic_class: u32,
}

impl Hints {
    /// Reliable datagram endpoints with these capabilities.
    #[must_use]
    pub const fn rdm(caps: Caps) -> Self {
        Self {
            caps,
            mode: Mode::from_bits_retain(c::FI_CONTEXT | c::FI_CONTEXT2),
            mr_mode: MrMode::empty(),
            threading: Threading::Safe,
            progress: Progress::Unspecified,
            version: Version::new(1, 20),
            provider: None,
            source: None,
            cq_data_size: 0,
            mr_key_size: 0,
            msg_order: 0,
            addr_format: c::FI_FORMAT_UNSPEC,
            traffic_class: c::FI_TC_UNSPEC,
        }
    }

    /// Replaces the capabilities.
    #[must_use]
    pub const fn caps(mut self, caps: Caps) -> Self {
        self.caps = caps;
        self
    }

    /// Replaces the modes that the program supports.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The registration modes that the program supports. What comes back is what it must do.
    #[must_use]
    pub const fn mr_mode(mut self, mr_mode: MrMode) -> Self {
        self.mr_mode = mr_mode;
        self
    }

    /// A weaker threading model: fewer locks in the provider. [`Domain::open`](crate::Domain::open)
    /// refuses what comes back unless it is [`Threading::Safe`]; the unsafe
    /// [`Domain::open_weakly_threaded`](crate::Domain::open_weakly_threaded) takes it.
    #[must_use]
    pub const fn threading(mut self, threading: Threading) -> Self {
        self.threading = threading;
        self
    }

    /// Who makes data move.
    #[must_use]
    pub const fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// The API to ask for; lowered to what the library implements and this crate knows.
    #[must_use]
    pub const fn api_version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Only this provider, for example `c"tcp;ofi_rxm"`.
    #[must_use]
    pub fn provider(mut self, name: &CStr) -> Self {
        self.provider = Some(name.to_owned());
        self
    }

    /// Only interfaces with this source address or name, for example `c"127.0.0.1"`.
    #[must_use]
    pub fn source(mut self, node: &CStr) -> Self {
        self.source = Some(node.to_owned());
        self
    }

    /// Bytes of CQ data wanted, 0 for any. Software providers ignore it and answer 8; EFA has 4.
    #[must_use]
    pub const fn cq_data_size(mut self, bytes: usize) -> Self {
        self.cq_data_size = bytes;
        self
    }

    /// Bytes of a key wanted, 0 for any. Software providers ignore it and answer 8; EFA has 4.
    #[must_use]
    pub const fn mr_key_size(mut self, bytes: usize) -> Self {
        self.mr_key_size = bytes;
        self
    }

    /// Ordering wanted between operations, FI_ORDER_* bits of fi_endpoint(3).
    #[must_use]
    pub const fn msg_order(mut self, order: u64) -> Self {
        self.msg_order = order;
        self
    }

    /// Address format wanted, FI_SOCKADDR_IN and so on.
    #[must_use]
    pub const fn addr_format(mut self, format: u32) -> Self {
        self.addr_format = format;
        self
    }

    /// Traffic class wanted, FI_TC_* of fi_endpoint(3).
    #[must_use]
    pub const fn traffic_class(mut self, class: u32) -> Self {
        self.traffic_class = class;
        self
    }

    /// Asks the library: everything that fits, best first by the library's order.
    ///
    /// # Errors
    ///
    /// FI_ENODATA when nothing fits ([`FabricError::is_no_data`]); the message carries the hints.
    ///
    /// # Costs
    ///
    /// The first call of a process starts all providers: about 0.3 s on Debian's 1.17.
    pub fn query(&self, library: &'static Library) -> Result<InfoList, FabricError> {
        let mut hints = InfoBuf::empty(library)?;
        self.write_to(&mut hints)?;
        let version = self.version.min(Version::NEWEST_KNOWN).request(library);
        let flags = if self.source.is_some() {
            c::FI_SOURCE
        } else {
            0
        };
        let node = self
            .source
            .as_ref()
            .map_or(ptr::null(), |node| node.as_ptr());
        let mut head: *mut b::fi_info = ptr::null_mut();
        // SAFETY: fi_getinfo(3): node is null or NUL-terminated, there is no service, the hints are
        // an fi_info of this library, and `head` takes the list.
        let code = unsafe {
            library.getinfo(
                version.pack(),
                (node, ptr::null()),
                flags,
                hints.as_raw(),
                &raw mut head,
            )
        };
        check("fi_getinfo", code)
            .map_err(|error| error.with(format_args!("API {version}, {self}")))?;
        // SAFETY: fi_getinfo succeeded, so `head` is a list of this library that we must free.
        unsafe { InfoList::from_raw(library, head) }
            .ok_or_else(|| FabricError::new("fi_getinfo", Errno::ENODATA).with("an empty list"))
    }

    /// Copies the hints into an empty `fi_info`.
    fn write_to(&self, info: &mut InfoBuf) -> Result<(), FabricError> {
        info.set_root(self.caps, self.mode, self.addr_format);
        info.set_provider(self.provider.as_deref())?;
        info.edit_ep(|ep| ep.type_ = b::FI_EP_RDM);
        info.edit_domain(|domain| {
            domain.mr_mode = self.mr_mode.bits();
            domain.threading = self.threading.to_raw();
            domain.control_progress = self.progress.to_raw();
            domain.data_progress = self.progress.to_raw();
            domain.cq_data_size = self.cq_data_size;
            domain.mr_key_size = self.mr_key_size;
        });
        info.edit_tx(|tx| {
            tx.msg_order = self.msg_order;
            tx.tclass = self.traffic_class;
        });
        info.edit_rx(|rx| rx.msg_order = self.msg_order);
        Ok(())
    }
}

impl fmt::Display for Hints {
    /// What makes a difference, in libfabric's words: for errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "caps {}, mr_mode {}", self.caps, self.mr_mode)?;
        for (what, name) in [("provider", &self.provider), ("source", &self.source)] {
            if let Some(name) = name {
                write!(f, ", {what} {}", name.to_string_lossy())?;
            }
        }
        let sizes = [("CQ data", self.cq_data_size), ("keys", self.mr_key_size)];
        for (what, bytes) in sizes.into_iter().filter(|(_, bytes)| *bytes > 0) {
            write!(f, ", {what} of {bytes} bytes")?;
        }
        let formats = (self.addr_format != c::FI_FORMAT_UNSPEC).then_some(self.addr_format);
        formats.map_or(Ok(()), |format| write!(f, ", address format {format}"))
    }
}
