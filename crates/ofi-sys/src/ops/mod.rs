//! The headers' static inline functions: one call through an operation table each.
//!
//! Every function mirrors the `fi_*` function of the same name in the man pages, returns what the
//! provider returns (0 or a count, or a negative errno), and costs what the C version costs: two
//! loads and an indirect call. A slot that is NULL gives `-FI_ENOSYS`.
//!
//! # Safety
//!
//! All of them share one contract, and each man page adds its own: a fid pointer is a live object
//! of that class (opened, not closed), opened from a library that is still loaded (always so here:
//! it is never unloaded), and all other pointers are what the man page asks for. Calls on one fid
//! from several threads must be allowed by the threading model it was opened with.

use core::ffi::c_int;

use crate::errno::FI_ENOSYS;

mod domain;
mod endpoint;
mod msg;
mod queue;
mod rma;
mod tagged;

pub use domain::{
    fi_av_insert, fi_av_lookup, fi_av_open, fi_av_remove, fi_cq_open, fi_domain, fi_endpoint,
    fi_mr_regattr,
};
pub use endpoint::{
    fi_bind, fi_cancel, fi_close, fi_control, fi_enable, fi_getname, fi_getopt, fi_setopt,
};
pub use msg::{fi_inject, fi_injectdata, fi_recv, fi_recvmsg, fi_send, fi_senddata, fi_sendmsg};
pub use queue::{fi_cq_read, fi_cq_readerr, fi_cq_readfrom, fi_cq_strerror};
pub use rma::{
    RmaTarget, fi_inject_write, fi_inject_writedata, fi_read, fi_readmsg, fi_write, fi_writedata,
    fi_writemsg,
};
pub use tagged::{fi_tinject, fi_trecv, fi_trecvmsg, fi_tsend, fi_tsendmsg};

/// What a call through an empty slot gives.
trait Missing {
    const MISSING: Self;
}

impl Missing for isize {
    const MISSING: Self = -(FI_ENOSYS as Self);
}

impl Missing for c_int {
    const MISSING: Self = -FI_ENOSYS;
}

/// `fid->table->op(args)`, or `-FI_ENOSYS` where the slot is empty.
macro_rules! dispatch {
    ($fid:expr, $($table:ident).+, $op:ident, ($($arg:expr),* $(,)?)) => {{
        // SAFETY: the contract of the module: `$fid` is a live fid of this class, whose operation
        // tables the provider filled in (fi_provider(3)) and keeps until the fid is closed.
        let table = unsafe { (*$fid).$($table).+ };
        // SAFETY: as above; the slot lies within the table of libfabric 1.0, which all have.
        let op = unsafe { (*table).$op };
        match op {
            // SAFETY: the contract of the module covers the arguments, which go to the provider as
            // they are.
            Some(op) => unsafe { op($($arg),*) },
            None => $crate::ops::Missing::MISSING,
        }
    }};
}

use dispatch;

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use core::ptr;

    use super::*;
    use crate::bindings::{fi_ops_cq, fi_ops_msg, fid_cq, fid_ep};

    unsafe extern "C" fn send(
        _ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest: u64,
        context: *mut c_void,
    ) -> isize {
        let seen = [buf.addr(), len, desc.addr(), context.addr()];
        if seen == [1, 2, 3, 5] && dest == 4 {
            0
        } else {
            -1
        }
    }

    unsafe extern "C" fn read(_cq: *mut fid_cq, _buf: *mut c_void, count: usize) -> isize {
        isize::try_from(count).unwrap_or(-1)
    }

    #[test]
    fn arguments_reach_the_slot_in_order() {
        let mut msg = fi_ops_msg {
            send: Some(send),
            ..Default::default()
        };
        let mut ep = fid_ep {
            msg: &raw mut msg,
            ..Default::default()
        };
        let at = ptr::without_provenance_mut::<c_void>;
        // SAFETY: a fid with a table as a provider would make it; `send` looks at no pointer.
        let code = unsafe { fi_send(&raw mut ep, at(1), 2, at(3), 4, at(5)) };
        assert_eq!(code, 0);
    }

    #[test]
    fn an_empty_slot_is_enosys() {
        let mut msg = fi_ops_msg::default();
        let mut ep = fid_ep {
            msg: &raw mut msg,
            ..Default::default()
        };
        // SAFETY: a fid with a table; the slot is empty, so nothing is called.
        let code = unsafe {
            fi_recv(
                &raw mut ep,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
            )
        };
        assert_eq!(code, -38);
    }

    #[test]
    fn a_count_comes_back_as_it_is() {
        let mut ops = fi_ops_cq {
            read: Some(read),
            ..Default::default()
        };
        let mut cq = fid_cq {
            ops: &raw mut ops,
            ..Default::default()
        };
        // SAFETY: a fid with a table; `read` writes nothing.
        let count = unsafe { fi_cq_read(&raw mut cq, ptr::null_mut(), 7) };
        assert_eq!(count, 7);
    }
}
