//! What a plugin was asked to open and not yet to close, so that a run that fails can close it all the
//! same: what is open afterwards is the plugin's own leak.

use super::plugin::Plugin;
use super::sig::Opaque;

/// Everything that is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) listeners: Vec<Opaque>,
    pub(super) senders: Vec<Opaque>,
    pub(super) receivers: Vec<Opaque>,
    /// Communicator and handle; a plugin may give the same handle twice.
    pub(super) regions: Vec<(Opaque, Opaque)>,
    /// Between init and fini.
    pub(super) is_up: bool,
}

/// Forgets one, the latest of those that are the same.
pub(super) fn forget<T: PartialEq>(list: &mut Vec<T>, closed: &T) {
    if let Some(at) = list.iter().rposition(|open| open == closed) {
        list.swap_remove(at);
    }
}

impl Plugin {
    /// Closes all that is open, in the order of a good end, whatever is in flight; what cannot be closed
    /// is left. Requests that were not through are never tested again.
    pub(crate) fn close_all(&mut self) {
        let open = core::mem::take(&mut *self.open.borrow_mut());
        for (comm, handle) in open.regions {
            // SAFETY: functions of this table (see `init`); what is open was given by
            // them and not closed, and nobody has it any more, as this takes the plugin for itself.
            let _code = unsafe { (self.ops.dereg_mr)(comm, handle) };
        }
        for comm in open.senders {
            // SAFETY: as above.
            let _code = unsafe { (self.ops.close_send)(comm) };
        }
        for comm in open.receivers {
            // SAFETY: as above.
            let _code = unsafe { (self.ops.close_recv)(comm) };
        }
        for comm in open.listeners {
            // SAFETY: as above.
            let _code = unsafe { (self.ops.close_listen)(comm) };
        }
        if open.is_up {
            drop(self.fini());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::forget;

    #[test]
    fn one_at_a_time() {
        let mut list = vec![1, 2, 1];
        forget(&mut list, &1);
        assert_eq!(list, [1, 2]);
        forget(&mut list, &3);
        forget(&mut list, &1);
        assert_eq!(list, [2]);
    }
}
