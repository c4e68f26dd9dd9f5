//! What the meddled provider is told to do, and what it saw.

use core::ffi::c_int;
use efa_fabric::consts::FI_KEY_NOTAVAIL;
use efa_fabric::sys::bindings as b;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// An error entry in place of a completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorEntry {
    /// The address of the operation's context; 0 for none.
    pub(crate) context: usize,
    pub(crate) errno: c_int,
    pub(crate) provider_errno: c_int,
}

/// What becomes of a completion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Pass,
    Fail { provider_errno: c_int },
}

/// Looks at a completion, changes it, or lets it fail.
type Tamper = Box<dyn FnMut(&mut b::fi_cq_data_entry) -> Fate + Send>;

/// One call that fails: the `nth` from 1 on, of those in this phase and of this name, if they are given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    pub(crate) phase: Option<&'static str>,
    pub(crate) name: Option<&'static str>,
    pub(crate) nth: u64,
    /// Positive.
    pub(crate) errno: c_int,
}

#[derive(Default)]
pub(crate) struct State {
    /// What is called where the scenario is now.
    pub(crate) phase: &'static str,
    /// Calls so far of each name in each phase, from the last [`State::strike`] on.
    seen: BTreeMap<(&'static str, &'static str), u64>,
    /// Calls among them that the strike is about.
    calls: u64,
    strike: Option<Strike>,
    /// The call that failed.
    pub(crate) failed: Option<&'static str>,
    /// The phase that it failed in.
    failed_in: &'static str,
    /// Objects of this class do not close.
    pub(crate) stuck: Option<&'static str>,
    /// What is open: address and class.
    open: BTreeMap<(usize, &'static str), ()>,
    /// What was closed without being open.
    pub(crate) wrong: Vec<String>,
    /// Answers "busy" before each post that the provider gets, on every endpoint.
    pub(crate) busy: u32,
    answered: HashMap<usize, u32>,
    /// What keys look like from outside.
    pub(crate) disguise: Option<fn(u64) -> u64>,
    keys: HashMap<u64, u64>,
    /// Regions have to be bound to an endpoint (`FI_MR_ENDPOINT`).
    pub(crate) binds: bool,
    /// Those that are not enabled yet: whether they are bound, and their keys.
    unready: HashMap<usize, (bool, u64)>,
    pub(crate) tamper: Option<Tamper>,
    /// Queues give entries of the format DATA, which can be tampered with.
    pub(crate) has_data_entries: bool,
    errors: Vec<(usize, ErrorEntry)>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Looks at the state, or changes it.
pub(crate) fn with<R>(look: impl FnOnce(&mut State) -> R) -> R {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    look(state.get_or_insert_default())
}

impl State {
    /// Lets the call with number `nth` fail, counted from 1 and from now; of those called `name`.
    pub(crate) fn arm(&mut self, nth: u64, errno: c_int, name: Option<&'static str>) {
        self.strike(Some(Strike {
            phase: None,
            name,
            nth,
            errno,
        }));
    }

    /// Lets one call fail, or none; counts from now on.
    pub(crate) fn strike(&mut self, strike: Option<Strike>) {
        self.seen.clear();
        (self.calls, self.strike, self.failed) = (0, strike, None);
    }

    /// The strike, for messages.
    pub(crate) fn told(&self) -> String {
        format!(
            "{:?} in {:?}, calls {:?}",
            self.failed, self.failed_in, self.calls
        )
    }

    /// What was to fail has failed, or will not any more; what did is still known.
    pub(crate) const fn strike_is_over(&mut self) {
        self.strike = None;
    }

    pub(crate) fn fails(&mut self, name: &'static str) -> Option<c_int> {
        *self.seen.entry((self.phase, name)).or_default() += 1;
        let strike = self.strike?;
        let is_meant = strike.phase.is_none_or(|phase| phase == self.phase)
            && strike.name.is_none_or(|wanted| wanted == name);
        if !is_meant {
            return None;
        }
        self.calls += 1;
        if strike.nth != self.calls {
            return None;
        }
        self.failed = Some(name);
        self.failed_in = self.phase;
        Some(strike.errno)
    }

    /// Calls since [`State::strike`]: phase, name, how many.
    pub(crate) fn seen(&self) -> Vec<(&'static str, &'static str, u64)> {
        let seen = self.seen.iter();
        seen.map(|(&(phase, name), &count)| (phase, name, count))
            .collect()
    }

    /// Calls since [`State::arm`] of the name that it was given.
    pub(crate) const fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn refuses(&self, class: &'static str) -> Option<c_int> {
        (self.stuck == Some(class)).then_some(libc::EBUSY)
    }

    pub(crate) fn opened(&mut self, class: &'static str, address: usize) {
        self.open.insert((address, class), ());
    }

    pub(crate) fn closed(&mut self, class: &'static str, address: usize) {
        if self.open.remove(&(address, class)).is_none() {
            self.wrong
                .push(format!("{class} at {address:#x} was not open"));
        }
    }

    /// The classes of what is open.
    pub(crate) fn left(&self) -> Vec<&'static str> {
        self.open.keys().map(|&(_, class)| class).collect()
    }

    /// What is open is left to itself: its classes.
    pub(crate) fn forget(&mut self) -> Vec<&'static str> {
        let left = self.left();
        self.open.clear();
        left
    }

    pub(crate) fn is_busy(&mut self, endpoint: usize) -> bool {
        let busy = self.busy;
        let answered = self.answered.entry(endpoint).or_default();
        if *answered >= busy {
            *answered = 0;
            return false;
        }
        *answered += 1;
        true
    }

    pub(crate) fn disguise(&mut self, real: u64) -> u64 {
        let Some(disguise) = self.disguise else {
            return real;
        };
        let shown = disguise(real);
        let other = self.keys.insert(shown, real);
        assert!(
            other.is_none_or(|other| other == real),
            "two keys that look alike"
        );
        shown
    }

    pub(crate) fn real_key(&self, shown: u64) -> u64 {
        self.keys.get(&shown).copied().unwrap_or(shown)
    }

    /// A new region with a key: what the key looks like so far.
    pub(crate) fn registered(&mut self, region: usize, real: u64) -> u64 {
        if self.binds {
            self.unready.insert(region, (false, real));
            return FI_KEY_NOTAVAIL;
        }
        self.disguise(real)
    }

    /// Regions that nobody may use yet.
    pub(crate) fn unbound(&self) -> usize {
        self.unready.len()
    }

    /// `fi_mr_bind`.
    pub(crate) fn bind(&mut self, region: usize) -> c_int {
        match self.unready.get_mut(&region) {
            Some((bound @ false, _)) => {
                *bound = true;
                0
            }
            _ => {
                self.wrong
                    .push(format!("region {region:#x} is bound again"));
                -libc::EINVAL
            }
        }
    }

    /// `fi_mr_enable`: the key that it has from now on.
    pub(crate) fn enable(&mut self, region: usize) -> Option<u64> {
        match self.unready.remove(&region) {
            Some((true, real)) => Some(self.disguise(real)),
            _ => {
                self.wrong.push(format!("region {region:#x} is not bound"));
                None
            }
        }
    }

    /// A region is closed that looks as if its key were `shown`: its real one.
    pub(crate) fn closing(&mut self, region: usize, shown: u64) -> u64 {
        match self.unready.remove(&region) {
            Some((_, real)) => real,
            None => self.real_key(shown),
        }
    }

    /// How many entries are left, moved to the front.
    pub(crate) fn tamper(&mut self, cq: usize, entries: &mut [b::fi_cq_data_entry]) -> usize {
        let Some(tamper) = &mut self.tamper else {
            return entries.len();
        };
        let mut left = 0;
        for at in 0..entries.len() {
            match tamper(&mut entries[at]) {
                Fate::Pass => {
                    entries[left] = entries[at];
                    left += 1;
                }
                Fate::Fail { provider_errno } => {
                    let context = entries[at].op_context.expose_provenance();
                    let errno = libc::EIO;
                    let error = ErrorEntry {
                        context,
                        errno,
                        provider_errno,
                    };
                    self.errors.push((cq, error));
                }
            }
        }
        left
    }

    /// Puts an error entry into every queue that is read next.
    pub(crate) fn plant(&mut self, cq: usize, error: ErrorEntry) {
        self.errors.push((cq, error));
    }

    /// The queues that are open.
    pub(crate) fn queues(&self) -> Vec<usize> {
        let cqs = self.open.keys().filter(|(_, class)| *class == "cq");
        cqs.map(|&(address, _)| address).collect()
    }

    pub(crate) fn has_error(&self, cq: usize) -> bool {
        self.errors.iter().any(|&(of, _)| of == cq)
    }

    pub(crate) fn take_error(&mut self, cq: usize) -> Option<ErrorEntry> {
        let at = self.errors.iter().position(|&(of, _)| of == cq)?;
        Some(self.errors.remove(at).1)
    }
}
