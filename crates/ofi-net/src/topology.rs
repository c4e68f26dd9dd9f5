//! Which NICs make a device (decision 39, protocol 2h.3), and what NCCL is told of it (2h.4).
//!
//! ```text
//! groups by hand (OFI_NCCL_NIC_GROUPS)  >  near accelerators (OFI_NCCL_GROUP_BY)  >  one device a NIC
//!                                               ^
//!                        /sys/bus/pci, read once a process
//! ```

use crate::config::Config;
use crate::error::{Code, NetError};
use crate::host_id;
use crate::log::{Log, Subsys, info, warn};
use crate::platform;
use crate::properties;
use crate::select::{self, Nic};
use ofi_topo::{
    Accelerators, Grouping, Remark, Rule, Sysfs, Tree, UserGroups, group, group_near, nccl_xml,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Devices, and the topology file for NCCL where it needs one.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) grouping: Grouping,
    pub(crate) nccl_file: Option<String>,
}

impl Topology {
    /// Groups the NICs as the settings and the host say.
    ///
    /// # Errors
    /// The settings do not fit the NICs.
    pub(crate) fn of(config: &Config, nics: &[Nic], log: &dyn Log) -> Result<Self, NetError> {
        if host_id::hash(&config.fs_root).is_none() {
            info(log, Subsys::Init, || host_id::NOTHING.to_owned());
        }
        if config.nic_groups.is_some() {
            let described: Vec<ofi_topo::Nic> = nics.iter().enumerate().map(describe).collect();
            // The user knows better than the tree what belongs together, and so tells NCCL.
            let grouping = grouped(config, (&described, &Tree::default()), |_| None)?;
            tell_lacks((config, nics, &grouping), None, log);
            tell_idle(&grouping, nics, log);
            return Ok(Self {
                grouping,
                nccl_file: None,
            });
        }
        let tree = tree(config, nics, log);
        let described: Vec<ofi_topo::Nic> = (nics.iter().enumerate())
            .map(|numbered| with_guid(config, numbered))
            .collect();
        // Of NICs without a place those of one speed are alike; the loopback interface is like none.
        let grouping = grouped(config, (&described, &tree), |index| {
            let nic = nics.get(index).filter(|nic| !nic.loopback)?;
            nic.pci.is_none().then_some(nic.speed_bps)
        })?;
        let lost = lost(config, (nics, &tree));
        tell_lacks((config, nics, &grouping), lost, log);
        for remark in &grouping.remarks {
            tell(remark, nics, log);
        }
        tell_idle(&grouping, nics, log);
        let nccl_file = nccl_file(config, (&described, &grouping), &tree, log);
        Ok(Self {
            grouping,
            nccl_file,
        })
    }
}

/// What NCCL is told of devices that have several NICs; where nothing can be, that is said.
fn nccl_file(
    config: &Config,
    (nics, grouping): (&[ofi_topo::Nic], &Grouping),
    tree: &Tree,
    log: &dyn Log,
) -> Option<String> {
    let host = host_id::hash(&config.fs_root).unwrap_or_default();
    let file = nccl_xml::file(tree, (nics, grouping), config.group_by, host);
    if file.is_none() && has_several(grouping) {
        info(log, Subsys::Init, || NO_FILE.to_owned());
    }
    if let Some(unshown) = nccl_xml::unshown(tree, nics, grouping) {
        info(log, Subsys::Init, || unshown);
    }
    file
}

/// The devices that the settings make of these NICs in this tree; NICs without a place are joined where
/// `alike` gives the same for them.
///
/// # Errors
/// The settings do not fit the NICs.
pub(crate) fn grouped(
    config: &Config,
    (nics, tree): (&[ofi_topo::Nic], &Tree),
    alike: impl Fn(usize) -> Option<u64>,
) -> Result<Grouping, NetError> {
    let forced = config.force_num_rails.map_or(0, usize::from);
    let made = match &config.nic_groups {
        Some(text) => text
            .parse::<UserGroups>()
            .and_then(|groups| group(nics, &Rule::UserGroups(groups))),
        None => group_near(nics, tree, config.group_by).map(|near| near.join_alike(forced, alike)),
    };
    made.and_then(|made| made.force_rails(forced))
        .map_err(|error| NetError::new(Code::Grouping, error.to_string()))
}

/// Fewer accelerators than the instance type has: NICs that belonged to them are devices of their own. Of
/// a host whose type is not known, that sysfs shows no PCI at all, where NICs are.
fn lost(config: &Config, (nics, tree): (&[Nic], &Tree)) -> Option<String> {
    let placed = nics.iter().filter(|nic| nic.pci.is_some()).count();
    if placed == 0 || config.group_by != Accelerators::NVIDIA {
        return None;
    }
    let product = config.product_name.as_deref().unwrap_or_default();
    let functions = tree.functions();
    let found = functions.iter().filter(|f| config.group_by.contain(f));
    let found = found.count();
    let nothing = || {
        let shown = config.fs_root.join("sys/bus/pci/devices");
        format!("and {} shows no PCI function at all", shown.display())
    };
    let what = match platform::accelerators(product) {
        Some(whole) if found >= whole => return None,
        Some(whole) if functions.is_empty() => format!("{product} has {whole}, {}", nothing()),
        Some(whole) => format!("{found} of the {whole} accelerators of {product}"),
        // A forced number is the same for all hosts, and one NIC makes one device anyway.
        None if functions.is_empty() && placed > 1 && config.force_num_rails.is_none() => {
            format!("{placed} NICs are PCI functions, {}", nothing())
        }
        None => return None,
    };
    Some(what)
}

/// Where there would be a file of no NIC.
const NO_FILE: &str = "NCCL gets no topology file: devices have several NICs, and sysfs shows the place of none \
                       that leads one";

/// Whether a device has several NICs; one NIC can carry several rails.
fn has_several(grouping: &Grouping) -> bool {
    let several = |rails: &[usize]| rails.iter().any(|rail| *rail != rails[0]);
    grouping.devices.iter().any(|device| several(&device.rails))
}

/// Trees by the root that they were read under.
static TREES: Mutex<Vec<(PathBuf, Arc<Tree>)>> = Mutex::new(Vec::new());

/// The PCI functions of the host, which do not change; read by the first who has a NIC among them.
fn tree(config: &Config, nics: &[Nic], log: &dyn Log) -> Arc<Tree> {
    if nics.iter().all(|nic| nic.pci.is_none()) {
        return Arc::default();
    }
    let mut trees = TREES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, tree)) = trees.iter().find(|(root, _)| *root == config.fs_root) {
        return Arc::clone(tree);
    }
    match Sysfs::new(&config.fs_root).tree() {
        Ok(tree) => {
            tell_left_out(&tree, log);
            let tree = Arc::new(tree);
            trees.push((config.fs_root.clone(), Arc::clone(&tree)));
            tree
        }
        Err(error) => {
            info(log, Subsys::Init, || {
                format!("{error}; each NIC is a device of its own")
            });
            Arc::default()
        }
    }
}

/// What sysfs lists and the tree lacks: a NIC or an accelerator among them is missed.
fn tell_left_out(tree: &Tree, log: &dyn Log) {
    let unplaced = tree.unplaced().iter().map(ToString::to_string);
    let left: Vec<String> = unplaced.chain(tree.unread().iter().cloned()).collect();
    let Some(first) = left.first() else { return };
    info(log, Subsys::Init, || {
        format!(
            "no PCI function below the root of sysfs, left out: {first:?} ({} in all)",
            left.len()
        )
    });
}

fn describe((index, nic): (usize, &Nic)) -> ofi_topo::Nic {
    let described = ofi_topo::Nic::new(index, nic.name.clone()).with_speed_bps(nic.speed_bps);
    match nic.pci {
        Some(pci) => described.with_pci(pci),
        None => described,
    }
}

/// With the speed that properties have, and the GUID that the reference sorts the rails of AWS cards by (protocol 2h.5). Where it cannot be
/// read the order of the tree stays.
fn with_guid(config: &Config, (index, nic): (usize, &Nic)) -> ofi_topo::Nic {
    let bps = properties::link_bps(config, nic.speed_bps);
    let described = describe((index, nic)).with_speed_bps(bps);
    let guid = nic
        .is_aws
        .then(|| Sysfs::new(&config.fs_root).node_guid(&nic.name));
    match guid {
        Some(Ok(guid)) => described.with_guid(guid),
        _ => described,
    }
}

/// One warning of what this host lacks, or of what comes of it where that is worse: devices that differ cannot be
/// connected, while fewer of them are only slower. `lost`: of its accelerators.
fn tell_lacks(
    (config, nics, grouping): (&Config, &[Nic], &Grouping),
    lost: Option<String>,
    log: &dyn Log,
) {
    let missing = select::missing(config, nics);
    let few = missing.as_ref().map(|few| format!("; {few}"));
    let few = few.unwrap_or_default();
    let filter = select::efa_filter(config, nics).map(|set| format!("; {set}"));
    let filter = filter.unwrap_or_default();
    // A forced number is the same for all.
    let is_free = config.force_num_rails.is_none_or(|forced| forced == 0);
    let rails = grouping.devices.iter().map(|device| device.rails.len());
    let range = rails.clone().min().zip(rails.max());
    let uneven = range.filter(|(least, most)| is_free && least < most);
    let error = match (lost, uneven, missing) {
        (Some(lost), ..) => NetError::new(Code::TopologyLost, lost + &few + &filter),
        (None, Some((least, most)), _) => {
            let what = format!("devices have {least} to {most} rails{few}{filter}");
            NetError::new(Code::UnevenRails, what)
        }
        (None, None, Some(few)) => NetError::new(Code::NicsMissing, few + &filter),
        (None, None, None) => return,
    };
    warn(log, Subsys::Init, || error);
}

fn tell(remark: &Remark, nics: &[Nic], log: &dyn Log) {
    match remark {
        Remark::Elsewhere { index } => {
            let hidden = nics.get(*index).and_then(|nic| Some((nic, nic.pci?)));
            if let Some((nic, pci)) = hidden {
                info(log, Subsys::Init, || {
                    let name = &nic.name;
                    format!("{name}: sysfs has no {pci} here (a container?): a device of its own")
                });
            }
        }
        Remark::Spread {
            nics,
            accelerators,
            devices,
        } => info(log, Subsys::Init, || {
            format!(
                "{nics} NICs near {accelerators} accelerators: {devices} devices, since a device has at \
                 most {} rails",
                ofi_topo::MAX_RAILS
            )
        }),
        _ => {}
    }
}

/// NICs that the settings leave without work: bandwidth that was paid for.
fn tell_idle(grouping: &Grouping, nics: &[Nic], log: &dyn Log) {
    if grouping.unused.is_empty() {
        return;
    }
    info(log, Subsys::Init, || {
        let idle = grouping.unused.iter().filter_map(|&index| nics.get(index));
        let names: Vec<&str> = idle.map(|nic| nic.name.as_str()).collect();
        format!(
            "{} of {} NICs are of no device and carry nothing (OFI_NCCL_NIC_GROUPS, \
             OFI_NCCL_FORCE_NUM_RAILS): {}",
            names.len(),
            nics.len(),
            names.join(", ")
        )
    });
}

#[cfg(test)]
mod tests {
    use super::{NO_FILE, grouped, nccl_file, tell_left_out};
    use crate::config::Config;
    use crate::log::{Level, Line, Log};
    use crate::params::Flavour;
    use ofi_topo::shape::Shape;
    use ofi_topo::{Nic, Sysfs, Tree};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Kept(Mutex<Vec<(Level, String)>>);

    impl Log for Kept {
        fn enabled(&self, level: Level) -> bool {
            level != Level::Trace
        }

        fn log(&self, line: &Line) {
            let line = (line.level(), line.text().to_owned());
            self.0.lock().unwrap().push(line);
        }
    }

    /// Whether there is a file, and what is said.
    fn told(forced: u8, nics: &[Nic], tree: &Tree) -> (bool, Vec<(Level, String)>) {
        let config = Config {
            force_num_rails: Some(forced),
            ..Config::new(Flavour::Nccl)
        };
        let grouping = grouped(&config, (nics, tree), |index| {
            nics[index].pci.is_none().then_some(1)
        });
        let log = Kept::default();
        let file = nccl_file(&config, (nics, &grouping.unwrap()), tree, &log);
        (file.is_some(), log.0.into_inner().unwrap())
    }

    /// Devices of several NICs of which none has a place: that NCCL takes each for its first NIC is said, and
    /// not as a warning: nothing can be done about it, and the job is only slower.
    #[test]
    fn where_no_leader_has_a_place_it_is_said_that_there_is_no_file() {
        let p5 = Shape::by_name("p5").unwrap();
        let said = vec![(Level::Info, NO_FILE.to_owned())];
        let nowhere: Vec<Nic> = (0..4).map(|i| Nic::new(i, format!("eth{i}"))).collect();
        for tree in [&p5.tree, &Tree::default()] {
            assert_eq!(told(2, &nowhere, tree), (false, said.clone()));
            // One NIC with several rails is one NIC.
            assert_eq!(told(2, &nowhere[..1], tree), (false, Vec::new()));
            assert_eq!(told(0, &nowhere, tree), (false, Vec::new()));
        }
        // Where they have one there is a file, and nothing to say.
        let placed = p5.provider_list();
        assert_eq!(told(0, &placed, &p5.tree), (true, Vec::new()));
        // Where nobody shows any, each is a device of its own.
        assert_eq!(told(0, &placed, &Tree::default()), (false, Vec::new()));
    }

    /// Where links are hidden NCCL is told of what the NICs carry, and that is one line.
    #[test]
    fn links_that_sysfs_does_not_show_are_one_line() {
        let p5 = Shape::by_name("p5").unwrap();
        let functions = p5.tree.functions().iter().cloned();
        let functions = functions.map(|mut function| {
            function.link = ofi_topo::Link::default();
            function
        });
        let blind = Tree::new(functions.collect(), p5.tree.packages().clone());
        let (has_file, said) = told(0, &p5.provider_list(), &blind);
        let [(Level::Info, line)] = &said[..] else {
            panic!("{said:?}");
        };
        let says = "no speed or width of the PCI link is shown of 8 NICs that lead devices (0000:";
        assert!(has_file && line.starts_with(says), "{line}");
    }

    #[test]
    fn what_sysfs_lists_and_does_not_show_is_one_line() {
        let root = tempfile::tempdir().unwrap();
        Shape::by_name("p4d")
            .unwrap()
            .write_sysfs(root.path())
            .unwrap();
        let log = Kept::default();
        let read = || Sysfs::new(root.path()).tree().unwrap();
        tell_left_out(&read(), &log);
        assert!(log.0.lock().unwrap().is_empty());
        let list = root.path().join("sys/bus/pci/devices");
        for name in ["0000:fe:00.0", "nonsense"] {
            std::os::unix::fs::symlink("../nowhere", list.join(name)).unwrap();
        }
        tell_left_out(&read(), &log);
        let lines = log.0.into_inner().unwrap();
        let [(Level::Info, line)] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(
            line,
            "no PCI function below the root of sysfs, left out: \"0000:fe:00.0\" (2 in all)"
        );
    }
}
