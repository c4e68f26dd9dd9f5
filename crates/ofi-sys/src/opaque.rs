//! Types that this crate passes by pointer and never looks into.

use core::ffi::c_uint;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    /// Attributes of an atomic operation, fi_atomic(3).
    fi_atomic_attr
    /// Attributes of an address vector set, fi_av_set(3).
    fi_av_set_attr
    /// Attributes of a collective operation, fi_collective(3).
    fi_collective_attr
    /// Operations of fi_atomic(3).
    fi_ops_atomic
    /// Operations of fi_collective(3).
    fi_ops_collective
    /// Attributes of a poll set, fi_poll(3).
    fi_poll_attr
    /// Attributes of a wait set, fi_poll(3).
    fi_wait_attr
    /// Address vector set, fi_av_set(3).
    fid_av_set
    /// Poll set, fi_poll(3).
    fid_poll
    /// Shared transmit context, fi_endpoint(3).
    fid_stx
    /// Wait set, fi_poll(3).
    fid_wait
}

/// `enum fi_cntr_events` of fi_cntr(3).
pub type fi_cntr_events = c_uint;
/// `enum fi_collective_op` of fi_collective(3).
pub type fi_collective_op = c_uint;
/// `enum fi_datatype` of fi_atomic(3).
pub type fi_datatype = c_uint;
/// `enum fi_op` of fi_atomic(3).
pub type fi_op = c_uint;
