//! Every interleaving of a small configuration: depth first, each state once.
//!
//! A state is both engines, the network and both callers (`State`); it is cloned at each
//! branch, so no run is repeated. Where the random simulator draws one order of events, all orders are
//! visited here: any operation lands or completes next, either caller calls next, whatever a budget
//! allows goes wrong next. What has to be true is looked at after each move, and at each end.
//!
//! Map: `scene` and `scenes` (what is explored), `net` and `port` (the network), `state` (everything), `moves` (what
//! may happen), `effect` (what it does to memory), `hasher`; `search`.

mod effect;
mod hasher;
mod moves;
mod net;
mod port;
mod scene;
mod scenes;
mod search;
mod state;

pub use scene::{Pair, Scene};
pub use scenes::{Effort, Named, SCENES};
pub use search::{Counterexample, Explored, explore};
