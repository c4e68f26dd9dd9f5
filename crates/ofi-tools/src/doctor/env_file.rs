//! The environment of another process, from a file: what `env` prints, or what a shell exports.

/// Name and value of each variable.
///
/// A line is `NAME=VALUE`, in which quotes are the value's, as `env` prints it and container runtimes read it; a line
/// without a name goes on with the value before. With `export` or `declare -x` anywhere it is a shell's file: quotes
/// and comments are the shell's then.
///
/// # Errors
/// A line of a shell's file whose value only a shell can tell.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let exported = |line: &str| exported(line).is_some();
    if text.lines().any(exported) {
        return of_shell(text);
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for line in text.split('\n') {
        match line.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => pairs.push((name.to_owned(), value.to_owned())),
            None => {
                if let Some((_, value)) = pairs.last_mut() {
                    value.push('\n');
                    value.push_str(line);
                }
            }
        }
    }
    // The file ends with a line, not with a value.
    for (_, value) in &mut pairs {
        value.truncate(value.trim_end_matches('\n').len());
    }
    Ok(pairs)
}

/// Functions that bash exports have other names than variables.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_whitespace)
}

fn exported(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let words = ["export ", "declare -x "];
    words.iter().find_map(|word| line.strip_prefix(word))
}

fn of_shell(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = exported(line).unwrap_or(line).trim();
        let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_name(name)) else {
            continue;
        };
        if line.starts_with('#') {
            continue;
        }
        let value = unquoted(value).ok_or_else(|| {
            format!(
                "line {}: what {name} is only a shell can tell: {value}; give what env prints in the job's environment",
                at + 1
            )
        })?;
        pairs.push((name.to_owned(), value));
    }
    Ok(pairs)
}

/// A value as a shell reads it, if nothing of it is to be looked up.
fn unquoted(value: &str) -> Option<String> {
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = within('\'') {
        return (!inner.contains('\'')).then(|| inner.to_owned());
    }
    let (inner, special): (&str, &[char]) = match within('"') {
        Some(inner) => (inner, &['"', '$', '`', '\\']),
        None => (value, &['"', '\'', '$', '`', '\\', ' ', ';', '&', '|', '(']),
    };
    (!inner.contains(special)).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_env_prints_is_taken_as_it_is() {
        let text = "A=\"1\"\nB=x=y\nF%%=() {  local a=1;\n if true; then\n b=2\n fi\n}\nC=\n";
        let function = "() {  local a=1;\n if true; then\n b=2\n fi\n}";
        let all = [
            pair("A", "\"1\""),
            pair("B", "x=y"),
            pair("F%%", function),
            pair("C", ""),
        ];
        assert_eq!(pairs(text), all);
        assert_eq!(pairs("no variable\n"), []);
    }

    #[test]
    fn what_a_shell_exports_is_read_as_a_shell_does() {
        let text = "#!/bin/sh\n# OLD=1\nPLAIN=1\nexport A=\"/x/lib:/y\"\n  export B='$C'\ndeclare -x D=\"e f\"\nexport E\n";
        let all = [
            pair("PLAIN", "1"),
            pair("A", "/x/lib:/y"),
            pair("B", "$C"),
            pair("D", "e f"),
        ];
        assert_eq!(pairs(text), all);
        for value in ["$HOME/lib", "\"$A:/x\"", "`pwd`", "a b", "\"a\"b", "'a'b'"] {
            let error = parse(&format!("export OK=1\nexport A={value}\n")).unwrap_err();
            assert!(
                error.contains("line 2: what A is") && error.contains(value),
                "{error}"
            );
        }
    }
}
