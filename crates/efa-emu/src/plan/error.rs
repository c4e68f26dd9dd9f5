//! What is wrong with a plan, said so that it can be found and put right.

/// A plan that cannot be read: nothing of it is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plan, line {line}: \"{word}\": {what}\n  try: {help}")]
pub struct PlanError {
    /// The line, from 1. A rule behind a `;` is on the line it is written on.
    pub line: usize,
    /// The word that could not be read, as it is written.
    pub word: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be written instead.
    pub help: String,
}
