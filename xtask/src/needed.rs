//! What a built plugin asks of the machine it is loaded on: libraries, C library version; and what
//! it shows: exactly the tables. A missing optional library must never make a job fall back to
//! sockets, so there is none.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::elf::{self, SharedLibrary};

/// All that a plugin may need: what every Linux host with the GNU C library has.
const LIBRARIES: [&str; 5] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// The newest version of the C library's symbols that may be asked for.
const GLIBC_MAX: (u32, u32) = (2, 34);

/// What each plugin shows, by file name.
const SYMBOLS: [(&str, &[&str]); 2] = [
    (
        "libnccom-net.so",
        &["ncclNetPlugin_v4", "ncclNetPlugin_v5", "ncclNetPlugin_v6"],
    ),
    (
        "libnccl-net-ofi.so",
        &[
            "ncclNetPlugin_v6",
            "ncclNetPlugin_v7",
            "ncclNetPlugin_v8",
            "ncclNetPlugin_v9",
            "ncclNetPlugin_v10",
            "ncclNetPlugin_v11",
            "ncclNetPlugin_v12",
        ],
    ),
];

/// What a plugin of this file name shows.
pub(crate) fn symbols_of(file_name: &str) -> Option<&'static [&'static str]> {
    SYMBOLS
        .iter()
        .find(|(name, _)| *name == file_name)
        .map(|(_, symbols)| *symbols)
}

/// The command: checks one file and says what it found.
pub(crate) fn run(path: &Path) -> Result<()> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let library = elf::parse(&bytes).with_context(|| format!("{}", path.display()))?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let glibc = newest_glibc(&library).map(|(major, minor)| format!("{major}.{minor}"));
    println!("needs {}", library.needed.join(", "));
    println!(
        "needs glibc {}",
        glibc.as_deref().unwrap_or("of any version")
    );
    println!("shows {}", library.exported.join(", "));
    let faults = faults(&library, &file_name);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}:\n  {}", path.display(), faults.join("\n  "))
}

fn faults(library: &SharedLibrary, file_name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let foreign = library
        .needed
        .iter()
        .filter(|name| !LIBRARIES.contains(&name.as_str()));
    faults.extend(foreign.map(|name| {
        format!("needs {name}; find it at run time, so that the plugin loads without it")
    }));
    if let Some((major, minor)) = newest_glibc(library).filter(|version| *version > GLIBC_MAX) {
        let names = library.versions.join(", ");
        faults.push(format!(
            "needs glibc {major}.{minor}, and the floor is {}.{} (it asks for {names})",
            GLIBC_MAX.0, GLIBC_MAX.1
        ));
    }
    match symbols_of(file_name) {
        None => faults.push(format!(
            "no list of symbols is known for a file {file_name}"
        )),
        Some(expected) => {
            let missing = expected
                .iter()
                .filter(|e| !library.exported.iter().any(|s| s == *e));
            faults.extend(missing.map(|symbol| format!("does not show {symbol}")));
            let extra = library
                .exported
                .iter()
                .filter(|s| !expected.contains(&s.as_str()));
            faults.extend(extra.map(|symbol| {
                format!("shows {symbol}, which can clash with other libraries of the process")
            }));
        }
    }
    faults
}

/// The highest N.M of the versions `GLIBC_N.M` and `GLIBC_N.M.P`.
fn newest_glibc(library: &SharedLibrary) -> Option<(u32, u32)> {
    let numbers = library.versions.iter().filter_map(|version| {
        let mut parts = version.strip_prefix("GLIBC_")?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    numbers.max()
}

#[cfg(test)]
mod tests {
    use super::{faults, newest_glibc, run};
    use crate::elf::SharedLibrary;
    use crate::process::Program;

    fn library(needed: &[&str], exported: &[&str], versions: &[&str]) -> SharedLibrary {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        SharedLibrary {
            needed: own(needed),
            exported: own(exported),
            versions: own(versions),
        }
    }

    const TABLES: [&str; 3] = ["ncclNetPlugin_v4", "ncclNetPlugin_v5", "ncclNetPlugin_v6"];

    #[test]
    fn a_good_plugin_has_no_faults() {
        let good = library(
            &["libc.so.6", "libgcc_s.so.1"],
            &TABLES,
            &["GCC_3.0", "GLIBC_2.34"],
        );
        assert_eq!(faults(&good, "libnccom-net.so"), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_named() {
        let bad = library(
            &["libc.so.6", "libfabric.so.1"],
            &["ncclNetPlugin_v4", "ncclNetPlugin_v6", "rust_panic"],
            &["GLIBC_2.4", "GLIBC_2.38", "GLIBC_2.14"],
        );
        let faults = faults(&bad, "libnccom-net.so");
        let starts = [
            "needs libfabric.so.1;",
            "needs glibc 2.38,",
            "does not show ncclNetPlugin_v5",
            "shows rust_panic,",
        ];
        assert_eq!(faults.len(), starts.len(), "{faults:?}");
        for (fault, start) in faults.iter().zip(starts) {
            assert!(fault.starts_with(start), "{fault}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(
            newest_glibc(&library(&[], &[], &["GLIBC_2.2.5", "GLIBC_2.17"])),
            Some((2, 17))
        );
        assert_eq!(newest_glibc(&library(&[], &[], &["GLIBC_PRIVATE"])), None);
    }

    /// A library built on the spot, with one hidden and one surplus symbol and a foreign need.
    #[test]
    fn a_planted_library_fails() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let cc = |source: &str, out: &str, more: &[&str]| {
            std::fs::write(at("x.c"), source).unwrap();
            Program::new("cc")
                .args(["-shared", "-fPIC", "-o", out, "x.c", "-Wl,--no-as-needed"])
                .args(more)
                .dir(dir.path())
                .run()
                .unwrap();
        };
        cc("int foreign;", "libforeign.so", &[]);
        let source = "int ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6; \
            __attribute__((visibility(\"hidden\"))) int hidden; static int inner; \
            int *use(void) { return inner ? &hidden : &inner; }";
        cc(source, "libnccom-net.so", &["-L.", "-lforeign"]);
        let error = run(&at("libnccom-net.so")).unwrap_err().to_string();
        assert!(
            error.contains("needs libforeign.so") && error.contains("shows use"),
            "{error}"
        );
        assert!(
            !error.contains("hidden") && !error.contains("inner"),
            "{error}"
        );
        assert!(!error.contains("does not show"), "{error}");
    }
}
