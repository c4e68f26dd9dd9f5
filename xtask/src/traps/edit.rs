//! A trap as it is written down: which lines to change, and which test must notice.
//!
//! ```text
//! What is built in, in words.
//!
//! test: crates/ofi-rdma/tests/traps/messages.rs::trap_03_a_name
//! says: a text of the failed test
//!
//! file: crates/ofi-rdma/src/datapath/irecv.rs
//! -a line that goes
//! +a line that comes
//!  a line that stays
//! ```
//!
//! A blank line ends an edit; the next one is of the same file, unless another is named. The lines of an
//! edit must stand in the file in this order, once; their indentation does not count, so that code may
//! move into or out of a block.

use anyhow::{Context as _, Result, bail, ensure};

/// A trap that can be built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trap {
    /// Its name: the point of docs/conformance.md, and for a second one of the same point a dot and a word.
    pub(crate) name: String,
    /// The test that must fail, as docs/conformance.md names it.
    pub(crate) test: String,
    /// What that test says then.
    pub(crate) says: String,
    pub(crate) edits: Vec<Edit>,
}

/// A change of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The file, relative to the root.
    pub(crate) file: String,
    old: Vec<String>,
    new: Vec<String>,
}

impl Trap {
    /// Reads a trap.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut trap = Self {
            name: name.to_owned(),
            test: String::new(),
            says: String::new(),
            edits: Vec::new(),
        };
        let mut file = None;
        let mut edit = Edit::default();
        // One blank line more ends the last edit.
        for line in text.lines().chain([""]) {
            if let Some(value) = line.strip_prefix("test: ") {
                value.clone_into(&mut trap.test);
            } else if let Some(value) = line.strip_prefix("says: ") {
                value.clone_into(&mut trap.says);
            } else if let Some(value) = line.strip_prefix("file: ") {
                file = Some(value.to_owned());
            } else if let Some(file) = &file {
                if line.is_empty() {
                    trap.take(file, core::mem::take(&mut edit));
                } else {
                    edit.line(line)?;
                }
            }
        }
        let complete = !trap.test.is_empty() && !trap.says.is_empty() && !trap.edits.is_empty();
        ensure!(complete, "it lacks a test, what that says, or an edit");
        Ok(trap)
    }

    fn take(&mut self, file: &str, edit: Edit) {
        if edit != Edit::default() {
            let file = file.to_owned();
            self.edits.push(Edit { file, ..edit });
        }
    }

    /// The point of docs/conformance.md that it is of.
    pub(crate) fn point(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// The file of its test.
    pub(crate) fn test_file(&self) -> Result<&str> {
        let (file, _) = self.test.rsplit_once("::").context("file::name")?;
        Ok(file)
    }

    /// The function of its test.
    pub(crate) fn test_name(&self) -> Result<&str> {
        let (_, name) = self.test.rsplit_once("::").context("file::name")?;
        Ok(name)
    }
}

impl Edit {
    fn line(&mut self, line: &str) -> Result<()> {
        let (mark, text) = line.split_at_checked(1).unwrap_or(("", line));
        let text = text.trim().to_owned();
        match mark {
            "-" => self.old.push(text),
            "+" => self.new.push(text),
            " " => {
                self.old.push(text.clone());
                self.new.push(text);
            }
            _ => bail!("{line:?} begins with none of '-', '+' and ' '"),
        }
        Ok(())
    }

    /// The text of the file with the edit in it.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        ensure!(!self.old.is_empty(), "an edit that replaces nothing");
        let lines: Vec<&str> = text.lines().collect();
        let matches = |window: &[&str]| {
            let mut pairs = window.iter().zip(&self.old);
            pairs.all(|(line, old)| line.trim() == old)
        };
        let places: Vec<usize> = (lines.windows(self.old.len()).enumerate())
            .filter(|(_, window)| matches(window))
            .map(|(at, _)| at)
            .collect();
        let [at] = places[..] else {
            let (file, count) = (&self.file, places.len());
            bail!(
                "{file} has {count} places like this, not one:\n{}",
                self.old.join("\n")
            );
        };
        let new = self.new.iter().map(String::as_str);
        let before = lines[..at].iter().copied();
        let after = lines[at + self.old.len()..].iter().copied();
        let changed: Vec<&str> = before.chain(new).chain(after).collect();
        Ok(changed.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Trap;

    const TRAP: &str = "Words.\n\ntest: a/tests/b.rs::c\nsays: d\n\nfile: x.rs\n one();\n-two();\n+three();\n\n-four();\n";

    #[test]
    fn edits_change_their_lines_and_no_others() {
        let trap = Trap::parse("TRAP-01.b", TRAP).unwrap();
        assert_eq!(trap.point(), "TRAP-01");
        assert_eq!(trap.test_file().unwrap(), "a/tests/b.rs");
        assert_eq!(trap.test_name().unwrap(), "c");
        let text = "two();\n    one();\n    two();\nfour();\n";
        let changed = trap.edits[0].apply(text).unwrap();
        assert_eq!(changed, "two();\none();\nthree();\nfour();\n");
        let changed = trap.edits[1].apply(&changed).unwrap();
        assert_eq!(changed, "two();\none();\nthree();\n");
    }

    #[test]
    fn a_place_that_is_not_there_once_is_named() {
        let trap = Trap::parse("TRAP-01", TRAP).unwrap();
        for (text, count) in [("two();", 0), ("one();\ntwo();\none();\ntwo();", 2)] {
            let error = trap.edits[0].apply(text).unwrap_err().to_string();
            let wanted = format!("x.rs has {count} places like this, not one:\none();\ntwo();");
            assert_eq!(error, wanted);
        }
    }

    #[test]
    fn what_is_missing_or_misspelt_is_an_error() {
        for wrong in ["test: ", "says: ", "file: "] {
            Trap::parse("TRAP-01", &TRAP.replace(wrong, "text: ")).unwrap_err();
        }
        let error = Trap::parse("TRAP-01", &TRAP.replace("-two", "two")).unwrap_err();
        assert!(error.to_string().contains("\"two();\""), "{error}");
    }
}
