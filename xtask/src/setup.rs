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
    /// What was wanted and could not be had, with the line to type.
    pub(crate) missing: Vec<String>,
}

impl Report {
    fn print(&self) {
        for Libfabric { version, path } in &self.found {
            println!("libfabric {version:8} {}", path.display());
        }
        for line in &self.missing {
            println!("missing: {line}");
        }
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

/// Downloads a wheel, checks its hash, unpacks it. Does nothing when it is there.
fn fetch(here: &Workspace, wheel: &Wheel) -> Result<()> {
    if libfabric::of_wheel(here, wheel).is_some() {
        return Ok(());
    }
    let Wheel {
        version,
        requirement,
        sha256,
    } = wheel;
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("libfabric {version}: its wheel is for x86-64 Linux only");
    }
    let dir = libfabric::wheel_dir(here, wheel);
    let part = dir.with_extension("part");
    let by_hand = || {
        format!(
            "libfabric {version}; type: python3 -m pip download --no-deps {requirement}, \
             and unzip it into {}",
            dir.display()
        )
    };
    ensure_pip().with_context(by_hand)?;
    println!("fetching libfabric {version} (the wheel {requirement})");
    fresh_dir(&part)?;
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
        .args([Path::new("--dest"), &part, Path::new("-r"), &list])
        .output()
        .with_context(by_hand)?;
    unpack(&part).with_context(by_hand)?;
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&part, &dir)?;
    match libfabric::of_wheel(here, wheel) {
        Some(_) => Ok(()),
        None => bail!("the wheel {requirement} holds no libfabric.so.1 where it used to"),
    }
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
