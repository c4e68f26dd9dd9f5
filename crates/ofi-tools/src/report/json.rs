//! `--json`: one object, for machines. Its fields are described in the README.

use serde::Serialize;

use super::row::{Row, Summary};
use crate::bench::plan::Plan;
use crate::coord::hub::{Outcome, Verdict};

/// Raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    tool: &'static str,
    version: &'static str,
    ok: bool,
    /// `ok`, `failed` or `stuck`.
    verdict: &'static str,
    error: Option<&'a str>,
    plan: &'a Plan,
    rows: &'a [Row],
    verified: Verified,
    ranks: &'a [Option<Summary>],
}

#[derive(Debug, Serialize)]
struct Verified {
    messages: u64,
    bytes: u64,
}

/// Messages and bytes that all ranks have verified.
pub(crate) fn verified(outcome: &Outcome) -> (u64, u64) {
    let known = outcome.summaries.iter().flatten();
    known.fold((0, 0), |(m, b), s| {
        (m + s.verified_messages, b + s.verified_bytes)
    })
}

/// The object as text.
pub(crate) fn text(plan: &Plan, outcome: &Outcome) -> serde_json::Result<String> {
    let (messages, bytes) = verified(outcome);
    let (verdict, error) = match &outcome.verdict {
        Verdict::Good => ("ok", None),
        Verdict::Failed(why) => ("failed", Some(why.as_str())),
        Verdict::Stuck(why) => ("stuck", Some(why.as_str())),
    };
    let document = Document {
        schema: SCHEMA,
        tool: "ofi perf",
        version: env!("CARGO_PKG_VERSION"),
        ok: error.is_none(),
        verdict,
        error,
        plan,
        rows: &outcome.rows,
        verified: Verified { messages, bytes },
        ranks: &outcome.summaries,
    };
    serde_json::to_string_pretty(&document)
}
