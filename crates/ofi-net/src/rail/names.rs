//! Names of peers' endpoints, and of their hosts.

use super::Port;
use crate::peers::Unresolved;
use crate::report::Note;
use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, HostName, Lane, PeerAddr};

impl Port {
    /// The address behind a name, on one lane.
    pub(super) fn address(
        &mut self,
        lane: Lane,
        name: &[u8; EP_NAME_BYTES],
    ) -> Result<PeerAddr, Cause> {
        let Some(Some(end)) = self.lanes.get_mut(lane.index()) else {
            return Err(Cause::errno(libc::ENODEV));
        };
        let resolved = end.peers.resolve(name);
        if let (Some(trace), Ok(PeerAddr(peer))) = (&mut self.trace, &resolved) {
            trace.peer(lane, *peer, name);
        }
        resolved.map_err(|unresolved| {
            if let Unresolved::Refused(error) = &unresolved {
                let text = error.to_string();
                self.note(Note::Peer { lane, text });
            }
            unresolved.cause()
        })
    }

    /// The host of a peer, whom the log knows by its endpoint on control rail 0.
    pub(super) fn name_host(&mut self, peer: PeerAddr, host: &HostName) {
        if let Some(Some(end)) = self.lanes.get_mut(Lane::control(0).index()) {
            end.peers.on_host(peer, host);
        }
    }

    /// What this host is called.
    pub(crate) fn name_own_host(&mut self, host: Option<HostName>) {
        if let Some(Some(end)) = self.lanes.get_mut(Lane::control(0).index()) {
            end.peers.name_own_host(host);
        }
    }
}
