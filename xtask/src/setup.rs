//! Getting the libfabrics: from Debian when we may install, from wheels with pip.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::libfabric::{self, Libfabric, WHEELS, Wheel};
use crate::process::Program;
use crate::workspace::Workspace;

/// Debian packages that the system's libfabric takes.
const LIBFABRIC_PACKAGES: [&str; 1] = ["libfabric1"];
/// Debian packages that fetching wheels takes.
const PIP_PACKAGES: [&str; 1] = ["python3-pip"];

/// Programs that the tests run, each with the Debian package it is in.
const TOOLS: [(&str, &str); 3] = [
    ("c++", "g++"),
    ("ip", "iproute2"),
    ("fi_pingpong", "libfabric-bin"),
];

/// Libraries that tests look for at run time, each with the Debian package it is in.
const LIBRARIES: [(&str, &str); 1] = [("libhwloc.so.15", "libhwloc15")];

/// How much to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One libfabric: the system's, or a wheel where the system's cannot be had.
    System,
    /// All that the tests run on.
    Matrix,
}

/// What there is afterwards.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) found: Vec<Libfabric>,
    /// What was wanted and could not be had, with the line to type. Of [`Extent::System`] any one
    /// of them is enough.
    pub(crate) missing: Vec<String>,
}

impl Report {
    /// The libfabric to use when one is enough; an error names every way to one.
    pub(crate) fn any(&self) -> Result<&Libfabric> {
        let ways = || format!("no libfabric here; {}", either(&self.missing));
        self.found.first().with_context(ways)
    }

    fn print(&self) {
        for Libfabric { version, path } in &self.found {
            println!("libfabric {version:8} {}", path.display());
        }
        for line in &self.missing {
            println!("missing: {line}");
        }
    }
}

/// Things of which one is enough, a line each.
fn either(ways: &[String]) -> String {
    match ways {
        [way] => format!("missing: {way}"),
        ways => format!("missing: either {}", ways.join("\n  or ")),
    }
}

/// The command: gets what is missing and says what there is.
pub(crate) fn run(here: &Workspace, extent: Extent) -> Result<()> {
    let report = prepare(here, extent);
    report.print();
    ensure!(report.missing.is_empty(), "something is missing, see above");
    Ok(())
}

/// Gets what is missing and may be installed.
pub(crate) fn prepare(here: &Workspace, extent: Extent) -> Report {
    let mut missing = Vec::new();
    if libfabric::system().is_none() {
        let got = install(&LIBFABRIC_PACKAGES);
        missing.extend(got.err().map(|error| format!("{error:#}")));
    }
    let have_system = libfabric::system().is_some();
    match extent {
        Extent::Matrix => {
            missing.extend(tools().err().map(|error| format!("{error:#}")));
            let wheels = WHEELS.iter().map(|wheel| fetch(here, wheel));
            missing.extend(
                wheels
                    .filter_map(Result::err)
                    .map(|error| format!("{error:#}")),
            );
        }
        Extent::System if !have_system => {
            // Whoever may install nothing can still use a wheel; the newest serves.
            match WHEELS.last().map(|wheel| fetch(here, wheel)) {
                Some(Ok(())) => missing.clear(),
                Some(Err(error)) => missing.push(format!("{error:#}")),
                None => {}
            }
        }
        Extent::System => {}
    }
    Report {
        found: libfabric::all(here),
        missing,
    }
}

/// Gets the programs that the tests run, and the libraries that they look for, which this machine lacks.
fn tools() -> Result<()> {
    let is_absent = |program: &str| !Program::new(program).args(["--version"]).starts();
    let absent = TOOLS.iter().filter(|(program, _)| is_absent(program));
    let listed = Program::new("/sbin/ldconfig").args(["-p"]).output();
    let listed = listed.unwrap_or_default();
    let unlisted = LIBRARIES.iter().filter(|(file, _)| !listed.contains(file));
    let packages: Vec<&str> = absent
        .chain(unlisted)
        .map(|(_, package)| *package)
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    install(&packages)
}

/// Installs Debian packages, or says the line to type.
fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    let Some(apt) = apt_get() else {
        bail!("{names}; type: sudo apt-get install -y {names} (or your system's equivalent)");
    };
    println!("installing {names}");
    // Lists may be absent or old on a fresh machine; an update that fails need not matter.
    apt.clone().args(["-qq", "update"]).succeeds();
    apt.args(["-qq", "install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .with_context(|| format!("{names} could not be installed"))?;
    Ok(())
}

/// `apt-get` with the rights to install, when there is a way to them without asking anybody.
fn apt_get() -> Option<Program> {
    let exists = Program::new("apt-get").args(["--version"]).succeeds();
    let is_root = Program::new("id")
        .args(["-u"])
        .output()
        .is_ok_and(|uid| uid.trim() == "0");
    let sudo = ["-n", "apt-get"];
    let apt = match (exists, is_root) {
        (false, _) => return None,
        (true, true) => Program::new("apt-get"),
        (true, false) if Program::new("sudo").args(["-n", "true"]).succeeds() => {
            Program::new("sudo").args(sudo)
        }
        (true, false) => return None,
    };
    Some(apt.args(["-o", "DPkg::Lock::Timeout=300"]))
}

/// Gets a wheel, whole or not at all. Does nothing when it is there.
fn fetch(here: &Workspace, wheel: &Wheel) -> Result<()> {
    if libfabric::of_wheel(here, wheel).is_some() {
        return Ok(());
    }
    let Wheel {
        version,
        requirement,
        ..
    } = wheel;
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("libfabric {version}: its wheel is for x86-64 Linux only");
    }
    let dir = libfabric::wheel_dir(here, wheel);
    let by_hand = || {
        format!(
            "libfabric {version}; type: python3 -m pip download --no-deps {requirement}, \
             and unzip it into {}",
            dir.display()
        )
    };
    ensure_pip().with_context(by_hand)?;
    println!("fetching libfabric {version} (the wheel {requirement})");
    fill_whole(&dir, |part| download(wheel, part)).with_context(by_hand)?;
    match libfabric::of_wheel(here, wheel) {
        Some(_) => Ok(()),
        None => bail!("the wheel {requirement} holds no libfabric.so.1 where it used to"),
    }
}

/// Downloads a wheel into an empty directory, checks its hash, unpacks it there.
fn download(wheel: &Wheel, part: &Path) -> Result<()> {
    let Wheel {
        requirement,
        sha256,
        ..
    } = wheel;
    let list = part.join("requirements.txt");
    fs::write(&list, format!("{requirement} --hash=sha256:{sha256}\n"))?;
    Program::new("python3")
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
        ])
        .args(["--retries", "5", "--only-binary", ":all:"])
        .args([Path::new("--dest"), part, Path::new("-r"), &list])
        .output()?;
    unpack(part)
}

fn ensure_pip() -> Result<()> {
    let pip = Program::new("python3").args(["-m", "pip", "--version"]);
    if pip.succeeds() {
        return Ok(());
    }
    install(&PIP_PACKAGES)?;
    ensure!(pip.succeeds(), "pip was installed and yet does not run");
    Ok(())
}

/// Fills a directory whole or not at all: beside it first, in one that a failure takes away.
fn fill_whole(dir: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let part = dir.with_extension("part");
    fresh_dir(&part)?;
    let filled = fill(&part).and_then(|()| {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        Ok(fs::rename(&part, dir)?)
    });
    if filled.is_err() {
        // The first error is the one to tell; the next attempt removes what cannot be removed now.
        drop(fs::remove_dir_all(&part));
    }
    filled
}

fn fresh_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))
}

/// Unpacks the one wheel in a directory, in place. Python can; unzip need not be installed.
fn unpack(dir: &Path) -> Result<()> {
    let files = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    let wheel = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.context("pip left no wheel")?;
    let args = [
        Path::new("-m"),
        Path::new("zipfile"),
        Path::new("-e"),
        &wheel,
        dir,
    ];
    Program::new("python3").args(args).output()?;
    fs::remove_file(wheel)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Report, fill_whole};
    use anyhow::bail;
    use std::fs;

    #[test]
    fn one_of_two_is_not_told_as_both() {
        let report = Report {
            found: Vec::new(),
            missing: vec!["libfabric1; type x".to_owned(), "a wheel".to_owned()],
        };
        assert_eq!(
            report.any().unwrap_err().to_string(),
            "no libfabric here; missing: either libfabric1; type x\n  or a wheel"
        );
    }

    #[test]
    fn a_failed_fetch_leaves_nothing_and_a_good_one_the_whole() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("1.22.0");
        let names = || fs::read_dir(place.path()).unwrap().count();
        let failed = fill_whole(&dir, |part| {
            fs::write(part.join("half"), "")?;
            bail!("no network")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no network");
        assert_eq!(names(), 0);
        fill_whole(&dir, |part| Ok(fs::write(part.join("whole"), "")?)).unwrap();
        assert!(dir.join("whole").exists());
        assert_eq!(names(), 1);
    }
}
