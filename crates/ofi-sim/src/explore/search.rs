//! The search: depth first, each state once, with the way to the first thing that is wrong.

use core::fmt;
use core::hash::{BuildHasher, Hasher};
use std::collections::HashSet;

use ofi_rdma::{ConfigError, Dialect, Tiny};

use super::moves::Move;
use super::net::{RECV, SEND};
use super::scene::{Pair, Scene};
use super::scenes::Named;
use super::state::{Phase, State};

/// Times that all bounds may pass in one run: connecting, a message, and closing can each need one.
const WAITS_MAX: u8 = 3;

/// What an exploration saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// States that differ.
    pub states: u64,
    /// Moves made: what may happen in each state, all of it.
    pub moves: u64,
    /// States in which everything is over.
    pub ends: u64,
    /// States in which nothing could happen but that time passes.
    pub waits: u64,
    /// Most moves from the beginning to an end, on the ways that were taken.
    pub depth: usize,
    /// Not all was visited: the bound on states was reached.
    pub cut_short: bool,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            moves,
            ends,
            waits,
            depth,
            cut_short,
        } = self;
        let all = if *cut_short { ", CUT SHORT" } else { "" };
        write!(
            f,
            "{states} states, {moves} moves, {ends} ends, {waits} waits, {depth} deep{all}"
        )
    }
}

/// A way to something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is wrong.
    pub what: String,
    /// The moves that lead there, from the beginning.
    pub moves: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; after {} moves:", self.what, self.moves.len())?;
        self.moves
            .iter()
            .try_for_each(|step| write!(f, "\n  {step}"))
    }
}

/// Visits every interleaving of a scene, up to `states_max` states.
///
/// Costs: about 10 us a move in a release build, and 40 KiB for each move of the longest way. States are
/// told apart by 64 bits, so that one in 10^7 explorations of a million states may miss one.
///
/// # Errors
/// A scene that no engine can be made for; inside, a way to the first thing that is wrong.
///
/// # Examples
/// ```
/// use ofi_sim::explore::{Pair, Scene, explore};
///
/// let seen = explore::<Pair>(&Scene::PLAIN, 1 << 20)?.expect("nothing goes wrong");
/// assert!(seen.states > 100 && !seen.cut_short, "{seen}");
/// # Ok::<(), ofi_rdma::ConfigError>(())
/// ```
pub fn explore<D: Dialect>(
    scene: &Scene,
    states_max: u64,
) -> Result<Result<Explored, Counterexample>, ConfigError> {
    let first = State::<D>::new(scene)?;
    let mut search = Search {
        scene,
        states_max,
        seen: HashSet::default(),
        explored: Explored::default(),
        way: Vec::new(),
    };
    let first = match search.connected(first) {
        Ok(first) => first,
        Err(what) => return Ok(Err(search.counterexample(what))),
    };
    Ok(match search.run(first) {
        Ok(()) => Ok(search.explored),
        Err(what) => Err(search.counterexample(what)),
    })
}

impl Named {
    /// Explores the scene in its dialect.
    ///
    /// # Errors
    /// See [`explore`].
    pub fn explore(
        &self,
        states_max: u64,
    ) -> Result<Result<Explored, Counterexample>, ConfigError> {
        if self.tiny {
            explore::<Tiny>(&self.scene, states_max)
        } else {
            explore::<Pair>(&self.scene, states_max)
        }
    }
}

/// Digests are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl BuildHasher for AsIs {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        *self
    }
}

struct Search<'a> {
    scene: &'a Scene,
    states_max: u64,
    seen: HashSet<u64, AsIs>,
    explored: Explored,
    way: Vec<Move>,
}

/// A state whose branches are not all taken.
struct Branch<D: Dialect> {
    state: State<D>,
    digest: u64,
    moves: Vec<Move>,
    next: usize,
    /// Whether any move that is owed led elsewhere.
    advanced: bool,
}

/// Whether a caller was told nothing although all bounds have passed. Who accepts may wait: nobody may
/// have connected.
fn waits_for_ever<D: Dialect>(state: &State<D>, side: usize) -> bool {
    let caller = &state.sides[side];
    let waits = match caller.phase {
        Phase::Open => !caller.pending.is_empty(),
        Phase::Opening => side == SEND,
        Phase::Idle | Phase::Closed => false,
    };
    waits && !caller.failed
}

impl Search<'_> {
    /// Where the exploration begins: with a connection, if the scene begins so.
    fn connected<D: Dialect>(&mut self, mut state: State<D>) -> Result<State<D>, String> {
        let is_open = |state: &State<D>| state.sides.iter().all(|side| side.phase == Phase::Open);
        while self.scene.connected && !(is_open(&state) && state.net.flights.is_empty()) {
            let (step, next) = self.toward_connection(&state).ok_or("no connection")?;
            self.way.push(step);
            state = next;
            if let Some(what) = state.net.wrong.take() {
                return Err(what);
            }
        }
        Ok(state)
    }

    /// A step of connecting that leads elsewhere.
    fn toward_connection<D: Dialect>(&self, state: &State<D>) -> Option<(Move, State<D>)> {
        let mut moves = Vec::new();
        state.moves(self.scene, &mut moves);
        let setup = |step: &Move| {
            matches!(
                step,
                Move::Connect | Move::Land(_) | Move::Complete(_) | Move::Poll(_)
            )
        };
        let mut steps = moves.into_iter().filter(setup);
        steps.find_map(|step| {
            let mut next = state.clone();
            next.apply(self.scene, step);
            (next.digest() != state.digest()).then_some((step, next))
        })
    }

    fn run<D: Dialect>(&mut self, first: State<D>) -> Result<(), String> {
        let begun = self.way.len();
        let mut stack: Vec<_> = self.enter(first).into_iter().collect();
        while let Some(branch) = stack.last_mut() {
            let Some(&step) = branch.moves.get(branch.next) else {
                if self.leave(branch)? {
                    stack.pop();
                }
                continue;
            };
            branch.next += 1;
            let mut state = branch.state.clone();
            state.apply(self.scene, step);
            self.explored.moves += 1;
            branch.advanced |= step.is_owed(&branch.state) && state.digest() != branch.digest;
            self.way.truncate(begun + stack.len() - 1);
            self.way.push(step);
            if let Some(what) = state.net.wrong.take() {
                return Err(what);
            }
            stack.extend(self.enter(state));
        }
        Ok(())
    }

    /// A state that was not seen before, with all that may happen in it.
    fn enter<D: Dialect>(&mut self, state: State<D>) -> Option<Branch<D>> {
        let digest = state.digest();
        if self.explored.states >= self.states_max {
            self.explored.cut_short = true;
            return None;
        }
        if !self.seen.insert(digest) {
            return None;
        }
        self.explored.states += 1;
        self.explored.depth = self.explored.depth.max(self.way.len());
        let mut moves = Vec::new();
        state.moves(self.scene, &mut moves);
        Some(Branch {
            state,
            digest,
            moves,
            next: 0,
            advanced: false,
        })
    }

    /// All that may happen in a state was done. Where nothing led anywhere, it is an end, or time has to
    /// pass. True when nothing is left to do here.
    fn leave<D: Dialect>(&mut self, branch: &mut Branch<D>) -> Result<bool, String> {
        if branch.advanced {
            return Ok(true);
        }
        let state = &branch.state;
        let closed = |side: usize| state.sides[side].phase == Phase::Closed;
        let over = closed(SEND) && closed(RECV) && state.net.flights.is_empty();
        let end = state.judge_end(self.scene);
        if over && end.is_ok() {
            self.explored.ends += 1;
            return Ok(true);
        }
        if let Some(side) = [SEND, RECV]
            .into_iter()
            .find(|&side| state.waits > 0 && waits_for_ever(state, side))
        {
            return Err(format!("side {side} waits for ever"));
        }
        if !over && state.waits > 0 {
            // Only callers are left who may go on as they are: that they close was visited.
            return Ok(true);
        }
        if state.waits >= WAITS_MAX || !(state.net.tainted || over) {
            let left = end.err().unwrap_or_default();
            return Err(format!("nothing can happen any more: {left}"));
        }
        self.explored.waits += 1;
        branch.moves.push(Move::Wait);
        branch.advanced = true;
        Ok(false)
    }

    fn counterexample(&self, what: String) -> Counterexample {
        Counterexample {
            what,
            moves: self.way.iter().map(ToString::to_string).collect(),
        }
    }
}
