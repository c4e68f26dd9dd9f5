//! A finding, and a list of them in which causes come first and their consequences are left out.

use serde::Serialize;
use serde::ser::SerializeStruct as _;

use super::code::{Code, Severity};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: Code,
    /// What shows it, a line each.
    pub(crate) evidence: Vec<String>,
    /// What to do, where the table's words are not good enough.
    fix: Option<String>,
    /// Where it is known from, where the table's row is not what says so.
    source: Option<String>,
}

impl Finding {
    pub(crate) fn new(code: Code, evidence: impl IntoIterator<Item = String>) -> Self {
        Self {
            code,
            evidence: evidence.into_iter().map(|line| one_line(&line)).collect(),
            fix: None,
            source: None,
        }
    }

    /// The same with this remedy.
    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same, known from there.
    pub(crate) fn with_source(mut self, source: &str) -> Self {
        self.source = Some(source.to_owned());
        self
    }

    pub(crate) const fn severity(&self) -> Severity {
        self.code.row().severity
    }

    pub(crate) fn fix(&self) -> &str {
        self.fix.as_deref().unwrap_or_else(|| self.code.row().fix)
    }

    pub(crate) fn source(&self) -> &str {
        self.source
            .as_deref()
            .unwrap_or_else(|| self.code.row().source)
    }
}

/// Values come from files and environments of others: no control characters, no more than a line.
pub(crate) fn one_line(text: &str) -> String {
    const SHOWN: usize = 400;
    let shown = text.chars().take(SHOWN);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

impl Serialize for Finding {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Finding", 6)?;
        fields.serialize_field("code", &self.code.to_string())?;
        fields.serialize_field("severity", &self.severity())?;
        fields.serialize_field("title", self.code.row().title)?;
        fields.serialize_field("evidence", &self.evidence)?;
        fields.serialize_field("fix", self.fix())?;
        fields.serialize_field("source", self.source())?;
        fields.end()
    }
}

/// The findings of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Worst first, and among equals causes first.
    pub(crate) shown: Vec<Finding>,
    /// Codes that follow from those shown.
    pub(crate) hidden: Vec<Code>,
}

impl Findings {
    /// Puts them in order, and leaves out what follows from others.
    pub(crate) fn of(found: Vec<Finding>) -> Self {
        let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
        let follows = |code: Code| codes.iter().any(|cause| cause.row().hides.contains(&code));
        let (hidden, mut shown): (Vec<Finding>, Vec<Finding>) =
            found.into_iter().partition(|finding| follows(finding.code));
        shown.sort_by_key(|finding| (core::cmp::Reverse(finding.severity()), finding.code));
        let mut hidden: Vec<Code> = hidden.iter().map(|finding| finding.code).collect();
        hidden.sort();
        hidden.dedup();
        Self { shown, hidden }
    }

    pub(crate) fn worst(&self) -> Option<Severity> {
        self.shown.first().map(Finding::severity)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Finding, Findings, Severity};

    #[test]
    fn causes_come_first_and_consequences_not_at_all() {
        let found = [
            Code::UnknownVariable,
            Code::InitFailed,
            Code::NoDeviceNodes,
            Code::NoDriver,
            Code::MemlockLow,
        ];
        let found = found.map(|code| Finding::new(code, ["a\nb\u{1b}[1m".to_owned()]));
        let findings = Findings::of(found.to_vec());
        let shown: Vec<Code> = findings.shown.iter().map(|finding| finding.code).collect();
        assert_eq!(
            shown,
            [Code::NoDriver, Code::MemlockLow, Code::UnknownVariable]
        );
        assert_eq!(findings.hidden, [Code::NoDeviceNodes, Code::InitFailed]);
        assert_eq!(findings.worst(), Some(Severity::Error));
        assert_eq!(findings.shown[0].evidence, ["a?b?[1m"]);
    }

    #[test]
    fn machines_get_stable_fields() {
        let finding = Finding::new(Code::BadPair, [])
            .with_fix("update")
            .with_source("REG-05");
        let json = serde_json::to_value(finding).unwrap();
        assert_eq!(json["code"], "OFI-D601");
        assert_eq!(json["severity"], "error");
        assert_eq!(json["fix"], "update");
    }
}
