//! The directory and the variables that an emulation needs.

use core::fmt::Display;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use efa_emu::alive::Incarnation;
use efa_emu::plan::Plan;
use efa_emu::shape::Shape;

use crate::doctor::facts::elf;
use crate::report::out;

/// The provider as cargo builds it.
const BUILT: &str = "libefa_emu_fi.so";
/// Its name for libfabric, which loads files that end in "fi.so".
const LOADED: &str = "libefa-fi.so";

/// What libfabric asks of such a file (`ofi_reg_dl_prov` of its core).
const ENTRY: &str = "fi_prov_ini";

/// What is wanted.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    /// As it was asked for, and what it is.
    pub(super) shape: (&'a str, &'a Shape),
    pub(super) plan: &'a Plan,
    pub(super) seed: u64,
    pub(super) generation: Option<&'a str>,
    pub(super) provider: Option<&'a Path>,
    /// A directory to keep.
    pub(super) dir: Option<&'a Path>,
}

/// A directory with all that an emulation needs; removed with this, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Setup {
    dir: PathBuf,
    is_kept: bool,
    variables: Vec<(&'static str, OsString)>,
}

/// Variables that beat ours if the user has set them.
const USERS: [&str; 4] = [
    "FI_PROVIDER",
    "OFI_NCCL_FS_ROOT",
    "OFI_NCCL_FORCE_PRODUCT_NAME",
    VERSION_CHECK.0,
];
/// Debian's libfabric is older than what real EFAs need.
pub(super) const VERSION_CHECK: (&str, &str) = ("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "1");

impl Setup {
    /// Makes the directory.
    ///
    /// # Errors
    /// Text for the user.
    pub(super) fn make(ask: &Ask<'_>) -> Result<Self, String> {
        let provider = find_provider(ask.provider)?;
        let temporary = || {
            let name = super::stale::name(Incarnation::own(), ask.seed);
            std::env::temp_dir().join(name)
        };
        let dir = ask.dir.map_or_else(temporary, Path::to_owned);
        // libfabric would look for the provider in two directories, and find it in neither.
        if dir.as_os_str().as_encoded_bytes().contains(&b':') {
            let dir = dir.display();
            return Err(format!(
                "{dir}: FI_PROVIDER_PATH, which names a directory in it, is a list between colons\n  try: --dir (or TMPDIR) without a colon"
            ));
        }
        let setup = Self {
            variables: variables(ask, &dir),
            is_kept: ask.dir.is_some(),
            dir,
        };
        let filled = setup.fill(ask.shape.1, &provider);
        filled.map_err(|e| format!("{}: {e}", setup.dir.display()))?;
        Ok(setup)
    }

    fn fill(&self, shape: &Shape, provider: &Path) -> io::Result<()> {
        let mut private = fs::DirBuilder::new();
        // Who could write here could make the command load anything.
        private
            .mode(0o700)
            .recursive(self.is_kept)
            .create(&self.dir)?;
        for name in ["provider", "stats", "root"] {
            fs::DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(self.dir.join(name))?;
        }
        if fs::read_dir(self.stats())?.next().is_some() {
            let text = "stats/ there has files of another run; remove them or give another --dir";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let link = self.dir.join("provider").join(LOADED);
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        symlink(provider, link)?;
        let root = self.dir.join("root");
        shape.write_root(&root)?;
        // What tells hosts apart stays this machine's.
        for name in ["random/boot_id", "hostname"] {
            let file = root.join("proc/sys/kernel").join(name);
            fs::create_dir_all(file.parent().unwrap_or(&root))?;
            let text = fs::read(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default();
            fs::write(file, text)?;
        }
        Ok(())
    }

    /// Where the processes write their statistics.
    pub(super) fn stats(&self) -> PathBuf {
        self.dir.join("stats")
    }

    /// What to set for the command; `is_set` says what the user has.
    pub(super) fn variables(
        &self,
        is_set: &dyn Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&'static str, &OsString)> {
        let is_ours = |name: &str| !(USERS.contains(&name) && is_set(name));
        let all = self.variables.iter();
        all.filter(move |(name, _)| is_ours(name))
            .map(|(name, value)| (*name, value))
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(e) = fs::remove_dir_all(&self.dir) {
            out::error_line(&format!("ofi emu: {}: {e}", self.dir.display()));
        }
    }
}

fn variables(ask: &Ask<'_>, dir: &Path) -> Vec<(&'static str, OsString)> {
    let mut set: Vec<(&'static str, OsString)> = vec![
        ("FI_PROVIDER_PATH", dir.join("provider").into()),
        ("FI_PROVIDER", "efa".into()),
        ("EFA_EMU_SHAPE", ask.shape.0.into()),
        ("EFA_EMU_SEED", ask.seed.to_string().into()),
        ("EFA_EMU_PLAN", ask.plan.to_string().into()),
        ("EFA_EMU_STATS", dir.join("stats").into()),
        // Where the plugin finds the NICs among the instance's PCI functions.
        ("OFI_NCCL_FS_ROOT", dir.join("root").into()),
        // The machine's own name is no instance's.
        ("OFI_NCCL_FORCE_PRODUCT_NAME", ask.shape.1.product().into()),
        (VERSION_CHECK.0, VERSION_CHECK.1.into()),
    ];
    if let Some(generation) = ask.generation {
        set.push(("EFA_EMU_GENERATION", generation.into()));
    }
    set
}

/// The provider's file, with an absolute path.
fn find_provider(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        let wrong = |what: &dyn Display| format!("--provider {}: {what}", given.display());
        let path = given.canonicalize().map_err(|e| wrong(&e))?;
        return match is_provider(&path) {
            Ok(true) => Ok(path),
            Ok(false) => Err(wrong(&format_args!(
                "no provider of libfabric (a shared library of this machine with {ENTRY})\n  try: {BUILT}, which \
                 cargo build -p efa-emu makes, beside this program; it is found there without --provider"
            ))),
            Err(e) => Err(wrong(&e)),
        };
    }
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let dir = program.parent().unwrap_or_else(|| Path::new("/"));
    let places = [
        dir.join(BUILT),
        dir.join("../lib").join(BUILT),
        dir.join("deps").join(BUILT),
    ];
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    found.ok_or_else(|| {
        format!(
            "there is no {BUILT} in {}\n  try: cargo build -p efa-emu (with the profile of this program), or --provider FILE",
            dir.display()
        )
    })
}

/// Whether libfabric would find a provider in a file. Looked at, not loaded.
fn is_provider(path: &Path) -> io::Result<bool> {
    let machine = if cfg!(target_arch = "aarch64") {
        elf::AARCH64
    } else {
        elf::X86_64
    };
    let read = elf::read(&File::open(path)?, machine);
    Ok(read.is_ok_and(|library| library.exported.iter().any(|name| name == ENTRY)))
}

#[cfg(test)]
mod tests {
    use super::{Ask, Setup, find_provider};
    use efa_emu::plan::Plan;
    use efa_emu::shape::Shape;
    use std::path::Path;

    fn ask<'a>(shape: &'a Shape, plan: &'a Plan, dir: &'a Path, provider: &'a Path) -> Ask<'a> {
        Ask {
            shape: ("p4d", shape),
            plan,
            seed: 5,
            generation: Some("1.22"),
            provider: Some(provider),
            dir: Some(dir),
        }
    }

    #[test]
    fn the_directory_holds_what_the_variables_name() {
        let home = tempfile::tempdir().unwrap();
        let provider = find_provider(None).unwrap();
        let (shape, plan) = (Shape::by_name("p4d").unwrap(), Plan::default());
        let dir = home.path().join("a/b");
        let setup = Setup::make(&ask(&shape, &plan, &dir, &provider)).unwrap();
        let all: Vec<_> = setup.variables(&|name| name == "FI_PROVIDER").collect();
        let value = |name: &str| {
            let found = all.iter().find(|(n, _)| *n == name)?;
            found.1.to_str()
        };
        assert_eq!(value("FI_PROVIDER"), None, "the user's stays");
        assert_eq!(value("EFA_EMU_SEED"), Some("5"));
        assert_eq!(value("EFA_EMU_GENERATION"), Some("1.22"));
        assert_eq!(value("OFI_NCCL_FORCE_PRODUCT_NAME"), Some("p4d.24xlarge"));
        let providers = Path::new(value("FI_PROVIDER_PATH").unwrap());
        assert!(providers.join("libefa-fi.so").exists());
        assert!(Path::new(value("EFA_EMU_STATS").unwrap()).is_dir());
        let root = Path::new(value("OFI_NCCL_FS_ROOT").unwrap());
        assert!(root.join("proc/sys/kernel/hostname").is_file());
        let name = root.join("sys/devices/virtual/dmi/id/product_name");
        assert_eq!(
            std::fs::read_to_string(name).unwrap().trim(),
            "p4d.24xlarge"
        );
        drop(setup);
        assert!(dir.is_dir(), "kept");
        drop(Setup::make(&ask(&shape, &plan, &dir, &provider)).unwrap());
        std::fs::write(dir.join("stats/old"), "").unwrap();
        let error = Setup::make(&ask(&shape, &plan, &dir, &provider)).unwrap_err();
        assert!(error.contains("another run"), "{error}");
    }

    #[test]
    fn what_is_not_kept_is_removed() {
        let provider = find_provider(None).unwrap();
        let (shape, plan) = (Shape::simple(1), Plan::default());
        let mut ask = ask(&shape, &plan, Path::new(""), &provider);
        ask.dir = None;
        let setup = Setup::make(&ask).unwrap();
        let dir = setup.dir.clone();
        assert!(dir.is_dir());
        drop(setup);
        assert!(!dir.exists());
    }

    #[test]
    fn a_directory_with_a_colon_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let provider = find_provider(None).unwrap();
        let (shape, plan) = (Shape::simple(1), Plan::default());
        let dir = home.path().join("a:b");
        let error = Setup::make(&ask(&shape, &plan, &dir, &provider)).unwrap_err();
        assert!(error.contains("between colons"), "{error}");
        assert!(!dir.exists(), "nothing is made there");
    }

    #[test]
    fn a_missing_provider_is_named() {
        let (shape, plan) = (Shape::simple(1), Plan::default());
        let no = Path::new("/no/such.so");
        let error = Setup::make(&ask(&shape, &plan, no, no)).unwrap_err();
        assert!(error.contains("--provider /no/such.so"), "{error}");
    }
}
