//! iwrite, iwriteInline and iread as libfabric calls (protocol 2c.8).

use super::{GONE, Port, fi, pointer};
use crate::contexts::Owner;
use efa_fabric::{Desc, PostFlags, Source, Target};
use ofi_rdma::{Outcome, Post, PutSource, RegionId, Remote};

/// One-sided operations carry no immediate.
const NO_DATA: u64 = 0;

const fn target(remote: Remote) -> Target {
    let Remote { peer, addr, key } = remote;
    let peer = fi(peer);
    Target { peer, addr, key }
}

impl Port {
    /// `fi_writemsg` with one segment on each side. An inline one has no descriptor, and its bytes
    /// are the caller's again when this returns (`FI_INJECT`, `fi_rma(3)`).
    pub(super) fn put(
        &mut self,
        post: &Post,
        to: Remote,
        from: PutSource,
        local: (u64, u32),
    ) -> Outcome {
        let (addr, len) = local;
        let (source, flags) = match from {
            PutSource::Region(region) => {
                match self.local(addr, len.into(), region, post.lane().rail()) {
                    Some(local) => (local.source(), PostFlags::empty()),
                    None => return GONE,
                }
            }
            PutSource::Inline => {
                let (ptr, len) = (pointer(addr).cast_const(), len as usize);
                let desc = Desc::NONE;
                (Source { ptr, len, desc }, PostFlags::INJECT)
            }
        };
        let (owner, target) = (Owner::Post(post.token()), target(to));
        self.with_context(post.lane(), owner, |endpoint, context, sent| {
            // SAFETY: the caller of iwrite keeps its buffer until the request is done, and its region
            // is counted by the engine; that of iwriteInline, which checked the length, keeps its
            // bytes during the call. Address and key of the target are the caller's word for what
            // its peer gave out.
            let posted = unsafe { endpoint.post_writemsg(source, NO_DATA, target, context, flags) };
            sent.count(posted, (0, source.len))
        })
    }

    /// `fi_read` of what the caller names at the peer.
    pub(super) fn get(
        &mut self,
        post: &Post,
        from: Remote,
        region: RegionId,
        local: (u64, u32),
    ) -> Outcome {
        let (addr, len) = local;
        let Some(local) = self.local(addr, len.into(), region, post.lane().rail()) else {
            return GONE;
        };
        let (owner, target) = (Owner::Post(post.token()), target(from));
        self.with_context(post.lane(), owner, |endpoint, context, _| {
            // SAFETY: the caller of iread leaves its buffer to the network until the request is done,
            // and its region is counted by the engine; the target is as for `put`.
            unsafe { endpoint.post_read(local.sink, target, context) }
        })
    }
}
