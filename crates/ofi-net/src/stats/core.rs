//! What the domains of both protocols tell their meter.

use super::{Counted as _, Meter};
use crate::progress::{self, Role};
use crate::report::Note;
use crate::sendrecv;
use ofi_rdma::{CommKey, CommKind, Lane};

/// Progress passes between two looks at the meter: 2^8, so that counting them wraps by itself.
pub(crate) type Passes = u8;

/// The same for the cores of both protocols, but for where the peer's name is.
macro_rules! metered {
    ($core:ty, $shown:expr) => {
        impl $core {
            /// A communicator is there.
            pub(crate) fn opened(&mut self, comm: CommKey, role: Role) {
                self.open.insert(comm, role);
                let Self {
                    engine,
                    port,
                    meter: Some(meter),
                    ..
                } = self
                else {
                    return;
                };
                if role != Role::Listener {
                    let shown: fn(&_, _) -> Option<Box<str>> = $shown;
                    let peer = engine.comm_peer(comm).and_then(|peer| shown(port, peer));
                    meter.opened(comm, engine, peer.as_deref());
                }
            }

            /// Ends a communicator in the engine and in the file; the log is told what it did.
            ///
            /// # Errors
            /// It is closed already.
            pub(crate) fn close_in_engine(
                &mut self,
                comm: CommKey,
                now_ms: u64,
            ) -> Result<(), crate::error::NetError> {
                let did = self.engine.one(comm);
                self.engine.close(comm, now_ms)?;
                if let Some((info, counted)) = did {
                    let (id, kind) = (info.local_id, info.kind);
                    if kind != CommKind::Listener {
                        self.port.note(Note::Closed { id, kind, counted });
                    }
                }
                self.forget(comm);
                Ok(())
            }

            /// A communicator is gone from the engine.
            pub(crate) fn forget(&mut self, comm: CommKey) {
                if let Some(meter) = &mut self.meter {
                    meter.closed(comm);
                }
            }

            /// Brings the file up to date.
            #[cold]
            pub(crate) fn publish(&mut self) {
                if let Some(meter) = &mut self.meter {
                    meter.publish(&self.engine, &self.port.seen());
                }
            }

            /// What happens is written from now on.
            pub(crate) fn count_with(&mut self, meter: Meter) {
                self.meter = Some(Box::new(meter));
            }
        }
    };
}

metered!(progress::Core, |port: &crate::rail::Port, peer| port
    .lane(Lane::control(0))?
    .peers
    .shown(peer));
metered!(sendrecv::Core, |port: &sendrecv::Port, peer| port
    .peers
    .shown(peer));
