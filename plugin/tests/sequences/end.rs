//! The end of a sequence: what must come comes, everything is closed, and the witness is as well as before.

use super::input::Input;
use super::model::{Dialling, Side};
use super::steps::Sequence;
use super::world::{no_panics, until};

impl Sequence<'_> {
    pub(crate) fn end(mut self, input: &mut Input<'_>) {
        if self.world.life.is_some() {
            self.shake_hands();
            self.settle();
            let order = input.byte();
            let unread = self.unread();
            if let Some(life) = &mut self.world.life {
                life.unread += unread;
            }
            self.close_all(order);
            self.world.witness();
        }
        self.forget();
        no_panics();
    }

    /// Connections that were begun, and that nothing was done to, come up.
    fn shake_hands(&mut self) {
        let Some(table) = self.world.polled() else {
            return;
        };
        let waits = |sequence: &Self| {
            let listeners = sequence.listeners.iter();
            let mut begun = listeners.filter(|one| !one.is_hurt && !one.dials.is_empty());
            begun.any(|one| {
                let mut dials = one.dials.iter().map(|&dial| sequence.dials[dial].state);
                !one.is_accepted || dials.any(|state| state == Dialling::Pending)
            })
        };
        until("connections", || {
            let pending: Vec<usize> = self.pending_dials().collect();
            pending.into_iter().for_each(|at| self.redial(table, at));
            let open: Vec<usize> = self.open_listeners().collect();
            for at in open {
                if !self.listeners[at].is_accepted {
                    self.accept_from(table, at);
                }
            }
            !waits(self)
        });
    }

    /// Messages that both sides have arrive, whatever else happened.
    fn settle(&mut self) {
        until("requests", || {
            self.test_all(0);
            self.is_settled()
        });
        let hurt = self.listeners.iter().any(|listener| listener.is_hurt);
        if !hurt {
            until("one-sided writes", || {
                self.world.witness();
                self.writes_are_there()
            });
        }
    }

    /// Messages that were sent and whose receives were never posted.
    fn unread(&self) -> usize {
        let comms = self.comms.iter().enumerate();
        let sends = comms.filter(|(_, comm)| comm.side == Side::Send);
        let more = sends.map(|(at, comm)| {
            let received = self
                .peer(at)
                .map_or(0, |peer| self.comms[peer].messages.len());
            comm.messages.len().saturating_sub(received)
        });
        more.sum()
    }

    fn close_all(&mut self, order: u8) {
        if order & 1 == 1 {
            self.close_listeners();
        }
        let first = if order & 2 == 2 {
            Side::Send
        } else {
            Side::Recv
        };
        for is_first in [true, false] {
            for at in 0..self.comms.len() {
                let comm = &self.comms[at];
                if comm.is_open && (comm.side == first) == is_first {
                    self.leave(usize::from(order >> 7), at);
                }
            }
        }
        self.close_listeners();
        self.world.witness();
        let comm = self.world.witness_comm();
        for at in self.idle_regions(None) {
            self.deregister_one(usize::from(order >> 6), at, comm);
        }
    }

    fn close_listeners(&mut self) {
        let open: Vec<usize> = self.open_listeners().collect();
        open.into_iter().for_each(|at| self.close_listener(0, at));
    }
}
