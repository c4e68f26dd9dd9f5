//! Rust source split into code, text and comments, so that a word in a comment or in a string is
//! not taken for code.

/// Three views of one source. Each has the source's lines; what belongs to another view is blank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Views {
    /// Without comments and without the insides of strings and characters.
    pub(crate) code: String,
    /// Comments only, documentation included, with their markers.
    pub(crate) comments: String,
    /// The insides of strings and characters only.
    pub(crate) strings: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Code,
    Comments,
    Strings,
}

/// Splits a source. Source that does not compile gives some views, never a panic.
pub(crate) fn split(source: &str) -> Views {
    let mut lexer = Lexer {
        rest: source,
        views: Views {
            code: String::new(),
            comments: String::new(),
            strings: String::new(),
        },
    };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.views
}

struct Lexer<'a> {
    rest: &'a str,
    views: Views,
}

impl Lexer<'_> {
    /// Moves so many bytes into a view, blanks into the others.
    fn take(&mut self, length: usize, view: View) {
        let (head, tail) = self.rest.split_at(length);
        self.rest = tail;
        for (into, own) in [
            (&mut self.views.code, View::Code),
            (&mut self.views.comments, View::Comments),
            (&mut self.views.strings, View::Strings),
        ] {
            if own == view {
                into.push_str(head);
            } else {
                into.extend(head.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
        }
    }

    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.take(rest.find('\n').unwrap_or(rest.len()), View::Comments);
        } else if rest.starts_with("/*") {
            self.take(block_comment(rest), View::Comments);
        } else if let Some((opening, hashes)) = raw_string(rest) {
            self.take(opening, View::Code);
            let closing = format!("\"{}", "#".repeat(hashes));
            let inside = self.rest.find(&closing).unwrap_or(self.rest.len());
            self.take(inside, View::Strings);
            self.take(closing.len().min(self.rest.len()), View::Code);
        } else if rest.starts_with('"') {
            self.quoted('"');
        } else if rest.starts_with('\'') && is_character(rest) {
            self.quoted('\'');
        } else {
            self.take(word(rest), View::Code);
        }
    }

    /// A string or a character, from its opening quote to its closing one.
    fn quoted(&mut self, quote: char) {
        self.take(1, View::Code);
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.take(end.unwrap_or(self.rest.len()), View::Strings);
        self.take(1.min(self.rest.len()), View::Code);
    }
}

/// Length of an identifier, or of one character that is none: so that the `r` of `for"` or of
/// `r#type` is never looked at alone.
fn word(rest: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    if length > 0 {
        length
    } else {
        rest.chars().next().map_or(0, char::len_utf8)
    }
}

/// Length of a block comment, those inside it included.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if tail.starts_with("*/") {
            (depth, at) = (depth.saturating_sub(1), at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of the opening `r#"`, and how many hashes close it, of a raw string of any kind.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|tail| tail.starts_with(['#', '"']))
    })?;
    let tail = &rest[prefix.len()..];
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    tail[hashes..]
        .starts_with('"')
        .then_some((prefix.len() + hashes + 1, hashes))
}

/// Whether a quote opens a character: otherwise it begins a lifetime or a label.
fn is_character(rest: &str) -> bool {
    let mut inside = rest.chars().skip(1);
    matches!(
        (inside.next(), inside.next()),
        (Some('\\'), _) | (Some(_), Some('\''))
    )
}

#[cfg(test)]
mod tests {
    use super::split;

    fn code(source: &str) -> String {
        split(source).code
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert_eq!(code("a // unsafe\nb"), "a          \nb");
        assert_eq!(
            code("a /* un /* x */ y */ b"),
            format!("a {} b", " ".repeat(18))
        );
        assert_eq!(code("f(\"unsafe \\\" x\", 'u')"), "f(\"           \", ' ')");
        assert_eq!(
            code("r#\"un\"safe\"# + br\"x\" + c\"y\""),
            "r#\"       \"# + br\" \" + c\" \""
        );
        assert_eq!(code("'\"' ; \"'\" ; '\\'' ; x"), "' ' ; \" \" ; '  ' ; x");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        for source in [
            "fn f<'a>(x: &'a str) -> &'static str",
            "'outer: loop {}",
            "r#type + for_r",
        ] {
            assert_eq!(code(source), source);
        }
    }

    #[test]
    fn comments_are_their_own_view() {
        let views = split("let x = \"// no\"; // yes\n/// doc\nfn f() {}");
        assert_eq!(views.comments.trim(), "// yes\n/// doc");
        assert_eq!(views.strings.trim(), "// no");
    }

    #[test]
    fn views_have_the_lines_of_the_source() {
        let source = "a\n/* \u{e9}\n */ \"x\ny\"\nr\"\n\" 'c' // d\n";
        let views = split(source);
        for view in [&views.code, &views.comments, &views.strings] {
            assert_eq!(view.lines().count(), source.lines().count());
        }
    }

    #[test]
    fn unfinished_source_ends() {
        for source in [
            "\"abc",
            "/* /* */",
            "r##\"x\"#",
            "'\\",
            "'",
            "r#",
            "\u{e9}",
            "\"\\",
        ] {
            let views = split(source);
            assert_eq!(
                views.code.chars().count(),
                source.chars().count(),
                "{source}"
            );
        }
    }
}
