//! What each call of libfabric can be answered with, and what that makes of a life.

use core::ffi::c_int;
use efa_fabric::sys::errno as e;

/// What becomes of a life in which one call got one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it is as if the call had been answered well, later.
    None,
    /// Somebody is told, with the number of the error and the name of the call.
    Told,
    /// Somebody is told, but what the answer means is said in other words than its number.
    Said,
    /// An object is not closed: told or counted, and it stays.
    Left,
    /// Either nothing, or an error.
    Any,
}

/// The plausible answers to a call (from its man page, and from what providers were seen to give), as
/// positive numbers, with what follows.
pub(super) fn answers(name: &str) -> &'static [(c_int, Effect)] {
    to_set_up(name)
        .or_else(|| to_data(name))
        .unwrap_or_else(|| panic!("{name}: a call without plausible answers"))
}

/// Calls that make or close something.
fn to_set_up(name: &str) -> Option<&'static [(c_int, Effect)]> {
    use Effect::{Any, Left, None, Said, Told};
    Some(match name {
        "fi_domain" => &[
            (e::FI_ENOMEM, Told),
            (e::FI_ENODEV, Told),
            (e::FI_EINVAL, Told),
        ],
        "fi_cq_open" => &[
            (e::FI_ENOMEM, Told),
            (e::FI_EINVAL, Told),
            (e::FI_ENOSYS, Told),
        ],
        "fi_av_open" => &[(e::FI_ENOMEM, Told), (e::FI_EINVAL, Told)],
        // shm says EBUSY to a name that was left behind: another one is tried.
        "fi_endpoint" | "fi_ep_bind" | "fi_enable" => &[
            (e::FI_ENOMEM, Told),
            (e::FI_EINVAL, Told),
            (e::FI_EBUSY, None),
        ],
        "fi_getname" => &[(e::FI_EINVAL, Told), (e::FI_ENODATA, Told)],
        // Providers say in three ways that they do not know an option.
        "fi_getopt" => &[
            (e::FI_ENOPROTOOPT, Any),
            (e::FI_EOPNOTSUPP, Any),
            (e::FI_EINVAL, Any),
            (e::FI_EIO, Told),
        ],
        "fi_setopt" => &[
            (e::FI_ENOPROTOOPT, None),
            (e::FI_EOPNOTSUPP, None),
            (e::FI_EINVAL, None),
            (e::FI_EIO, Told),
        ],
        // 0: none was inserted.
        "fi_av_insert" => &[(e::FI_ENOMEM, Told), (e::FI_EINVAL, Told), (0, Said)],
        "fi_mr_regattr" => &[
            (e::FI_ENOMEM, Told),
            (e::FI_EINVAL, Told),
            (e::FI_ENOKEY, Told),
            (e::FI_EOPNOTSUPP, Told),
        ],
        name if name.starts_with("fi_close") => &[(e::FI_EBUSY, Left)],
        _ => return Option::None,
    })
}

/// Calls that move data or ask for completions.
fn to_data(name: &str) -> Option<&'static [(c_int, Effect)]> {
    use Effect::{Any, None, Told};
    Some(match name {
        // shm answers a full receive queue with ENOMEM.
        "fi_recv" => &[
            (e::FI_EAGAIN, None),
            (e::FI_ENOMEM, None),
            (e::FI_EINVAL, Told),
        ],
        "fi_send" | "fi_senddata" | "fi_inject" | "fi_injectdata" | "fi_write" | "fi_writedata" => {
            &[
                (e::FI_EAGAIN, None),
                (e::FI_EINVAL, Told),
                (e::FI_ENOMEM, Told),
                (e::FI_ENOTCONN, Told),
                (e::FI_EIO, Told),
            ]
        }
        // With SENDRECV, which posts the caller's receives, ENOMEM counts as EAGAIN.
        "fi_read" => &[
            (e::FI_EAGAIN, None),
            (e::FI_EINVAL, Told),
            (e::FI_ENOMEM, Any),
            (e::FI_EIO, Told),
        ],
        "fi_tsend" | "fi_trecv" => &[
            (e::FI_EAGAIN, None),
            (e::FI_ENOMEM, None),
            (e::FI_EINVAL, Told),
            (e::FI_ENOTCONN, Told),
            (e::FI_EIO, Told),
        ],
        // EAVAIL without an entry: somebody else read it.
        "fi_cq_read" => &[
            (e::FI_EAVAIL, None),
            (e::FI_EIO, Told),
            (e::FI_EOVERRUN, Told),
        ],
        "fi_cq_readerr" => &[(e::FI_EAGAIN, None), (e::FI_EIO, Told)],
        _ => return Option::None,
    })
}

/// Calls that are made again and again until something arrives: how many is a matter of time.
pub(super) fn is_poll(name: &str) -> bool {
    name == "fi_cq_read" || name == "fi_cq_readerr"
}
