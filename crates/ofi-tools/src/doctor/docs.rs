//! The table of codes in docs/doctor.md is this program's: `UPDATE_DOCS=1 cargo test -p ofi-tools --lib`
//! writes it anew.

use core::fmt::Write as _;
use std::path::Path;

use super::code::Code;

const BEGIN: &str = "<!-- codes: made by crates/ofi-tools/src/doctor/docs.rs -->\n";
const END: &str = "<!-- end of codes -->";

fn table() -> String {
    let mut text =
        String::from("| code | severity | what | what to do | from |\n|---|---|---|---|---|\n");
    for code in Code::ALL {
        let row = code.row();
        writeln!(
            text,
            "| {code} | {} | {} | {} | {} |",
            row.severity,
            row.title.replace('|', "\\|"),
            row.fix.replace('|', "\\|"),
            row.source
        )
        .unwrap();
    }
    text
}

#[test]
fn the_page_has_the_table_of_this_program() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        // Past the capture of the harness: who runs the crate alone sees it, on a line of its own.
        let skipped =
            "skipped: the_page_has_the_table_of_this_program (no docs folder: the crate is alone)";
        std::io::Write::write_all(&mut std::io::stderr(), format!("\n{skipped}\n").as_bytes())
            .unwrap();
        return;
    }
    let file = docs.join("doctor.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (old, after) = rest.split_once(END).unwrap();
    let new = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            old, new,
            "UPDATE_DOCS=1 cargo test -p ofi-tools --lib writes it anew"
        );
    }
}
