//! Endpoints: set up, enable, then post.

use core::ptr;

use ofi_sys::bindings::fid_ep;
use ofi_sys::ops;

use crate::av::{ADDRESS_LEN_MAX, Av};
use crate::context::Context2;
use crate::cq::{Cq, Entry, OpenCq};
use crate::domain::Domain;
use crate::error::{CloseFailed, Errno, FabricError, check, errno_of};
use crate::fid::Fid;
use crate::flags::CqBind;
use crate::info::{Info, InfoBuf};
use crate::version::Version;

/// Something that an endpoint was bound to, and so keeps open.
#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped after the endpoint")]
enum Bound {
    Queue(OpenCq),
    Vector(Av),
}

#[derive(Debug)]
struct Inner {
    fid: Fid<fid_ep>,
    bound: Vec<Bound>,
    domain: Domain,
    info: InfoBuf,
}

/// First version that closes an endpoint without an address vector; before, at least up to 1.17, the
/// TCP providers follow a null pointer.
const CLOSES_UNBOUND: Version = Version::new(1, 22);

impl Drop for Inner {
    /// Closes the endpoint before what it is bound to. One that has no address vector gets one of
    /// its own to be closed with, where closing would crash without.
    fn drop(&mut self) {
        let has_vector = self
            .bound
            .iter()
            .any(|bound| matches!(bound, Bound::Vector(_)));
        let crashes = Version::of(self.info.library()) < CLOSES_UNBOUND;
        let helped = if has_vector || !crashes || !self.fid.is_owned() {
            Ok(())
        } else {
            Av::open(&self.domain).and_then(|av| bind_av(&mut self.bound, &self.fid, &av))
        };
        if helped.and_then(|()| self.fid.close()).is_err() {
            self.fid.abandon();
            keep_open(self.domain.clone());
        }
    }
}

/// An endpoint that is still open may still access memory of its domain: that must not go.
#[expect(clippy::mem_forget, reason = "the handle is there to be never dropped")]
fn keep_open(domain: Domain) {
    core::mem::forget(domain);
}

/// Binds a vector, and keeps it open.
fn bind_av(bound: &mut Vec<Bound>, fid: &Fid<fid_ep>, av: &Av) -> Result<(), FabricError> {
    // SAFETY: fi_endpoint(3): two open objects of one domain; the vector outlives the endpoint,
    // which keeps a handle.
    let code = unsafe { ops::fi_bind(fid.as_fid(), av.as_raw().cast(), 0) };
    check("fi_ep_bind", code).map_err(|error| error.with("an address vector"))?;
    bound.push(Bound::Vector(av.clone()));
    Ok(())
}

/// An endpoint that is not enabled yet: bind it, set its options, then [`Self::enable`]. It cannot
/// post:
///
/// ```compile_fail,E0599
/// # use efa_fabric::{Context2, EndpointSetup, PeerAddr, Sink};
/// fn too_early(setup: &EndpointSetup, sink: Sink, context: *mut Context2) {
///     let _ = unsafe { setup.post_recv(sink, PeerAddr::ANY, context) };
/// }
/// ```
///
/// and an enabled one cannot be bound:
///
/// ```compile_fail,E0599
/// # use efa_fabric::{Cq, CqBind, Endpoint};
/// fn too_late(endpoint: &mut Endpoint, cq: &Cq) {
///     let _ = endpoint.bind_cq(cq, CqBind::RECV);
/// }
/// ```
#[derive(Debug)]
pub struct EndpointSetup(Inner);

impl EndpointSetup {
    /// Directs completions to a queue.
    ///
    /// # Errors
    ///
    /// FI_EDOMAIN for a queue of another domain; else what the provider says.
    pub fn bind_cq<E: Entry>(&mut self, cq: &Cq<E>, what: CqBind) -> Result<(), FabricError> {
        self.check_domain("a completion queue", cq.domain())?;
        // SAFETY: fi_endpoint(3): two open objects of one domain; the queue outlives the endpoint,
        // which keeps a handle.
        let code = unsafe { ops::fi_bind(self.0.fid.as_fid(), cq.as_raw().cast(), what.bits()) };
        check("fi_ep_bind", code).map_err(|error| error.with("a completion queue"))?;
        self.0.bound.push(Bound::Queue(cq.keep()));
        Ok(())
    }

    /// Binds the vector whose addresses posts will name.
    ///
    /// # Errors
    ///
    /// FI_EDOMAIN for a vector of another domain; else what the provider says.
    pub fn bind_av(&mut self, av: &Av) -> Result<(), FabricError> {
        self.check_domain("an address vector", av.domain())?;
        bind_av(&mut self.0.bound, &self.0.fid, av)
    }

    fn check_domain(&self, what: &str, domain: &Domain) -> Result<(), FabricError> {
        if self.0.domain.is_same(domain) {
            return Ok(());
        }
        Err(FabricError::new("fi_ep_bind", Errno::EDOMAIN)
            .with(format_args!("{what} of another domain")))
    }

    /// Makes it ready for data.
    ///
    /// # Errors
    ///
    /// Gives it back with what the provider says, for example FI_ENOCQ when no queue is bound.
    pub fn enable(self) -> Result<Endpoint, CloseFailed<Self>> {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let code = unsafe { ops::fi_enable(self.0.fid.as_ptr()) };
        match check("fi_enable", code) {
            Ok(()) => Ok(Endpoint(self.0)),
            Err(error) => Err(CloseFailed {
                error,
                object: self,
            }),
        }
    }

    /// The entry it was opened with.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// The raw object, still owned by this one: do not close it.
    #[must_use]
    pub const fn as_raw(&self) -> *mut fid_ep {
        self.0.fid.as_ptr()
    }
}

/// An enabled endpoint, fi_endpoint(3). Dropping it closes it before the queues, the vector and the
/// domain that it was bound to; operations in flight are then over, and their contexts, buffers and
/// regions may be freed.
#[derive(Debug)]
pub struct Endpoint(Inner);

impl Endpoint {
    /// Opens an endpoint of the kind that an entry describes; it is then bound and enabled.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open(domain: &Domain, info: &Info) -> Result<EndpointSetup, FabricError> {
        let info = info.dup()?;
        let mut raw: *mut fid_ep = ptr::null_mut();
        // SAFETY: fi_endpoint(3): an open domain, an fi_info of this library that is ours; `raw`
        // takes the endpoint.
        let code = unsafe {
            ops::fi_endpoint(
                domain.as_raw(),
                info.as_raw(),
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        check("fi_endpoint", code).map_err(|error| error.with(info.domain_name()))?;
        // SAFETY: fi_endpoint(3): opened, and ours to close.
        let fid = unsafe { Fid::new("fi_endpoint", raw, true) }?;
        Ok(EndpointSetup(Inner {
            fid,
            bound: Vec::new(),
            domain: domain.clone(),
            info,
        }))
    }

    /// The endpoint's own address, for the peer's [`Av::insert`].
    ///
    /// # Errors
    ///
    /// FI_ETOOSMALL if it is longer than [`ADDRESS_LEN_MAX`]; else what the provider says.
    pub fn name(&self) -> Result<Vec<u8>, FabricError> {
        let mut name = vec![0_u8; ADDRESS_LEN_MAX];
        let len = self.name_into(&mut name)?;
        name.truncate(len);
        Ok(name)
    }

    /// Writes the endpoint's own address to `out` and says how long it is.
    ///
    /// # Errors
    ///
    /// FI_ETOOSMALL if `out` is too short; else what the provider says.
    pub fn name_into(&self, out: &mut [u8]) -> Result<usize, FabricError> {
        let mut len = out.len();
        // SAFETY: fi_cm(3): an enabled endpoint, a buffer of `len` bytes; at most that many are
        // written, and the true length comes back in `len`.
        let code = unsafe { ops::fi_getname(self.as_raw(), out.as_mut_ptr().cast(), &raw mut len) };
        let room = out.len();
        check("fi_getname", code)
            .map_err(|error| error.with(format_args!("{len} bytes into {room}")))?;
        if len > room {
            return Err(FabricError::new("fi_getname", Errno::ETOOSMALL)
                .with(format_args!("{len} bytes into {room}")));
        }
        Ok(len)
    }

    /// Asks to cancel the operation posted with this context. It still ends with a completion:
    /// FI_ECANCELED, or what it came to before. `false` if no such operation was found.
    ///
    /// # Errors
    ///
    /// What the provider says; EFA's `efa-direct` cannot cancel (FI_ENOSYS).
    pub fn cancel(&self, context: *mut Context2) -> Result<bool, FabricError> {
        // SAFETY: fi_endpoint(3): an enabled endpoint; the context is compared, not followed.
        let code = unsafe { ops::fi_cancel(self.as_raw(), context.cast()) };
        match code {
            0 => Ok(true),
            // 1.17's providers say one or the other, or 0, when there is nothing to cancel.
            code if code < 0 && NOT_FOUND.contains(&errno_of(code).code()) => Ok(false),
            code if code < 0 => Err(FabricError::new("fi_cancel", errno_of(code))),
            _ => Ok(true),
        }
    }

    /// The domain it belongs to.
    #[must_use]
    pub const fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// The entry it was opened with.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// The raw object, still owned by this one: do not close it.
    #[inline]
    #[must_use]
    pub const fn as_raw(&self) -> *mut fid_ep {
        self.0.fid.as_ptr()
    }

    /// Closes it now. What was in flight is over then: no completion of it need come, its contexts
    /// and buffers are free.
    ///
    /// # Errors
    ///
    /// Gives it back, still open, if the provider refuses (FI_EBUSY: a region is bound to it).
    pub fn close(mut self) -> Result<(), CloseFailed<Self>> {
        self.close_in_place().map_err(|error| CloseFailed {
            error,
            object: self,
        })
    }

    /// Closes it; nothing may be called on it after success.
    pub(crate) fn close_in_place(&mut self) -> Result<(), FabricError> {
        self.0.fid.close()
    }
}

/// What providers answer when there is nothing to cancel.
const NOT_FOUND: [i32; 2] = [ofi_sys::errno::FI_ENOENT, ofi_sys::errno::FI_ENOMSG];
