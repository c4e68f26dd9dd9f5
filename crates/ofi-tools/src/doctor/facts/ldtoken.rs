//! Tokens of search paths (ld.so(8)): `$ORIGIN`, `$LIB`, `$PLATFORM`, with braces or without.

use std::path::Path;

use super::elf::AARCH64;
use super::root::Root;

/// What tokens stand for.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    lib: &'static str,
    platform: &'static str,
}

impl Tokens {
    /// As the host's loader was built: distributions differ in `$LIB`.
    pub(super) fn of(root: &Root, machine: u16) -> Self {
        let (platform, multiarch) = match machine {
            AARCH64 => ("aarch64", "lib/aarch64-linux-gnu"),
            _ => ("x86_64", "lib/x86_64-linux-gnu"),
        };
        let has = |dir: &str| root.has(Path::new("/").join(dir).join("libc.so.6"));
        let known = [multiarch, "lib64", "lib"].into_iter().find(|dir| has(dir));
        Self {
            lib: known.unwrap_or("lib64"),
            platform,
        }
    }

    /// A text with its tokens replaced; `origin` is the directory of the file that has it, and where nobody knows that
    /// the token stays, as do other words after a `$`.
    pub(super) fn expand(&self, text: &str, origin: Option<&Path>) -> String {
        let origin = origin.map(|dir| dir.to_string_lossy().into_owned());
        let known = [
            ("ORIGIN", origin.as_deref()),
            ("PLATFORM", Some(self.platform)),
            ("LIB", Some(self.lib)),
        ];
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out += before;
            let fit = known
                .iter()
                .find_map(|(name, value)| Some((end(after, name)?, (*value)?)));
            match fit {
                Some((left, value)) => {
                    out += value;
                    rest = left;
                }
                None => {
                    out.push('$');
                    rest = after;
                }
            }
        }
        out + rest
    }
}

/// What follows the token of that name: one without braces ends where no name could go on.
fn end<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.strip_prefix(name)?.strip_prefix('}');
    }
    let rest = text.strip_prefix(name)?;
    let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!rest.starts_with(goes_on)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{AARCH64, Root, Tokens};
    use std::path::Path;

    #[test]
    fn tokens_are_whole_names() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(&Root::new(dir.path()), AARCH64);
        for (text, is) in [
            ("$ORIGIN", "/a/b"),
            ("${ORIGIN}/../c", "/a/b/../c"),
            ("/x/$LIB/y", "/x/lib64/y"),
            ("/x/${LIB}y", "/x/lib64y"),
            ("$PLATFORM:$LIB", "aarch64:lib64"),
            ("$ORIGINAL/$LIBS/$LIB_", "$ORIGINAL/$LIBS/$LIB_"),
            ("${ORIGIN", "${ORIGIN"),
            ("$$HOME/$", "$$HOME/$"),
            ("", ""),
        ] {
            assert_eq!(tokens.expand(text, Some(Path::new("/a/b"))), is, "{text}");
        }
        assert_eq!(tokens.expand("$ORIGIN/$LIB", None), "$ORIGIN/lib64");
    }

    #[test]
    fn lib_is_where_the_c_library_is() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib/aarch64-linux-gnu");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("libc.so.6"), "").unwrap();
        let tokens = Tokens::of(&Root::new(dir.path()), AARCH64);
        assert_eq!(tokens.expand("$LIB", None), "lib/aarch64-linux-gnu");
    }
}
