//! Every crate explains itself, and stands in the picture of the whole.

use super::files::TextFile;
use crate::workspace::Member;

/// Crates without a README of their own: commands of the project, not for others.
const WITHOUT_README: [&str; 1] = ["xtask"];

/// Crates that have no README, or that ARCHITECTURE.md does not name.
pub(super) fn check(files: &[TextFile], members: &[Member]) -> Vec<String> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let mut faults = Vec::new();
    let picture = find("ARCHITECTURE.md").map_or("", |file| file.text.as_str());
    for Member { name, dir, .. } in members {
        let dir = dir.to_string_lossy();
        let has_readme = find(&format!("{dir}/README.md")).is_some();
        if !has_readme && !WITHOUT_README.contains(&name.as_str()) {
            faults.push(format!("{dir}/README.md: missing"));
        }
        let is_named = [name.as_str(), &*dir]
            .iter()
            .any(|text| names(picture, text));
        if !is_named {
            faults.push(format!("ARCHITECTURE.md: does not name {name} or {dir}"));
        }
    }
    faults
}

/// Whether a text has a name, not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::files::TextFile;
    use crate::workspace::Member;

    fn member(name: &str, dir: &str) -> Member {
        Member {
            name: name.to_owned(),
            dir: dir.into(),
            published: true,
        }
    }

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn crates_that_explain_themselves_pass() {
        let files = [
            file(
                "ARCHITECTURE.md",
                "`ofi-imm`, and the skin in plugin/neuron; xtask",
            ),
            file("crates/ofi-imm/README.md", ""),
            file("plugin/neuron/README.md", ""),
        ];
        let members = [
            member("ofi-imm", "crates/ofi-imm"),
            member("ofi-plugin-neuron", "plugin/neuron"),
            member("xtask", "xtask"),
        ];
        assert_eq!(check(&files, &members), Vec::<String>::new());
    }

    #[test]
    fn a_missing_readme_or_name_is_a_fault() {
        let files = [file("ARCHITECTURE.md", "ofi-immediate, my-ofi-imm")];
        let found = check(&files, &[member("ofi-imm", "crates/ofi-imm")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
