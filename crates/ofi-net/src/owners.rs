//! Whose the domains of a device are: the process's, or each a thread's; and for which traffic class.
//!
//! One domain for the process, or one for each thread that listens or connects
//! (`OFI_NCCL_DOMAIN_PER_THREAD`, protocol 2d.1). A thread's domain outlives the thread as long as it
//! has communicators, which any thread may use; then it is handed to the next thread that needs
//! one. So there are never more than the most threads that had communicators at one time.
//!
//! An endpoint has one traffic class from when it is made (`fi_endpoint(3)`, `tx_attr.tclass`), so what
//! is sent with another class goes over another domain. A class is a wish: where no domain can be
//! opened with it, the one without serves instead.

use crate::config::Config;
use crate::error::{Code, NetError};
use crate::registry::{Registry, Seat, Seated};
use crate::thread::ThreadId;
use crate::traffic::TrafficClass;
use std::sync::{Mutex, PoisonError};

/// Who finds a domain at listen and connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Every thread.
    Process,
    /// One thread.
    Thread(ThreadId),
}

impl Owner {
    /// Whoever calls.
    pub(crate) fn of_call(config: &Config) -> Self {
        if config.is_domain_per_thread() {
            Self::Thread(ThreadId::current())
        } else {
            Self::Process
        }
    }
}

/// A domain, whose it is and what for.
#[derive(Debug)]
struct Owned {
    owner: Owner,
    class: Option<TrafficClass>,
    /// Number of the domain in the registry.
    number: usize,
}

/// The domains of one device.
#[derive(Debug)]
pub(crate) struct Owners {
    device: usize,
    /// Held while one is opened, so that one thread opens and the others wait for it.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    owned: Vec<Owned>,
    /// Classes that no domain could be opened with.
    refused: Vec<TrafficClass>,
}

/// Who wants a domain, and for what.
type Wanted = (Owner, Option<TrafficClass>);

impl Owners {
    /// None yet, of the device with that index.
    pub(crate) const fn new(device: usize) -> Self {
        Self {
            device,
            state: Mutex::new(State {
                owned: Vec::new(),
                refused: Vec::new(),
            }),
        }
    }

    /// The domain of an owner for a traffic class: its own, one that nobody owns any more, or what
    /// `open` makes, which is told how many there are beside it and the class. `refused` hears of a
    /// class that is not had: for good, or while descriptors or memory are short.
    ///
    /// # Errors
    /// What `open` says without a class, or the transport has no room for more domains; the next call
    /// tries again.
    pub(crate) fn domain<'a, D: Seated>(
        &self,
        (owner, class): Wanted,
        registry: &'a Registry<D>,
        open: impl Fn(usize, Option<TrafficClass>) -> Result<D, NetError>,
        refused: impl FnOnce(TrafficClass, &NetError),
    ) -> Result<&'a Seat<D>, NetError> {
        // Nothing is left half done by a panic inside: an entry is made at the end.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { owned, refused: no } = &mut *state;
        let mut get = |class| {
            if let Some(seat) = find(owned, (owner, class), registry) {
                return Ok(seat);
            }
            let seat = registry.add(self.device, || open(owned.len(), class))?;
            owned.push(Owned {
                owner,
                class,
                number: seat.number(),
            });
            Ok(seat)
        };
        match class.filter(|class| !no.contains(class)) {
            None => get(None),
            Some(class) => get(Some(class)).or_else(|error| {
                let seat = get(None)?;
                if !is_shortage(&error) {
                    no.push(class);
                }
                refused(class, &error);
                Ok(seat)
            }),
        }
    }
}

/// Whether there may be room another time, so that the class is worth another try.
fn is_shortage(error: &NetError) -> bool {
    const SHORT: [i32; 6] = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOSPC,
        libc::EAGAIN,
        libc::EBUSY,
    ];
    error.code() == Code::OutOfDomains || SHORT.contains(&error.errno().abs())
}

/// The domain of an owner for a class, or one to inherit.
fn find<'a, D: Seated>(
    owned: &mut [Owned],
    wanted: Wanted,
    registry: &'a Registry<D>,
) -> Option<&'a Seat<D>> {
    let own = (owned.iter()).find(|owned| (owned.owner, owned.class) == wanted);
    let number = match own {
        Some(own) => own.number,
        None => inherit(owned, wanted, registry)?,
    };
    registry.get(number)
}

/// Gives `owner` a domain of that class whose thread has ended and that has no communicators left.
fn inherit<D: Seated>(
    owned: &mut [Owned],
    (owner, class): Wanted,
    registry: &Registry<D>,
) -> Option<usize> {
    let left = owned.iter_mut().find(|owned| match owned.owner {
        Owner::Thread(thread) if owned.class == class => {
            let seat = registry.get(owned.number);
            thread.is_gone() && seat.is_some_and(|seat| seat.domain.is_unused())
        }
        _ => false,
    })?;
    left.owner = owner;
    Some(left.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A domain that knows its class.
    #[derive(Debug)]
    struct Classed(Option<TrafficClass>);

    impl Seated for Classed {
        fn is_unused(&self) -> bool {
            true
        }

        fn glance_at(&self) {}

        fn state(&self) -> crate::dump::Domain {
            crate::dump::Domain::default()
        }

        fn shut_down(self, _bound_ms: u64) {}
    }

    #[test]
    fn each_class_has_a_domain_and_one_that_cannot_be_had_shares_that_without() {
        let (owners, registry) = (Owners::new(0), Registry::<Classed>::new(&Arc::default()));
        let class = |number| Some(TrafficClass::new(number).unwrap());
        let no = class(8);
        let mut said = Vec::new();
        let mut domain = |wanted| {
            let open = |_, class: Option<TrafficClass>| match class == no && class.is_some() {
                true => Err(NetError::new(Code::DeviceOpen, "on purpose")),
                false => Ok(Classed(class)),
            };
            let refused = |class, _: &NetError| said.push(class);
            let seat = owners.domain((Owner::Process, wanted), &registry, open, refused);
            let seat = seat.unwrap();
            assert!(seat.domain.0 == wanted || (wanted == no && seat.domain.0.is_none()));
            seat.number()
        };
        assert_eq!([None, class(184), None].map(&mut domain), [0, 1, 0]);
        assert_eq!(
            [no, class(16), no, class(184)].map(&mut domain),
            [0, 2, 0, 1]
        );
        assert_eq!(said, no.into_iter().collect::<Vec<_>>(), "once");
    }

    #[test]
    fn a_class_for_which_there_is_no_room_now_is_tried_again() {
        let (owners, registry) = (Owners::new(0), Registry::<Classed>::new(&Arc::default()));
        let class = Some(TrafficClass::new(184).unwrap());
        let mut said = 0;
        let mut domain = |is_short: bool| {
            let open = |_, class: Option<TrafficClass>| match is_short && class.is_some() {
                true => Err(NetError::new(Code::DeviceOpen, "short").with_errno(libc::EMFILE)),
                false => Ok(Classed(class)),
            };
            let refused = |_, _: &NetError| said += 1;
            let seat = owners.domain((Owner::Process, class), &registry, open, refused);
            seat.unwrap().domain.0
        };
        assert_eq!(
            [true, true, false, true].map(&mut domain),
            [None, None, class, class]
        );
        assert_eq!(said, 2);
    }

    #[test]
    fn without_any_domain_a_class_is_not_given_up() {
        let (owners, registry) = (Owners::new(0), Registry::<Classed>::new(&Arc::default()));
        let class = Some(TrafficClass::new(184).unwrap());
        let wanted = (Owner::Process, class);
        let down =
            |_, _| -> Result<Classed, NetError> { Err(NetError::new(Code::DeviceOpen, "down")) };
        let failed = owners.domain(wanted, &registry, down, |_, _| {
            unreachable!("not its fault")
        });
        assert_eq!(failed.unwrap_err().code(), Code::DeviceOpen);
        let up = |_, class| Ok(Classed(class));
        let seat = owners.domain(wanted, &registry, up, |_, _| unreachable!("it is there"));
        assert_eq!(seat.unwrap().domain.0, class);
    }
}
