//! One line of the output, as text and as JSON.

use core::fmt::{self, Write as _};
use serde_json::{Map, Value};

/// A value of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Number(u64),
    Signed(i64),
    Hex(u64),
    Text(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Hex(number) => write!(f, "{number:#x}"),
            Self::Text(text) if text.is_empty() || text.contains(' ') => {
                write!(f, "\"{}\"", printable(text))
            }
            Self::Text(text) => f.write_str(&printable(text)),
        }
    }
}

impl From<Field> for Value {
    fn from(field: Field) -> Self {
        match field {
            Field::Number(number) => number.into(),
            Field::Signed(number) => number.into(),
            // Beyond the 53 bits that readers of JSON can be sure of.
            Field::Hex(_) => field.to_string().into(),
            Field::Text(text) => text.into(),
        }
    }
}

/// What happened: a verb and its values, in the order they are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct What {
    /// `>` given to the provider, `.` completed, `<` arrived, `!` failed, `-` something else.
    pub(super) sign: char,
    pub(super) verb: &'static str,
    pub(super) fields: Vec<(&'static str, Field)>,
}

impl What {
    pub(super) const fn new(sign: char, verb: &'static str) -> Self {
        Self {
            sign,
            verb,
            fields: Vec::new(),
        }
    }

    pub(super) fn number(self, name: &'static str, value: u64) -> Self {
        self.field(name, Field::Number(value))
    }

    pub(super) fn hex(self, name: &'static str, value: u64) -> Self {
        self.field(name, Field::Hex(value))
    }

    pub(super) fn text(self, name: &'static str, value: impl Into<String>) -> Self {
        self.field(name, Field::Text(value.into()))
    }

    pub(super) fn field(mut self, name: &'static str, value: Field) -> Self {
        self.fields.push((name, value));
        self
    }
}

/// A line: who, where, when, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Nanoseconds since 1970.
    pub(super) at_ns: u64,
    /// `host:pid`.
    pub(super) who: String,
    pub(super) domain: u16,
    /// `data0`, `ctl1`; `None` for what concerns the whole domain.
    pub(super) lane: Option<String>,
    pub(super) what: What,
}

impl Line {
    /// With the time since `zero_ns`, in seconds.
    pub(super) fn text(&self, zero_ns: u64) -> String {
        let since = self.at_ns.saturating_sub(zero_ns);
        let (seconds, micros) = (since / 1_000_000_000, since % 1_000_000_000 / 1000);
        let lane = self.lane.as_deref().unwrap_or("-");
        let What { sign, verb, fields } = &self.what;
        let mut text = format!(
            "{seconds:>4}.{micros:06} {} d{} {lane:<5} {sign} {verb:<10}",
            printable(&self.who),
            self.domain,
        );
        for (name, value) in fields {
            // Writing to a String does not fail.
            let _ok: bool = write!(text, " {name}={value}").is_ok();
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// One object.
    pub(super) fn json(self) -> Value {
        let mut object = Map::new();
        object.insert("unix_ns".to_owned(), self.at_ns.into());
        object.insert("who".to_owned(), self.who.into());
        object.insert("domain".to_owned(), self.domain.into());
        object.insert(
            "lane".to_owned(),
            self.lane.map_or(Value::Null, Value::from),
        );
        object.insert("what".to_owned(), self.what.verb.into());
        for (name, value) in self.what.fields {
            object.insert(name.to_owned(), value.into());
        }
        object.into()
    }
}

/// The text with everything a terminal would act on spelled out.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            at_ns: 5_001_234_567,
            who: "n1:7".to_owned(),
            domain: 0,
            lane: Some("data1".to_owned()),
            what: What::new('>', "write")
                .number("bytes", 4096)
                .hex("key", u64::MAX)
                .text("peer", "a b\u{1b}"),
        }
    }

    #[test]
    fn a_line_as_people_read_it() {
        assert_eq!(
            line().text(4_000_000_000),
            "   1.001234 n1:7 d0 data1 > write      bytes=4096 key=0xffffffffffffffff peer=\"a b\\u{1b}\""
        );
    }

    #[test]
    fn a_line_as_machines_read_it() {
        let wanted = serde_json::json!({
            "unix_ns": 5_001_234_567_u64, "who": "n1:7", "domain": 0, "lane": "data1", "what": "write",
            "bytes": 4096, "key": "0xffffffffffffffff", "peer": "a b\u{1b}",
        });
        assert_eq!(line().json(), wanted);
    }
}
