//! The connections of a rank: made when a mode first needs them, closed at the end.

use std::collections::BTreeMap;
use std::time::Instant;

use super::fail::{At as _, Fail, Place};
use crate::abi::plugin::Handle;
use crate::abi::{ListenComm, Plugin, RecvComm, SendComm};
use crate::coord::{Gauge, Link};

/// Peer and number of the communicator.
type Key = (usize, usize);

/// Bytes of one offer: listening rank's peer, communicator, handle.
const OFFER: usize = 4 + 4 + Handle::BYTES;

/// All communicators of a rank.
#[derive(Debug)]
pub(crate) struct Mesh {
    devices: Vec<usize>,
    comms: usize,
    out: BTreeMap<Key, SendComm>,
    inn: BTreeMap<Key, RecvComm>,
    pub(crate) connect_ms: f64,
}

struct Outgoing {
    key: Key,
    device: usize,
    handle: Handle,
    gauge: std::sync::Arc<Gauge>,
}

struct Incoming {
    key: Key,
    listener: ListenComm,
    gauge: std::sync::Arc<Gauge>,
}

impl Mesh {
    /// `comms` communicators on each of `devices`, to every peer.
    pub(crate) fn new(devices: Vec<usize>, comms: usize) -> Self {
        Self {
            devices,
            comms,
            out: BTreeMap::new(),
            inn: BTreeMap::new(),
            connect_ms: 0.0,
        }
    }

    /// Communicators to one peer in one direction.
    pub(crate) fn width(&self) -> usize {
        self.comms * self.devices.len()
    }

    /// Ends of connections that stand.
    pub(crate) fn ends(&self) -> usize {
        self.out.len() + self.inn.len()
    }

    fn device(&self, comm: usize) -> usize {
        self.devices[comm % self.devices.len()]
    }

    pub(crate) fn sender(&self, peer: usize, comm: usize) -> Option<(&SendComm, Place)> {
        let place = Place {
            sending: true,
            peer,
            comm,
            device: self.device(comm),
        };
        Some((self.out.get(&(peer, comm))?, place))
    }

    pub(crate) fn receiver(&self, peer: usize, comm: usize) -> Option<(&RecvComm, Place)> {
        let place = Place {
            sending: false,
            peer,
            comm,
            device: self.device(comm),
        };
        Some((self.inn.get(&(peer, comm))?, place))
    }

    /// Makes what is missing of: a sending end to each of `to`, a receiving end from each of `from`.
    /// All ranks call this together, with lists that fit each other.
    pub(crate) fn ensure(
        &mut self,
        link: &Link,
        plugin: &Plugin,
        (to, from): (&[usize], &[usize]),
    ) -> Result<(), Fail> {
        link.board.stage("listening for connections");
        let (mut incoming, mut offers) = (Vec::new(), Vec::new());
        for key in self.missing(from, |k| self.inn.contains_key(k)) {
            let stage = || format!("listen for rank {}, comm {}", key.0, key.1);
            let (listener, handle) = plugin.listen(self.device(key.1)).at(stage)?;
            let gauge = link
                .board
                .gauge(format!("accept from rank {}, comm {}", key.0, key.1), 1);
            offers.extend_from_slice(&offer(key, &handle));
            incoming.push(Incoming {
                key,
                listener,
                gauge,
            });
        }
        let all = link.gather(offers)?;
        let mut outgoing = Vec::new();
        for key in self.missing(to, |k| self.out.contains_key(k)) {
            let handle = find(&all[key.0], link.rank, key.1).ok_or(Fail::NoHandle {
                from: key.0,
                to: link.rank,
            })?;
            let gauge = link
                .board
                .gauge(format!("connect to rank {}, comm {}", key.0, key.1), 1);
            outgoing.push(Outgoing {
                key,
                device: self.device(key.1),
                handle,
                gauge,
            });
        }
        if !(incoming.is_empty() && outgoing.is_empty()) {
            let start = Instant::now();
            self.establish(link, plugin, outgoing, incoming)?;
            self.connect_ms += start.elapsed().as_secs_f64() * 1e3;
        }
        Ok(link.barrier()?)
    }

    fn missing(&self, peers: &[usize], has: impl Fn(&Key) -> bool) -> Vec<Key> {
        let width = self.width();
        let keys = peers.iter().flat_map(|p| (0..width).map(move |c| (*p, c)));
        keys.filter(|k| !has(k)).collect()
    }

    /// Polls connects and accepts in turn. Where they may block (v4), every connect comes first:
    /// it returns without its peer, and the peer's accept then finds it.
    fn establish(
        &mut self,
        link: &Link,
        plugin: &Plugin,
        mut outgoing: Vec<Outgoing>,
        mut incoming: Vec<Incoming>,
    ) -> Result<(), Fail> {
        // Keeps the gauges of the listening stage: they are what is waited for.
        while !(outgoing.is_empty() && incoming.is_empty()) {
            let before = outgoing.len() + incoming.len();
            outgoing = self.connect_round(plugin, outgoing)?;
            if outgoing.is_empty() || !plugin.blocking_setup() {
                incoming = self.accept_round(plugin, incoming)?;
            }
            if outgoing.len() + incoming.len() == before {
                std::thread::yield_now();
            } else {
                link.board.step();
            }
        }
        link.board.clear_gauges();
        Ok(())
    }

    fn connect_round(
        &mut self,
        plugin: &Plugin,
        pending: Vec<Outgoing>,
    ) -> Result<Vec<Outgoing>, Fail> {
        let mut still = Vec::new();
        for mut o in pending {
            let stage = || format!("connect to rank {}, comm {}", o.key.0, o.key.1);
            match plugin.connect(o.device, &mut o.handle).at(stage)? {
                Some(comm) => {
                    o.gauge.set(1, 1);
                    self.out.insert(o.key, comm);
                }
                None => {
                    o.gauge.set(1, 0);
                    still.push(o);
                }
            }
        }
        Ok(still)
    }

    fn accept_round(
        &mut self,
        plugin: &Plugin,
        pending: Vec<Incoming>,
    ) -> Result<Vec<Incoming>, Fail> {
        let mut still = Vec::new();
        for i in pending {
            let stage = || format!("accept from rank {}, comm {}", i.key.0, i.key.1);
            match plugin.accept(&i.listener).at(stage)? {
                Some(comm) => {
                    i.gauge.set(1, 1);
                    self.inn.insert(i.key, comm);
                    plugin
                        .close_listen(i.listener)
                        .at(|| "close a listener".to_owned())?;
                }
                None => {
                    i.gauge.set(1, 0);
                    still.push(i);
                }
            }
        }
        Ok(still)
    }

    /// Closes everything. All ranks call this together, when nothing is in flight anywhere.
    pub(crate) fn close(&mut self, link: &Link, plugin: &Plugin) -> Result<(), Fail> {
        link.board.stage("closing connections");
        for ((peer, comm), end) in core::mem::take(&mut self.out) {
            plugin
                .close_send(end)
                .at(|| format!("close the send comm {comm} to rank {peer}"))?;
            link.board.step();
        }
        for ((peer, comm), end) in core::mem::take(&mut self.inn) {
            plugin
                .close_recv(end)
                .at(|| format!("close the recv comm {comm} from rank {peer}"))?;
            link.board.step();
        }
        Ok(link.barrier()?)
    }
}

fn offer(key: Key, handle: &[u8; Handle::BYTES]) -> [u8; OFFER] {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = [0; OFFER];
    out[..4].copy_from_slice(&number(key.0));
    out[4..8].copy_from_slice(&number(key.1));
    out[8..].copy_from_slice(handle);
    out
}

/// The handle that a rank offers to `rank` for communicator `comm`.
fn find(offers: &[u8], rank: usize, comm: usize) -> Option<Handle> {
    let want = offer((rank, comm), &[0; Handle::BYTES]);
    let found = offers.chunks_exact(OFFER).find(|o| o[..8] == want[..8])?;
    Some(Handle::received(found[8..].try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_found_by_rank_and_communicator() {
        let mut all = offer((1, 0), &[1; 128]).to_vec();
        all.extend(offer((2, 5), &[2; 128]));
        assert!(format!("{:?}", find(&all, 2, 5).unwrap()).contains("02, 02"));
        assert!(find(&all, 2, 0).is_none());
        assert!(find(&all[..100], 1, 0).is_none());
    }
}
