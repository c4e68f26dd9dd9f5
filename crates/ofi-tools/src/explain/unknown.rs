//! Lines that warn of something that no table here knows: counted, each kind of them once.

use std::collections::HashSet;

/// Kinds that are told apart; a hostile log does not grow beyond.
const KINDS: usize = 4096;
/// Lines of which the text is kept.
const KEPT: usize = 5;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) text: String,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    /// Lines.
    pub(super) count: u64,
    /// The first of each kind, up to a bound.
    pub(super) first: Vec<Line>,
    kinds: HashSet<String>,
}

impl Unknown {
    /// Takes a line, as it is and in small letters, if it warns of something.
    pub(super) fn take(&mut self, (file, number): (&str, u64), line: &str, small: &str) {
        let Some(message) = message(line, small) else {
            return;
        };
        self.count += 1;
        // Numbers differ from rank to rank.
        let kind = |c: char| if c.is_ascii_digit() { '#' } else { c };
        let kind: String = message.chars().take(120).map(kind).collect();
        let is_new = self.kinds.len() < KINDS && self.kinds.insert(kind);
        if is_new && self.first.len() < KEPT {
            self.first.push(Line {
                file: file.to_owned(),
                line: number,
                text: super::seen::shorten(line),
            });
        }
    }

    /// How many kinds there are.
    pub(super) fn kinds(&self) -> usize {
        self.kinds.len()
    }
}

/// What follows the word that makes it a warning: NCCL's and the plugins', Neuron's errors, our codes.
fn message<'l>(line: &'l str, small: &str) -> Option<&'l str> {
    let after = |word: &str| line.get(small.find(word)? + word.len()..);
    for word in ["nccl warn", "ccom warn", "net/ofi warn"] {
        if let Some(message) = after(word) {
            return Some(message);
        }
    }
    // Neuron's runtime: `pid:tid  ERROR  component:function`.
    let mut words = line.split_ascii_whitespace();
    let level = words.position(|word| matches!(word, "ERROR" | "FATAL" | "CRITICAL"))?;
    let before = line.split_ascii_whitespace().nth(level.checked_sub(1)?)?;
    let is_thread = |(process, thread): (&str, &str)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number(process) && is_number(thread)
    };
    before.split_once(':').filter(|pair| is_thread(*pair))?;
    after("error").or(Some(line))
}

#[cfg(test)]
mod tests {
    use super::Unknown;

    #[test]
    fn warnings_are_counted_by_kind_and_bounded() {
        let mut unknown = Unknown::default();
        let mut take = |line: &str| unknown.take(("log", 1), line, &line.to_ascii_lowercase());
        take("a:1:2 [0] NCCL WARN Cuda failure 12");
        take("b:3:4 [1] NCCL WARN Cuda failure 13");
        take("2026-Nov-01 10:04:01 4711:4811 ERROR  ENC:enc_init  failed to init");
        take("a:1:2 [0] NCCL INFO all is well, no ERROR");
        take("epoch 3 ERROR rate 0.1");
        assert_eq!(
            (unknown.count, unknown.kinds(), unknown.first.len()),
            (3, 2, 2)
        );
        for n in 0..100_000_u32 {
            let letters: String = (n.to_string().bytes())
                .map(|b| char::from(b + 49))
                .collect();
            unknown.take(
                ("log", 2),
                &format!("NCCL WARN {letters}"),
                &format!("nccl warn {letters}"),
            );
        }
        assert_eq!(unknown.count, 100_003);
        assert!(unknown.kinds() <= super::KINDS && unknown.first.len() <= super::KEPT);
    }
}
