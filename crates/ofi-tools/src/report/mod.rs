//! What people and machines see of a run.

pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod out;
pub(crate) mod progress;
pub(crate) mod row;
pub(crate) mod svg;
pub(crate) mod table;
