//! What is said of the loader, against the loader of this machine: small libraries that need each other, built by the
//! test, and what `LD_TRACE_LOADED_OBJECTS` (ldd(1)) lists of the first.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::{AARCH64, X86_64};
use super::ldneeds::Unmet;
use super::ldso::{Loader, Paths};
use super::root::Root;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    AARCH64
} else {
    X86_64
};
const REAL: &str = if cfg!(target_arch = "aarch64") {
    "/lib/ld-linux-aarch64.so.1"
} else {
    "/lib64/ld-linux-x86-64.so.2"
};

/// Which file each needed name is; `None`: not found.
type Taken = BTreeMap<String, Option<PathBuf>>;

struct Place(tempfile::TempDir);

impl Place {
    /// `DIR` in a text is this place.
    fn path(&self, text: &str) -> String {
        text.replace("DIR", &self.0.path().to_string_lossy())
    }

    /// A library `NAME` that needs others, which are there already; `path` is its search path: `rpath:..` or
    /// `runpath:..`.
    fn build(&self, file: &str, needs: &[&str], path: &str) {
        let file = PathBuf::from(self.path(&format!("DIR/{file}")));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let source = self.path("DIR/empty.c");
        fs::write(&source, "").unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let mut cc = Command::new("cc");
        cc.args([
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,--no-as-needed,--allow-shlib-undefined",
        ]);
        cc.arg(format!("-Wl,-soname,{name}"));
        if let Some((kind, dirs)) = path.split_once('=') {
            let tags = match kind {
                "rpath" => "--disable-new-dtags",
                _ => "--enable-new-dtags",
            };
            cc.arg(format!("-Wl,{tags},-rpath,{}", self.path(dirs)));
        }
        cc.arg("-o").arg(&file).arg(source);
        cc.args(needs.iter().map(|need| self.path(&format!("DIR/{need}"))));
        let ran = cc.output().unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    /// What the loader of this machine takes, or that it fails.
    fn real(&self, top: &str, library_path: &str) -> Option<Taken> {
        let ran = Command::new(REAL)
            .arg(self.path(top))
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .env_remove("LD_PRELOAD")
            .env("LD_LIBRARY_PATH", self.path(library_path))
            .output()
            .unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let pair = |line: &str| {
            let (name, rest) = line.trim().split_once(" => ")?;
            let path = rest.split(" (0x").next()?;
            let path = Some(path).filter(|path| *path != "not found");
            Some((name.to_owned(), path.map(PathBuf::from)))
        };
        ran.status
            .success()
            .then(|| text.lines().filter_map(pair).collect())
    }

    fn ours(&self, top: &str, library_path: &str) -> Option<Taken> {
        let root = Root::new("/");
        let loader = Loader::new(&root, MACHINE, &self.path(library_path));
        let top = loader.library(Path::new(&self.path(top)), "").unwrap();
        let nobody = Paths::default();
        let mut taken = Taken::new();
        for library in loader.needed(&top, &nobody) {
            let name = library.path.file_name().unwrap().to_string_lossy();
            taken.insert(name.into_owned(), Some(library.path.clone()));
        }
        for unmet in loader.unmet(&top, &nobody) {
            match unmet {
                Unmet::Library { name, .. } => drop(taken.insert(name, None)),
                Unmet::Damaged { .. } => return None,
                Unmet::Version { .. } => panic!("{unmet:?}"),
            }
        }
        Some(taken)
    }
}

/// Leaves in `a` and `b`, a library in `m` that needs one, and one in `t` that needs that.
fn chain(top: &str, mid: &str) -> Place {
    let place = Place(tempfile::tempdir().unwrap());
    place.build("a/libleaf.so", &[], "");
    place.build("b/libleaf.so", &[], "");
    place.build("m/libmid.so", &["a/libleaf.so"], mid);
    place.build("t/libtop.so", &["m/libmid.so"], top);
    place
}

/// Whether the real one can be asked; if not, who runs the test sees it, past the capture of the harness.
fn is_possible(test: &str) -> bool {
    let has_cc = Command::new("cc").arg("--version").output().is_ok();
    let is_possible = has_cc && Path::new(REAL).exists();
    if !is_possible {
        let line = format!("\nskipped: {test} (no cc, or no {REAL})\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    }
    is_possible
}

#[test]
fn search_paths_are_tried_as_the_real_loader_does() {
    if !is_possible("search_paths_are_tried_as_the_real_loader_does") {
        return;
    }
    for (top, mid, library_path, leaf) in [
        ("rpath=DIR/m:DIR/a", "", "DIR/b", Some("a")),
        ("runpath=DIR/m:DIR/a", "", "DIR/b", Some("b")),
        ("runpath=DIR/m:DIR/a", "", "", None),
        ("rpath=DIR/m:DIR/a", "runpath=DIR/b", "", Some("b")),
        ("rpath=DIR/m:DIR/a", "runpath=DIR/b", "DIR/a", Some("a")),
        ("rpath=DIR/m:DIR/a", "runpath=DIR/none", "", None),
        ("rpath=DIR/m:DIR/a", "rpath=DIR/b", "", Some("b")),
        ("rpath=DIR/m:DIR/a", "rpath=DIR/none", "DIR/b", Some("a")),
        ("runpath=DIR/m:DIR/a", "rpath=DIR/b", "DIR/a", Some("b")),
        ("rpath=$ORIGIN/../m:${ORIGIN}/../a", "", "DIR/b", Some("a")),
        (
            "runpath=${ORIGIN}/../m",
            "runpath=$ORIGIN/../b",
            "",
            Some("b"),
        ),
        ("runpath=$ORIGIN/../m", "runpath=$ORIGINAL/../b", "", None),
        ("", "", "DIR/m:DIR/none:DIR/b:DIR/a", Some("b")),
        ("", "", "DIR/m;DIR/b", Some("b")),
        ("", "", "DIR/a", None),
    ] {
        let place = chain(top, mid);
        let case = format!("{top}, {mid}, {library_path}");
        let real = place.real("DIR/t/libtop.so", library_path).unwrap();
        assert_eq!(
            place.ours("DIR/t/libtop.so", library_path).as_ref(),
            Some(&real),
            "{case}"
        );
        let found = real.get("libleaf.so").cloned().flatten();
        let found = found.map(|path| fs::canonicalize(path).unwrap());
        let leaf =
            leaf.map(|dir| fs::canonicalize(place.path(&format!("DIR/{dir}/libleaf.so"))).unwrap());
        assert_eq!(found, leaf, "{case}");
    }
}

#[test]
fn tokens_and_levels_are_those_of_the_real_loader() {
    if !is_possible("tokens_and_levels_are_those_of_the_real_loader") {
        return;
    }
    let same = |place: &Place, library_path: &str| {
        let real = place.real("DIR/t/libtop.so", library_path);
        assert_eq!(place.ours("DIR/t/libtop.so", library_path), real);
        real.unwrap()
    };
    // Each word of $LIB and $PLATFORM that there is: the loader takes one.
    let place = chain(
        "runpath=DIR/m",
        "runpath=$ORIGIN/$LIB:${ORIGIN}/p/$PLATFORM",
    );
    for dir in [
        "lib",
        "lib64",
        "lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu",
        "p/x86_64",
        "p/aarch64",
    ] {
        place.build(&format!("m/{dir}/libleaf.so"), &[], "");
    }
    assert!(same(&place, "")["libleaf.so"].is_some());
    for dir in ["lib", "lib64"] {
        fs::remove_dir_all(place.path(&format!("DIR/m/{dir}"))).unwrap();
    }
    assert!(same(&place, "")["libleaf.so"].is_some());
    // And in the variable.
    let place = chain("", "");
    for dir in [
        "lib",
        "lib64",
        "lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu",
    ] {
        place.build(&format!("v/{dir}/libmid.so"), &[], "");
    }
    assert!(same(&place, "DIR/v/$LIB")["libmid.so"].is_some());
    // Through a link: the origin is where the link is.
    let place = chain("rpath=$ORIGIN/../near", "");
    place.build("q/near/libmid.so", &[], "");
    place.build("near/libmid.so", &[], "");
    fs::create_dir(place.path("DIR/q/t")).unwrap();
    symlink(
        place.path("DIR/t/libtop.so"),
        place.path("DIR/q/t/libtop.so"),
    )
    .unwrap();
    let real = place.real("DIR/q/t/libtop.so", "");
    assert_eq!(place.ours("DIR/q/t/libtop.so", ""), real);
    // Of directories for newer processors one that this one takes comes first.
    let place = chain("", "");
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v9"] {
        place.build(&format!("a/glibc-hwcaps/{level}/libleaf.so"), &[], "");
        same(&place, "DIR/m:DIR/a");
    }
}

#[test]
fn what_is_passed_over_and_what_is_not_is_as_in_the_real_loader() {
    if !is_possible("what_is_passed_over_and_what_is_not_is_as_in_the_real_loader") {
        return;
    }
    type Damage = fn(&fs::File);
    let damages: [(&str, Damage, bool); 5] = [
        (
            "another machine",
            |file| file.write_all_at(&[8, 0], 18).unwrap(),
            true,
        ),
        ("32 bits", |file| file.write_all_at(&[1], 4).unwrap(), true),
        ("cut", |file| file.set_len(30).unwrap(), false),
        (
            "no ELF",
            |file| file.write_all_at(b"text", 0).unwrap(),
            false,
        ),
        ("empty", |file| file.set_len(0).unwrap(), false),
    ];
    for (what, damage, is_passed_over) in damages {
        let place = chain("", "");
        let file = fs::File::options()
            .write(true)
            .open(place.path("DIR/a/libleaf.so"));
        damage(&file.unwrap());
        let real = place.real("DIR/t/libtop.so", "DIR/m:DIR/a:DIR/b");
        assert_eq!(
            place.ours("DIR/t/libtop.so", "DIR/m:DIR/a:DIR/b"),
            real,
            "{what}"
        );
        assert_eq!(real.is_some(), is_passed_over, "{what}");
    }
    // What is loaded already is taken, whoever asks for it then.
    let place = chain("rpath=DIR/m:DIR/a", "runpath=DIR/b");
    place.build(
        "t/libtop.so",
        &["m/libmid.so", "a/libleaf.so"],
        "rpath=DIR/m:DIR/a",
    );
    let real = place.real("DIR/t/libtop.so", "").unwrap();
    assert_eq!(place.ours("DIR/t/libtop.so", "").as_ref(), Some(&real));
    assert_eq!(
        real["libleaf.so"],
        Some(place.path("DIR/a/libleaf.so").into())
    );
}
