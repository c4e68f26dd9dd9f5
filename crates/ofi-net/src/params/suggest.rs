//! The nearest name for one that does not exist.

use super::{Code, Note, TABLE};

/// The warning for a name that looks like ours and is not.
pub(super) fn unknown(name: &str) -> Note {
    let shown = super::shorten(name);
    let text = match nearest(name) {
        Some(near) => format!("{shown}; did you mean {near}?"),
        None => format!("{shown}; no parameter has a name like it"),
    };
    Note::coded(Code::UnknownParameter, text)
}

fn nearest(name: &str) -> Option<&'static str> {
    let bare = bare(name);
    let names = TABLE
        .iter()
        .flat_map(|param| [Some(param.name), param.alias])
        .flatten();
    let ours = names.filter(|candidate| super::is_ours(candidate));
    let (distance, near) = ours
        .map(|near| (distance(bare, self::bare(near)), near))
        .min()?;
    // A third of the name may differ; more is another name.
    (distance <= (bare.len() / 3).max(1)).then_some(near)
}

fn bare(name: &str) -> &str {
    name.strip_prefix("OFI_NCCL_")
        .or_else(|| name.strip_prefix("NCCL_OFI_"))
        .unwrap_or(name)
}

/// Edits (insert, delete, replace) between a name, in any case of letters, and one in capitals; names are bounded
/// first, since the environment may hold anything.
///
/// ```
/// assert_eq!(ofi_net::params::distance("fi_provder", "FI_PROVIDER"), 1);
/// ```
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let a: Vec<u8> = a
        .bytes()
        .take(LONGEST)
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let b: Vec<u8> = b.bytes().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn distances_are_those_of_levenshtein() {
        let cases = [
            ("", "", 0),
            ("A", "", 1),
            ("", "AB", 2),
            ("KITTEN", "SITTING", 3),
        ];
        for (a, b, edits) in cases {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(
            nearest("OFI_NCCL_EAGER_MAXSIZE"),
            Some("OFI_NCCL_EAGER_MAX_SIZE")
        );
        assert_eq!(nearest("NCCL_OFI_PROTOCOL"), Some("OFI_NCCL_PROTOCOL"));
        assert_eq!(
            nearest("OFI_NCCL_eager_max_size"),
            Some("OFI_NCCL_EAGER_MAX_SIZE")
        );
        assert_eq!(nearest("OFI_NCCL_QUUX"), None);
    }
}
