#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | what goes wrong, and when: from one seed and a small script |
//! | [`shape`] | NICs of real instances |
//! | [`stats`] | what happened, for tests to read |
//! | [`alive`] | whether a process still runs |
//! | `config`, `generation` | the environment; which libfabric's EFA is played |
//! | `attrs` | what the NICs say of themselves, and which fit |
//! | `mem` | what processes share |
//! | `engine` | objects, operations, progress |
//! | `fi` | the C edge |

#![expect(
    clippy::doc_markdown,
    reason = "names of man pages and C constants are plain text here"
)]

pub mod alive;
mod attrs;
mod config;
mod engine;
mod fi;
mod generation;
mod mem;
pub mod plan;
pub mod shape;
pub mod stats;

/// Whether a text names a libfabric whose EFA can be played (`EFA_EMU_GENERATION`).
///
/// # Errors
/// A text that has the ones there are.
pub fn check_generation(text: &str) -> Result<(), String> {
    generation::Generation::parse(text).map(|_| ())
}

/// Removes what killed processes of this user left in a directory of shared segments (`EFA_EMU_DIR`), as
/// each start of the provider does. Costs some 20 us a segment.
pub fn sweep(segments: &std::path::Path) {
    mem::mapping::remove_stale(segments);
}
