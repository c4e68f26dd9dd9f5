//! An answer of fi_getinfo(3), written for C. libfabric allocates it, so it has the layout of the
//! library that asks, and libfabric frees it: texts and addresses are of malloc(3).

use core::ffi::{CStr, c_void};
use std::ffi::CString;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;

use super::fit::{Fitted, fit};
use super::nic;
use super::profile::{CQS, ENDPOINTS, Flavor, Profile};
use super::wanted::Wanted;
use crate::engine::address::LEN;
use crate::engine::nic::Nic;
use crate::engine::process::Process;
use crate::mem::layout::REGIONS;

/// Bytes of an immediate.
pub(crate) const CQ_DATA_SIZE: usize = 4;
/// Bytes of a key.
const KEY_SIZE: usize = 4;
/// Version of EFA's protocol.
pub(crate) const PROTOCOL_VERSION: u32 = 4;

/// Makes an empty `fi_info`: fi_dupinfo(NULL).
pub(crate) type Allocate = unsafe extern "C" fn(*const b::fi_info) -> *mut b::fi_info;

/// The inside of an answer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) nic: &'a Nic,
    pub(crate) profile: Profile,
    fitted: Fitted,
}

/// The domain's name, the same in both fabrics (providers.md 6).
pub(crate) fn domain_name(nic: &Nic) -> CString {
    CString::new(format!("{}-rdm", nic.spec.name)).unwrap_or_default()
}

/// All that fit, best first.
pub(crate) fn list<'a>(process: &'a Process, wanted: Option<&Wanted>) -> Vec<Answer<'a>> {
    let generation = process.generation();
    let interfaces = process.config().interfaces.as_deref();
    let is_shown = |nic: &&Nic| interfaces.is_none_or(|names| names.contains(&nic.spec.name));
    let mut answers = Vec::new();
    for flavor in Flavor::of(generation) {
        let profile = Profile::new(*flavor, generation, process.config());
        let Some(fitted) = fit(&profile, wanted) else {
            continue;
        };
        let is_asked = |nic: &&Nic| wanted.is_none_or(|wanted| is_asked(process, wanted, nic));
        let nics = process.nics().iter().filter(is_shown).filter(is_asked);
        answers.extend(nics.map(|nic| Answer {
            nic,
            profile,
            fitted,
        }));
    }
    answers
}

/// Whether hints name this NIC, or none.
fn is_asked(process: &Process, wanted: &Wanted, nic: &Nic) -> bool {
    let gid = process.address(nic, 0, 0).to_bytes();
    let named = wanted.domain.as_ref();
    named.is_none_or(|name| *name == domain_name(nic))
        && wanted.source.is_none_or(|source| source[..16] == gid[..16])
}

/// Copies bytes into memory of malloc(3).
fn allocated(bytes: &[u8]) -> *mut c_void {
    // SAFETY: malloc(3) of a length.
    let memory = unsafe { libc::malloc(bytes.len().max(1)) };
    if !memory.is_null() {
        // SAFETY: that many bytes, just allocated.
        unsafe { memory.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len()) };
    }
    memory
}

fn text(text: &CStr) -> *mut core::ffi::c_char {
    allocated(text.to_bytes_with_nul()).cast()
}

impl Answer<'_> {
    /// Writes it. NULL if there is no memory.
    ///
    /// # Safety
    /// `allocate` is fi_dupinfo(3) of the library that asks.
    pub(crate) unsafe fn write(
        &self,
        process: &Process,
        allocate: Allocate,
        (version, destination): (u32, Option<&[u8; LEN]>),
    ) -> *mut b::fi_info {
        // SAFETY: fi_dupinfo(3): NULL asks for an empty one with all attributes.
        let info = unsafe { allocate(core::ptr::null()) };
        if info.is_null() {
            return info;
        }
        // SAFETY: just allocated, and nobody else's yet.
        let entry = unsafe { &mut *info };
        entry.caps = self.fitted.caps;
        entry.mode = self.fitted.mode;
        entry.addr_format = c::FI_ADDR_EFA;
        let source = process.address(self.nic, 0, 0).to_bytes();
        entry.src_addr = allocated(&source);
        entry.src_addrlen = LEN;
        if let Some(destination) = destination {
            entry.dest_addr = allocated(destination);
            entry.dest_addrlen = LEN;
        }
        entry.nic = nic::object(&self.nic.spec);
        // SAFETY: fi_dupinfo(3) allocated the attributes too, zeroed.
        let tx = unsafe { &mut *entry.tx_attr };
        self.transmit(tx);
        // SAFETY: as above.
        let rx = unsafe { &mut *entry.rx_attr };
        self.receive(rx);
        // SAFETY: as above.
        let ep = unsafe { &mut *entry.ep_attr };
        self.endpoint(ep);
        // SAFETY: as above.
        let domain = unsafe { &mut *entry.domain_attr };
        self.domain(domain);
        // SAFETY: as above.
        let fabric = unsafe { &mut *entry.fabric_attr };
        fabric.name = text(self.profile.flavor.name());
        fabric.api_version = version;
        info
    }

    fn transmit(&self, tx: &mut b::fi_tx_attr) {
        let receiving = c::FI_RECV | c::FI_REMOTE_READ | c::FI_REMOTE_WRITE | c::FI_SOURCE;
        tx.caps = self.fitted.caps & !receiving;
        tx.mode = self.fitted.mode;
        tx.op_flags = self.fitted.tx_op_flags;
        tx.msg_order = self.fitted.msg_order;
        tx.inject_size = self.fitted.inject_size;
        tx.size = self.fitted.tx_size;
        tx.iov_limit = self.fitted.iov[0];
        tx.rma_iov_limit = 1;
        tx.tclass = self.fitted.tclass[0];
    }

    fn receive(&self, rx: &mut b::fi_rx_attr) {
        let sending = c::FI_SEND | c::FI_READ | c::FI_WRITE;
        rx.caps = self.fitted.caps & !sending;
        rx.mode = self.fitted.mode;
        rx.op_flags = self.fitted.rx_op_flags;
        rx.msg_order = self.fitted.msg_order;
        rx.size = self.fitted.rx_size;
        rx.iov_limit = self.fitted.iov[1];
    }

    fn endpoint(&self, ep: &mut b::fi_ep_attr) {
        ep.type_ = b::FI_EP_RDM;
        ep.protocol = c::FI_PROTO_EFA;
        ep.protocol_version = PROTOCOL_VERSION;
        ep.max_msg_size = self.fitted.max_msg_size;
        ep.mem_tag_format = match self.profile.flavor {
            Flavor::Rdm => u64::MAX / 3 * 2,
            Flavor::Direct => 0,
        };
        ep.tx_ctx_cnt = 1;
        ep.rx_ctx_cnt = 1;
    }

    fn domain(&self, domain: &mut b::fi_domain_attr) {
        domain.name = text(&domain_name(self.nic));
        domain.threading = self.fitted.threading;
        domain.control_progress = self.fitted.progress[0];
        domain.data_progress = self.fitted.progress[1];
        domain.resource_mgmt = b::FI_RM_ENABLED;
        domain.av_type = b::FI_AV_TABLE;
        domain.mr_mode = self.fitted.mr_mode;
        domain.mr_key_size = KEY_SIZE;
        domain.cq_data_size = CQ_DATA_SIZE;
        domain.cq_cnt = CQS;
        domain.ep_cnt = ENDPOINTS;
        domain.tx_ctx_cnt = ENDPOINTS;
        domain.rx_ctx_cnt = ENDPOINTS;
        domain.max_ep_tx_ctx = 1;
        domain.max_ep_rx_ctx = 1;
        domain.mr_iov_limit = 1;
        domain.caps = super::profile::SECONDARY;
        domain.mode = self.fitted.mode & !c::FI_CONTEXT2;
        domain.mr_cnt = REGIONS;
        domain.max_err_data = super::super::fi::ERROR_TEXT_MAX;
        domain.tclass = self.fitted.tclass[1];
    }
}
