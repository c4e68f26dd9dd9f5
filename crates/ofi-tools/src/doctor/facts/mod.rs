//! What is known of a host: read once, under a root directory, with an environment given as a map.
//! Checks look at nothing else, so that one host, live or described in a test, gives one answer.
//!
//! ```text
//! root ---+--> settings (environment, NCCL's files)    version, elf, ldso, nccl, fabric: how to read
//!         +--> process (limits, user, container)        what a loader and a collectives library read
//!         +--> devices (sys, proc, dev)
//!         +--> libraries (plugin, libfabric, NCCL) --> packages (their versions)
//! ```

pub(crate) mod devices;
pub(crate) mod elf;
pub(crate) mod fabric;
mod ldcache;
pub(crate) mod ldneeds;
#[cfg(test)]
mod ldreal;
pub(crate) mod ldso;
mod ldtoken;
pub(crate) mod libraries;
pub(crate) mod mounts;
mod named;
pub(crate) mod nccl;
pub(crate) mod packages;
pub(crate) mod process;
pub(crate) mod root;
pub(crate) mod settings;
pub(crate) mod shm;
pub(crate) mod user;
pub(crate) mod version;

use std::path::{Path, PathBuf};

use devices::Devices;
use libraries::{Libraries, nccl_version};
use mounts::Mounts;
use packages::Packages;
use process::Process;
use root::Root;
use settings::Settings;
use shm::Shm;
use user::User;
use version::Version;

/// Whose plugin it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// NCCL: `libnccl-net*.so`.
    Nccl,
    /// Neuron's collectives: `libnccom-net.so`.
    Neuron,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// `/`, or a copy of another host.
    pub(crate) root: PathBuf,
    /// The environment.
    pub(crate) env: Vec<(String, String)>,
    /// Whose plugin; `None`: as the devices say.
    pub(crate) side: Option<Side>,
    /// Version of NCCL, where it is not to be found out.
    pub(crate) nccl: Option<Version>,
    /// A running process to look at.
    pub(crate) pid: Option<u32>,
    /// The user of the job, by name or id; `None`: as the environment says where root looks, else who looks.
    pub(crate) user: Option<String>,
    /// What this process was started with, where that is of the host: a prolog is told there whose job it is.
    pub(crate) own: Vec<(String, String)>,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    /// It is the one that this program runs on.
    pub(crate) is_live: bool,
    /// Its EFAs are those of `ofi emu`: no driver, no device files.
    pub(crate) is_emulated: bool,
    pub(crate) side: Side,
    pub(crate) settings: Settings,
    pub(crate) process: Process,
    /// What keeps the job's user from the directory of the EFAs' device files.
    pub(crate) shut: Option<String>,
    pub(crate) mounts: Mounts,
    pub(crate) shm: Shm,
    pub(crate) devices: Devices,
    pub(crate) libraries: Libraries,
    pub(crate) packages: Packages,
    /// Text of the topology file that the user names, or why it cannot be had.
    pub(crate) topo_file: Option<(PathBuf, Result<String, root::Absent>)>,
}

impl Host {
    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// There is no such user.
    pub(crate) fn read(ask: &Ask) -> Result<Self, String> {
        let job = ask
            .pid
            .map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let root = Root::new(&ask.root).working_as(&Path::new("/proc").join(job));
        let is_live = ask.root == Path::new("/");
        let environment = Settings::of_environment(ask.env.iter().cloned());
        let process = process(ask, &root, &environment)?;
        // What the job reads; what it runs on anybody may look at.
        let looks = Process::read(&root, None).user;
        let is_other = (ask.pid.is_some() || process.by.is_some()) && looks.id != process.user.id;
        let read = match is_other {
            true => root.as_user(&process.user),
            false => root.clone(),
        };
        // Where the plugin itself looks for its NICs.
        let sys = environment.filled("OFI_NCCL_FS_ROOT").filter(|_| is_live);
        let sys = sys.map_or_else(|| root.clone(), Root::new);
        let is_emulated = environment.filled("EFA_EMU_SHAPE").is_some();
        let mut devices = Devices::read(&root, &sys, is_live && !is_emulated);
        if let Some(product) = environment.filled("OFI_NCCL_FORCE_PRODUCT_NAME") {
            product.clone_into(&mut devices.product);
        }
        let side = ask.side.unwrap_or_else(|| guess(&devices));
        let settings = match side {
            Side::Nccl => {
                let nccl = ask.nccl.or_else(|| nccl_version(&read, &environment));
                environment.with_nccl_files(&read, process.user.home.as_deref(), nccl)
            }
            Side::Neuron => environment,
        };
        let mounts = Mounts::read(&root);
        let mut packages = Packages::of_installer(&root);
        let libraries = Libraries::find(&read, &settings, (side, ask.nccl), &mut packages);
        let topo_file = settings.filled("NCCL_TOPO_FILE").map(PathBuf::from);
        Ok(Self {
            shm: Shm::read(&root, &mounts, &process.user),
            mounts,
            shut: read.shut(Path::new("/dev/infiniband")),
            topo_file: topo_file.map(|file| {
                let text = read.text(&file);
                (file, text)
            }),
            is_live,
            is_emulated,
            side,
            settings,
            process,
            devices,
            libraries,
            packages,
        })
    }
}

/// The process that a job would be, and of whom.
fn process(ask: &Ask, root: &Root, environment: &Settings) -> Result<Process, String> {
    let process = Process::read(root, ask.pid);
    let is_live = ask.root == Path::new("/");
    let find = |word: &str| User::find(root, word, is_live);
    if let Some(word) = &ask.user {
        let user = find(word).ok_or_else(|| format!("--user {word}: there is no such user"))?;
        return Ok(process.of_user(root, user, "--user"));
    }
    // Anybody else is looked at as what it is.
    let is_root = process.user.id == 0 && !process.is_untold && ask.pid.is_none();
    let own = Settings::of_environment(ask.own.iter().cloned());
    let told = User::of_job(environment).or_else(|| User::of_job(&own));
    let told = told.filter(|_| is_root);
    let found = told.and_then(|(name, word)| Some((name, find(word).filter(|user| user.id != 0)?)));
    Ok(match found {
        Some((name, user)) => process.of_user(root, user, name),
        None => process,
    })
}

/// Trainium and Inferentia mean Neuron.
fn guess(devices: &Devices) -> Side {
    let product = devices.product.as_str();
    let is_neuron = ["trn", "inf"]
        .iter()
        .any(|start| product.starts_with(start));
    if is_neuron { Side::Neuron } else { Side::Nccl }
}
