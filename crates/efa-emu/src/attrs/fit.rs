//! Hints against attributes, by the rules that libfabric's providers share (fi_getinfo(3)): what is
//! asked for must be offered, what is demanded must be agreed to.

use core::ffi::c_int;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;

use super::profile::{Profile, SECONDARY};
use super::wanted::Wanted;

/// The old name of "virtual addresses, allocated memory, the provider's keys".
const BASIC: c_int = 1;
/// The old name of the opposite, which EFA does not have.
const SCALABLE: c_int = 2;
/// Capabilities that say what `FI_MSG`, `FI_TAGGED` and `FI_RMA` are used for.
const MESSAGE_MODIFIERS: u64 = c::FI_SEND | c::FI_RECV;
const RMA_MODIFIERS: u64 = c::FI_READ | c::FI_WRITE | c::FI_REMOTE_READ | c::FI_REMOTE_WRITE;
/// Modes of fi_mr(3) that are only about peers' access.
const RMA_TARGET_MODES: c_int = c::FI_MR_VIRT_ADDR | c::FI_MR_PROV_KEY;

/// What is answered, where it depends on what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) mr_mode: c_int,
    pub(crate) msg_order: u64,
    pub(crate) tx_op_flags: u64,
    pub(crate) rx_op_flags: u64,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) inject_size: usize,
    pub(crate) iov: [usize; 2],
    pub(crate) max_msg_size: usize,
    pub(crate) threading: b::fi_threading,
    pub(crate) progress: [b::fi_progress; 2],
    pub(crate) tclass: [u32; 2],
}

/// Whether an entry that somebody opens an object with is one that was given, or as good as one.
pub(crate) fn is_offered(profile: &Profile, entry: &Wanted) -> bool {
    fit(profile, Some(entry)).is_some()
}

/// The answer to hints, or `None` if the profile does not fit them.
pub(crate) fn fit(profile: &Profile, wanted: Option<&Wanted>) -> Option<Fitted> {
    let default = Fitted {
        caps: profile.caps,
        mode: profile.mode,
        mr_mode: profile.mr_mode,
        msg_order: profile.msg_order,
        tx_op_flags: 0,
        rx_op_flags: 0,
        tx_size: profile.tx_size,
        rx_size: profile.rx_size,
        inject_size: profile.inject_size,
        iov: [profile.iov_limit; 2],
        max_msg_size: profile.max_msg_size,
        threading: b::FI_THREAD_SAFE,
        progress: [profile.progress; 2],
        tclass: [0; 2],
    };
    let Some(wanted) = wanted else {
        return Some(Fitted {
            caps: profile.caps & !c::FI_HMEM,
            mr_mode: profile.mr_mode & !c::FI_MR_HMEM,
            ..default
        });
    };
    let name = |wanted: Option<&std::ffi::CString>, is: &core::ffi::CStr| {
        wanted.is_none_or(|wanted| wanted.as_c_str() == is)
    };
    let fits = name(wanted.fabric.as_ref(), profile.flavor.name())
        && matches!(wanted.addr_format, c::FI_FORMAT_UNSPEC | c::FI_ADDR_EFA)
        && wanted.caps & !profile.caps == 0
        && profile.mode & !wanted.mode == 0
        && fits_endpoint(profile, wanted)
        && fits_domain(profile, wanted)
        && fits_transmit(profile, wanted)
        && fits_receive(profile, wanted);
    if !fits {
        return None;
    }
    let caps = answered_caps(profile.caps, wanted.caps);
    Some(alter(
        Fitted {
            caps,
            mode: profile.mode | (profile.optional_mode & wanted.mode),
            mr_mode: mr_mode(profile, caps, wanted)?,
            ..default
        },
        wanted,
    ))
}

/// What was asked for, with what that implies. Device memory is there for who asks for it only.
pub(crate) fn answered_caps(offered: u64, wanted: u64) -> u64 {
    if wanted & !SECONDARY == 0 {
        return offered & !c::FI_HMEM;
    }
    let mut caps = wanted | SECONDARY;
    let messages = c::FI_MSG | c::FI_TAGGED;
    if wanted & messages != 0 && wanted & MESSAGE_MODIFIERS == 0 {
        caps |= MESSAGE_MODIFIERS;
    }
    if wanted & c::FI_RMA != 0 && wanted & RMA_MODIFIERS == 0 {
        caps |= RMA_MODIFIERS;
    }
    caps & offered
}

/// The registration mode, or `None` if the caller does not agree to what is needed.
fn mr_mode(profile: &Profile, caps: u64, wanted: &Wanted) -> Option<c_int> {
    let mut needed = profile.mr_mode;
    if caps & c::FI_HMEM == 0 {
        needed &= !c::FI_MR_HMEM;
    }
    // Who says nothing of domains is told what is needed (fi_getinfo(3): no attributes, no restriction).
    let Some(agreed) = wanted.domain_attr.map(|domain| domain.mr_mode) else {
        return Some(needed);
    };
    let agrees_to_local = agreed & c::FI_MR_LOCAL != 0 || wanted.mode & c::FI_LOCAL_MR != 0;
    if needed & c::FI_MR_LOCAL != 0 && !agrees_to_local {
        return None;
    }
    if agreed & BASIC != 0 {
        return (agreed & !(BASIC | c::FI_MR_LOCAL) == 0).then_some(agreed);
    }
    if agreed & SCALABLE != 0 {
        return None;
    }
    if caps & (c::FI_REMOTE_READ | c::FI_REMOTE_WRITE) == 0 {
        let is_local = needed & (c::FI_MR_LOCAL | c::FI_MR_HMEM) != 0;
        needed &= if is_local { !RMA_TARGET_MODES } else { 0 };
    }
    // Agreed to by its old name.
    let needed = if agrees_to_local {
        needed & !(c::FI_MR_LOCAL & !agreed)
    } else {
        needed
    };
    (needed & !agreed == 0).then_some(needed)
}

fn fits_endpoint(profile: &Profile, wanted: &Wanted) -> bool {
    wanted.ep.is_none_or(|ep| {
        matches!(ep.type_, b::FI_EP_UNSPEC | b::FI_EP_RDM)
            && matches!(ep.protocol, c::FI_PROTO_UNSPEC | c::FI_PROTO_EFA)
            && ep.protocol_version <= super::entry::PROTOCOL_VERSION
            && ep.max_msg_size <= profile.max_msg_size
            && ep.tx_ctx_cnt <= 1
            && ep.rx_ctx_cnt <= 1
            && ep.auth_key_size == 0
            && [
                ep.max_order_raw_size,
                ep.max_order_war_size,
                ep.max_order_waw_size,
            ] == [0; 3]
    })
}

/// How much a provider must do by itself.
fn progress_level(progress: b::fi_progress) -> u32 {
    match progress {
        b::FI_PROGRESS_AUTO => 2,
        b::FI_PROGRESS_MANUAL => 1,
        // Unspecified, and the unified one of 2.x.
        _ => 0,
    }
}

fn fits_domain(profile: &Profile, wanted: &Wanted) -> bool {
    wanted.domain_attr.is_none_or(|domain| {
        let offered = progress_level(profile.progress);
        domain.cq_data_size <= super::entry::CQ_DATA_SIZE
            && domain.mr_iov_limit <= 1
            && domain.mr_key_size <= 8
            && domain.caps & !SECONDARY == 0
            && profile.mode & !(domain.mode | wanted.mode) == 0
            && progress_level(domain.control_progress) <= offered
            && progress_level(domain.data_progress) <= offered
            && domain.auth_key_size == 0
    })
}

fn fits_transmit(profile: &Profile, wanted: &Wanted) -> bool {
    wanted.tx.is_none_or(|tx| {
        tx.caps & !profile.caps == 0
            && tx.op_flags & !profile.op_flags == 0
            && tx.msg_order & !profile.msg_order == 0
            // Operations complete in any order.
            && tx.comp_order == 0
            && tx.inject_size <= profile.inject_size
            && tx.size <= profile.tx_size
            && tx.iov_limit <= profile.iov_limit
            && tx.rma_iov_limit <= 1
    })
}

fn fits_receive(profile: &Profile, wanted: &Wanted) -> bool {
    wanted.rx.is_none_or(|rx| {
        rx.caps & !profile.caps == 0
            && rx.op_flags & !c::FI_COMPLETION == 0
            && rx.msg_order & !profile.msg_order == 0
            && rx.comp_order == 0
            && rx.size <= profile.rx_size
            && rx.iov_limit <= profile.iov_limit
            && rx.total_buffered_recv == 0
    })
}

/// Takes over what may be less than offered.
fn alter(mut fitted: Fitted, wanted: &Wanted) -> Fitted {
    let chosen = |wanted: usize, offered: usize| if wanted > 0 { wanted } else { offered };
    if let Some(tx) = &wanted.tx {
        fitted.tx_size = chosen(tx.size, fitted.tx_size);
        fitted.inject_size = chosen(tx.inject_size, fitted.inject_size);
        fitted.iov[0] = chosen(tx.iov_limit, fitted.iov[0]);
        fitted.tx_op_flags = tx.op_flags;
        fitted.tclass[0] = tx.tclass;
        if tx.msg_order != 0 {
            fitted.msg_order = tx.msg_order;
        }
    }
    if let Some(rx) = &wanted.rx {
        fitted.rx_size = chosen(rx.size, fitted.rx_size);
        fitted.iov[1] = chosen(rx.iov_limit, fitted.iov[1]);
        fitted.rx_op_flags = rx.op_flags;
    }
    if let Some(ep) = &wanted.ep {
        fitted.max_msg_size = chosen(ep.max_msg_size, fitted.max_msg_size);
    }
    if let Some(domain) = &wanted.domain_attr {
        fitted.tclass[1] = domain.tclass;
        if domain.threading != b::FI_THREAD_UNSPEC {
            fitted.threading = domain.threading;
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::super::profile::Flavor;
    use super::*;
    use crate::config::Config;
    use crate::generation::Generation;

    const LOCAL: c_int = c::FI_MR_LOCAL;
    const MODERN: c_int = c::FI_MR_VIRT_ADDR | c::FI_MR_ALLOCATED | c::FI_MR_PROV_KEY;

    fn profile(flavor: Flavor) -> Profile {
        let generation = Generation::parse("2.5").expect("a version");
        let config = Config::from_environment().expect("a good environment");
        Profile::new(flavor, generation, &config)
    }

    fn wanted(caps: u64, mode: u64, mr_mode: c_int) -> Wanted {
        Wanted {
            caps,
            mode,
            domain_attr: Some(b::fi_domain_attr {
                mr_mode,
                ..Default::default()
            }),
            ..Wanted::default()
        }
    }

    #[test]
    fn direct_needs_contexts_and_local_registration() {
        let direct = profile(Flavor::Direct);
        let caps = c::FI_MSG | c::FI_RMA;
        let full = wanted(caps, c::FI_CONTEXT2, MODERN | LOCAL);
        let fitted = fit(&direct, Some(&full)).expect("it fits");
        assert_eq!(fitted.mr_mode, MODERN | LOCAL);
        assert_eq!(fitted.mode, c::FI_CONTEXT2);
        assert_eq!(fitted.caps & RMA_MODIFIERS, RMA_MODIFIERS);
        assert_eq!(fitted.caps & c::FI_HMEM, 0);
        assert_eq!(fit(&direct, Some(&wanted(caps, 0, MODERN | LOCAL))), None);
        let unregistered = wanted(caps, c::FI_CONTEXT2, MODERN);
        assert_eq!(fit(&direct, Some(&unregistered)), None);
    }

    #[test]
    fn who_names_nothing_is_shown_all_but_device_memory() {
        let direct = profile(Flavor::Direct);
        let rdm = profile(Flavor::Rdm);
        let shown = fit(&rdm, None).expect("anything");
        assert_eq!(shown.caps, rdm.caps & !c::FI_HMEM);
        assert_eq!(shown.mr_mode, MODERN);
        let agreed = MODERN | LOCAL | c::FI_MR_HMEM;
        let any = wanted(0, c::FI_CONTEXT2, agreed);
        for (profile, modes) in [(rdm, MODERN), (direct, MODERN | LOCAL)] {
            let fitted = fit(&profile, Some(&any)).expect("anything");
            assert_eq!(fitted.caps, profile.caps & !c::FI_HMEM);
            assert_eq!(fitted.mr_mode, modes);
        }
        let asked = wanted(c::FI_MSG | c::FI_HMEM, 0, agreed);
        let fitted = fit(&rdm, Some(&asked)).expect("it has device memory");
        assert_ne!(fitted.caps & c::FI_HMEM, 0);
        // Where there is none, nobody gets any.
        let poor = Profile {
            caps: rdm.caps & !c::FI_HMEM,
            ..rdm
        };
        assert_eq!(fit(&poor, Some(&asked)), None);
    }

    #[test]
    fn registration_by_its_old_names() {
        let rdm = profile(Flavor::Rdm);
        let modes = |mr_mode| fit(&rdm, Some(&wanted(c::FI_RMA, 0, mr_mode))).map(|f| f.mr_mode);
        assert_eq!(modes(BASIC), Some(BASIC));
        assert_eq!(modes(SCALABLE), None);
        assert_eq!(modes(0), None);
        assert_eq!(modes(MODERN), Some(MODERN));
        assert_eq!(modes(MODERN | LOCAL), Some(MODERN));
        // Who has no peers that access memory needs no keys.
        let messages = fit(&rdm, Some(&wanted(c::FI_MSG, 0, 0)));
        assert_eq!(messages.map(|fitted| fitted.mr_mode), Some(0));
    }

    #[test]
    fn attributes_that_are_not_given_ask_for_nothing() {
        for (flavor, needed) in [(Flavor::Rdm, MODERN), (Flavor::Direct, MODERN | LOCAL)] {
            let bare = Wanted {
                caps: c::FI_MSG | c::FI_RMA,
                mode: c::FI_CONTEXT2,
                ..Wanted::default()
            };
            let fitted = fit(&profile(flavor), Some(&bare));
            assert_eq!(fitted.map(|fitted| fitted.mr_mode), Some(needed));
        }
    }

    #[test]
    fn more_than_there_is() {
        let rdm = profile(Flavor::Rdm);
        let good = wanted(c::FI_MSG, 0, MODERN);
        assert!(fit(&rdm, Some(&good)).is_some());
        for bad in [
            wanted(c::FI_MSG | c::FI_ATOMIC, 0, MODERN),
            wanted(c::FI_RMA | c::FI_RMA_EVENT, 0, MODERN),
            Wanted {
                addr_format: c::FI_SOCKADDR_IN,
                ..good.clone()
            },
            Wanted {
                tx: Some(b::fi_tx_attr {
                    inject_size: 1 << 20,
                    ..Default::default()
                }),
                ..good.clone()
            },
            Wanted {
                ep: Some(b::fi_ep_attr {
                    type_: b::FI_EP_MSG,
                    ..Default::default()
                }),
                ..good.clone()
            },
            Wanted {
                fabric: Some(c"efa-direct".to_owned()),
                ..good.clone()
            },
        ] {
            assert_eq!(fit(&rdm, Some(&bad)), None, "{bad:?}");
        }
        let mut eight = good;
        if let Some(domain) = &mut eight.domain_attr {
            domain.cq_data_size = 8;
        }
        assert_eq!(fit(&rdm, Some(&eight)), None);
    }
}
