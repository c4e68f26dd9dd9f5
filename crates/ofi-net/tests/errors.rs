//! docs/errors.md says what the tables of codes say: the page is made from them, and this compares the
//! two. After a change, `UPDATE_DOCS=1 cargo test -p ofi-net --test errors` writes the page anew.
#![expect(clippy::unwrap_used, reason = "test code")]

use core::fmt::Write as _;
use ofi_net::Code;
use ofi_net::error::EFA_STATUS;
use std::io::Write as _;
use std::path::Path;

/// What makes the test write the page instead of comparing it.
const UPDATE: &str = "UPDATE_DOCS";

const HEAD: &str = "\
# Errors and warnings

Each line of the plugins' log that somebody has to do something about starts with a code. `OFI-E....`: something failed; `OFI-W....`: the job
runs on. Numbers are stable: one number is one code, and is never used again for something else. `ofi explain OFI-E0501` prints an entry of this page, `ofi explain
LOG` finds the codes in a log; what `ofi doctor` finds has codes of its own (`OFI-D...`, [doctor.md](doctor.md)); what to do for a symptom: [troubleshooting.md](troubleshooting.md).

```text
NET/OFI OFI-E0601 an operation failed: eth0: peer 10.0.0.2:4711: communicator 7, message 3: Write on data rail 2 failed: ..; likely: .., or ..; do: ..
        code      what                 where: whom: which: values                                            causes, likeliest first   what to do
```

The first error of a communicator is the cause: it sticks, and is what every later call on it returns. Operations that fail after it are
counted, and told once when their device closes (`OFI-W0610`). What repeats is written the first four times and then at each power of two with its number,
but for the first line about each peer; what two processes do not have alike (`OFI-E0403`) is one line for all their connections. What was not
written is told when the device closes, or at the end.

A line of the same kind is made for NCCL's logger and Neuron's. The tables are `crates/ofi-net/src/error/{codes,efa}.rs`;
`UPDATE_DOCS=1 cargo test -p ofi-net --test errors` makes this page from them.
";

const EFA: &str = "
## Numbers of EFA

`provider error N` in a line: the device's status (0 to 18) or the provider's own number (4096 and more), as libfabric 1.22.0 and 2.5.1 have
them. Other providers have other numbers there: tcp repeats the errno.

| number | what | likely |
|---|---|---|
";

/// Groups of numbers, by their hundreds.
const GROUPS: [(u16, &str); 7] = [
    (1, "Start and end"),
    (2, "Variables"),
    (3, "Calls"),
    (4, "Connections"),
    (5, "Memory"),
    (6, "Messages"),
    (7, "The rest"),
];

#[test]
fn the_page_says_what_the_tables_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        // Past the capture of the harness: who runs the crate alone sees it, on a line of its own.
        let skipped =
            "skipped: the_page_says_what_the_tables_say (no docs folder: the crate is alone)";
        writeln!(std::io::stderr(), "\n{skipped}").unwrap();
        return;
    }
    let (path, page) = (docs.join("errors.md"), page());
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = committed.lines().zip(page.lines());
    let first = lines.find(|(old, new)| old != new);
    assert!(
        committed == page,
        "docs/errors.md does not say what the tables say; \
         `{UPDATE}=1 cargo test -p ofi-net --test errors` writes it anew. First difference: {first:?}"
    );
}

#[test]
fn every_code_has_its_entry() {
    let page = page();
    for code in Code::ALL {
        assert!(page.contains(&format!("### {code}: ")), "{code}");
    }
    assert_eq!(page.matches("\n### OFI-").count(), Code::ALL.len());
}

/// Other pages quote lines of the log: with the letter and the title that the table has now.
#[test]
fn what_other_pages_quote_is_what_is_said() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut quoted = 0;
    for name in ["troubleshooting.md", "field-reports.md"] {
        // Without the folder the first test says that it was skipped.
        let page = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        let places = page
            .match_indices("OFI-E")
            .chain(page.match_indices("OFI-W"));
        for (at, _) in places {
            let rest = &page[at..];
            let shown: String = rest.chars().take(48).collect();
            // Codes in general, such as `OFI-E`.
            if !rest.as_bytes().get(5).is_some_and(u8::is_ascii_digit) {
                continue;
            }
            let code = Code::find(&shown);
            let code = code.unwrap_or_else(|| panic!("{name}: there is no code in {shown:?}"));
            let said = rest.strip_prefix(&code.to_string());
            let said = said.unwrap_or_else(|| panic!("{name}: it is {code}: {shown:?}"));
            // In a sentence a code stands alone, in quotes of its own.
            if let Some(line) = said.strip_prefix(' ') {
                assert!(line.starts_with(code.info().title), "{name}: {shown:?}");
                quoted += 1;
            }
        }
    }
    assert!(quoted > 25 || !docs.is_dir(), "{quoted}");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (hundred, title) in GROUPS {
        writeln!(page, "\n## {title}").unwrap();
        let codes = Code::ALL.iter();
        codes
            .filter(|code| code.info().number / 100 == hundred)
            .for_each(|code| page.push_str(&entry(*code)));
    }
    page.push_str(EFA);
    for status in EFA_STATUS {
        let (number, meaning, likely) = (status.number, status.meaning, status.likely);
        writeln!(page, "| {number} | {meaning} | {likely} |").unwrap();
    }
    page
}

fn entry(code: Code) -> String {
    let info = code.info();
    let mut entry = format!("\n### {code}: {}\n\n", info.title);
    for (n, cause) in (1..).zip(info.likely) {
        writeln!(entry, "{n}. {cause}").unwrap();
    }
    writeln!(entry, "\n**Do:** {}", info.fix).unwrap();
    entry
}
