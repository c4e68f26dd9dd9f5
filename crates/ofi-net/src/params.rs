//! Parameters: one table of names, types, defaults, ranges and meanings (protocol 2i, decision 20),
//! and a pure parser over (name, value) pairs. The environment is read by the C edge, not here.
//!
//! A value that cannot be used is one warning and the default; a name that looks like ours and is not
//! is one warning with the nearest name; nothing is read twice, nothing is fatal here. What values mean
//! together is [`crate::config`]'s.

use core::fmt;
use std::collections::HashSet;

pub use suggest::distance;
pub use table::{Id, Kind, Param, Status, TABLE};

use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};

mod number;
mod suggest;
mod table;

/// Which plugin asks: some defaults differ (protocol 2i, "Neuron 1").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// libnccom-net.so.
    Neuron,
    /// libnccl-net-ofi.so.
    Nccl,
}

/// Something to tell the user about the parameters, once; it stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something to correct.
    Warning(NetError),
    /// Something to know: one line.
    Info(String),
}

impl Note {
    pub(crate) fn coded(code: Code, what: String) -> Self {
        Self::Warning(NetError::new(code, what))
    }

    /// Writes it.
    pub fn tell(self, log: &dyn Log) {
        match self {
            Self::Warning(error) => log::warn(log, Subsys::Env, || error),
            Self::Info(text) => log::info(log, Subsys::Env, || text),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(error) => error.fmt(f),
            Self::Info(text) => f.write_str(text),
        }
    }
}

/// Values after parsing: what the user set and is usable, else the defaults of the flavour.
#[derive(Clone, Debug)]
pub struct Values {
    flavour: Flavour,
    set: Vec<Option<Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(i64),
    Text(String),
}

impl Values {
    /// The defaults of `flavour`.
    #[must_use]
    pub fn defaults(flavour: Flavour) -> Self {
        Self {
            flavour,
            set: vec![None; TABLE.len()],
        }
    }

    /// Whose defaults these are.
    #[must_use]
    pub const fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// A flag or number; 0 for a text.
    #[must_use]
    pub fn number(&self, id: Id) -> i64 {
        match self.get(id) {
            Some(Value::Number(n)) => *n,
            _ => id.param().default_number(self.flavour),
        }
    }

    /// A flag: any number but 0 is true.
    #[must_use]
    pub fn flag(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// A text or choice: what was set, else the default, else `None`.
    #[must_use]
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Some(Value::Text(text)) => Some(text),
            _ => id.param().default_text(),
        }
    }

    /// Whether the user set it to something usable.
    #[must_use]
    pub fn is_set(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    fn get(&self, id: Id) -> Option<&Value> {
        self.set.get(id.index()).and_then(Option::as_ref)
    }
}

/// Reads the pairs that concern us and passes over all others. Of a name that comes twice the first
/// counts, as for getenv(3).
pub fn parse<N, V>(flavour: Flavour, pairs: impl IntoIterator<Item = (N, V)>) -> (Values, Vec<Note>)
where
    N: AsRef<str>,
    V: AsRef<str>,
{
    let mut parser = Parser {
        values: Values::defaults(flavour),
        notes: Vec::new(),
    };
    let mut seen = HashSet::new();
    // Aliases last: the name of the table wins over its alias in whatever order they come.
    let (mut aliases, mut others) = (Vec::new(), Vec::new());
    for (name, value) in pairs {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !seen.insert(name.to_owned()) {
            continue;
        }
        match table::find(name) {
            Some(param) if param.name == name => parser.take(param, name, value),
            Some(param) => aliases.push((param, name.to_owned(), value.to_owned())),
            None if is_ours(name) => others.push(name.to_owned()),
            None => {}
        }
    }
    for (param, name, value) in aliases {
        parser.take_alias(param, &name, &value);
    }
    others.sort();
    parser
        .notes
        .extend(others.iter().map(|name| suggest::unknown(name)));
    (parser.values, parser.notes)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("OFI_NCCL_") || name.starts_with("NCCL_OFI_")
}

struct Parser {
    values: Values,
    notes: Vec<Note>,
}

impl Parser {
    fn take_alias(&mut self, param: &'static Param, name: &str, value: &str) {
        // Of two texts an empty one is none: a launcher that clears a variable so means the other.
        let is_empty = value.trim().is_empty();
        let is_named = match self.values.get(param.id) {
            Some(Value::Text(text)) => is_empty || !text.trim().is_empty(),
            Some(Value::Number(_)) => true,
            None => false,
        };
        if is_named && !is_empty {
            let text = format!("{name} and {} are both set; the second counts", param.name);
            self.notes.push(Note::coded(Code::InvalidValue, text));
        } else if !is_named {
            self.take(param, name, value);
        }
    }

    fn take(&mut self, param: &'static Param, name: &str, value: &str) {
        // BASE ignores an empty number; an empty text is a value (EXCLUDE_TCP_IF= excludes nothing).
        if value.trim().is_empty() && param.kind != Kind::Text {
            return;
        }
        match read(param, value) {
            Ok(value) => {
                self.tell_of_effect(param, name, &value);
                if let Some(slot) = self.values.set.get_mut(param.id.index()) {
                    *slot = Some(value);
                }
            }
            Err(why) => {
                let shown = shorten(value);
                let default = param.default_display(self.values.flavour);
                let text = format!("{name}={shown}: {why}; using the default, {default}");
                self.notes.push(Note::coded(Code::InvalidValue, text));
            }
        }
    }

    fn tell_of_effect(&mut self, param: &Param, name: &str, value: &Value) {
        let default = match value {
            Value::Number(n) => *n == param.default_number(self.values.flavour),
            Value::Text(text) => Some(text.as_str()) == param.default_text(),
        };
        let Status::NoEffect(why) = param.status else {
            return;
        };
        if default {
            return;
        }
        let text = format!("{name} is set and has no effect: {why}");
        self.notes.push(Note::Info(text));
    }
}

fn read(param: &Param, value: &str) -> Result<Value, String> {
    match param.kind {
        Kind::Text => Ok(Value::Text(value.to_owned())),
        Kind::Flag => number::flag(value).map(Value::Number),
        Kind::Number { min, max } => number::ranged(value, min, max).map(Value::Number),
        Kind::Choice(words) => words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(value.trim()))
            .map(|word| Value::Text((*word).to_owned()))
            .ok_or_else(|| format!("it is one of {}", words.join(", "))),
    }
}

/// A value as it is shown in a line of the log: bounded, without control characters.
pub(crate) fn shorten(value: &str) -> String {
    const SHOWN: usize = 48;
    let mut shown: String = value.chars().take(SHOWN).map(printable).collect();
    if value.chars().count() > SHOWN {
        shown.push_str("..");
    }
    format!("\"{shown}\"")
}

fn printable(c: char) -> char {
    if c.is_control() { '?' } else { c }
}

#[cfg(test)]
mod tests;
