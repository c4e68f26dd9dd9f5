//! docs/tuning.md says what the table of parameters says: the page is made from the table, and this
//! compares the two. After a change of the table, `UPDATE_DOCS=1 cargo test -p ofi-net --test tuning`
//! writes the page anew.
#![expect(clippy::unwrap_used, reason = "test code")]

use core::fmt::Write as _;
use ofi_net::params::{Flavour, Id, Kind, Param, Status, TABLE};
use std::io::Write as _;
use std::path::Path;

/// What makes the test write the page instead of comparing it.
const UPDATE: &str = "UPDATE_DOCS";

const HEAD: &str = "\
# Tuning

Every parameter of the plugin: environment variables, read once, in `init`. This page is made from the table in
`crates/ofi-net/src/params/table.rs`; `UPDATE_DOCS=1 cargo test -p ofi-net --test tuning` writes it anew.

* A **number** is decimal, `0x..` or `0..` (octal) and has to be in its range; a **flag** is 0 or 1, false or true; a **word** is one
  of those listed, in any case. An empty number, flag or word counts as unset; an empty text is a value.
* A value that cannot be used is one warning, and the default counts. An unknown name that starts with `OFI_NCCL_` or `NCCL_OFI_`
  is one warning with the nearest name. Both say `OFI-W02..` in the log and nothing fails.
* What fails `init`: a withdrawn parameter, `OFI_NCCL_EARLY_COMPLETION=1` where it cannot be, an
  `OFI_NCCL_EAGER_MAX_SIZE` above `OFI_NCCL_MIN_STRIPE_SIZE`, and groups or numbers of rails that do not fit the NICs.
* *Must match the peer's* is meant literally: the protocol does not negotiate it. Set it alike on all ranks.
";

const DEFAULTS: &str = "Defaults are those of the Neuron plugin; where the NCCL plugin has another one it stands in parentheses.

**Effect**: *yes*: it has its meaning. *no*: it never has an effect here, and why. *withdrawn*: any value but the default fails `init`, as in the reference.

**Source**: *reference*: aws-ofi-nccl has it under this name. *libfabric*: libfabric reads it too. *ours*: this project's own.

";

#[test]
fn the_page_says_what_the_table_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        // Past the capture of the harness: who runs the crate alone sees it, on a line of its own.
        let skipped =
            "skipped: the_page_says_what_the_table_says (no docs folder: the crate is alone)";
        writeln!(std::io::stderr(), "\n{skipped}").unwrap();
        return;
    }
    let (path, page) = (docs.join("tuning.md"), page());
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = first_difference(&committed, &page);
    assert!(
        first.is_none(),
        "docs/tuning.md does not say what the table of parameters says; \
         `{UPDATE}=1 cargo test -p ofi-net --test tuning` writes it anew. First difference: {}",
        first.unwrap_or_default()
    );
}

#[test]
fn a_difference_is_found_wherever_it_is() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    for committed in ["a\nc\n", "a\n", "a\nb\nc\n", "a\nb", ""] {
        assert!(
            first_difference(committed, "a\nb\n").is_some(),
            "{committed:?}"
        );
    }
}

#[test]
fn every_name_and_alias_has_its_row() {
    let page = page();
    for param in TABLE {
        for name in [Some(param.name), param.alias].into_iter().flatten() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.clone().count(), TABLE.len());
    for row in rows {
        assert_eq!(row.matches('|').count(), 7, "{row}");
    }
}

fn first_difference(committed: &str, made: &str) -> Option<String> {
    if committed == made {
        return None;
    }
    let (mut old, mut new) = (committed.split('\n'), made.split('\n'));
    (1..).find_map(|number| match (old.next(), new.next()) {
        (None, None) => Some("line ends".to_owned()),
        (old, new) if old == new => None,
        (old, new) => {
            let (old, new) = (old.unwrap_or("(end)"), new.unwrap_or("(end)"));
            Some(format!("line {number}\n  page:  {old}\n  table: {new}"))
        }
    })
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for param in TABLE {
        if let Some(alias) = param.alias {
            let name = param.name;
            writeln!(
                page,
                "* `{alias}` is an alias of `{name}`, which counts where both are set."
            )
            .unwrap();
        }
    }
    page.push('\n');
    page.push_str(DEFAULTS);
    page.push_str("| name | takes | default | effect | source | meaning |\n");
    page.push_str("|---|---|---|---|---|---|\n");
    for param in TABLE {
        page.push_str(&row(param));
    }
    page
}

fn row(param: &Param) -> String {
    let cells = [
        format!("`{}`", param.name),
        takes(param.kind),
        default(param),
        effect(param.status),
        source(param.id).to_owned(),
        param.meaning.to_owned(),
    ];
    format!(
        "| {} |\n",
        cells.map(|cell| cell.replace('|', "\\|")).join(" | ")
    )
}

fn takes(kind: Kind) -> String {
    match kind {
        Kind::Flag => "flag".to_owned(),
        Kind::Number { min, max } => format!("{min}..={max}"),
        Kind::Text => "text".to_owned(),
        Kind::Choice(words) => words.join(", "),
    }
}

fn default(param: &Param) -> String {
    let [neuron, nccl] = [Flavour::Neuron, Flavour::Nccl].map(|f| param.default_display(f));
    if neuron == nccl {
        return neuron;
    }
    format!("{neuron} ({nccl})")
}

fn effect(status: Status) -> String {
    match status {
        Status::Honoured => "yes".to_owned(),
        Status::NoEffect(why) => format!("no: {why}"),
        Status::Withdrawn => "withdrawn".to_owned(),
    }
}

/// The table has the reference's first, then libfabric's own, then ours.
const fn source(id: Id) -> &'static str {
    match id {
        Id::FiProvider | Id::FiEfaIface => "libfabric",
        _ if id.index() < Id::FiProvider.index() => "reference",
        _ => "ours",
    }
}
