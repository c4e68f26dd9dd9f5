//! A file of counters, and what else can be known of its process from here.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ofi_trace::stats::{FILE_WORDS, Snapshot};

use crate::report::out;

/// Bytes read of a file: more is none.
const FILE_BYTES_MAX: u64 = 4 * (FILE_WORDS as u64) * 8;

/// Field 22 of `/proc/PID/stat`, counted behind the name in parentheses.
const START_TICKS_FIELD: usize = 19;

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs.
    Live,
    /// It said that it closes: its numbers are final.
    Ended,
    /// It is gone and did not say so.
    Dead,
    /// It is of another host or container: nobody here can tell.
    Elsewhere,
}

impl Life {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Ended => "ended",
            Self::Dead => "dead",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) counted: Snapshot,
    pub(crate) life: Life,
}

impl Source {
    /// Those of the files that are files of counters; and whether one was not, which is told. A file that is gone
    /// by now is none.
    pub(crate) fn open_all(files: &[PathBuf], root: &Path, command: &str) -> (Vec<Self>, bool) {
        let here = Here::find();
        let (mut sources, mut failed) = (Vec::new(), false);
        for path in files {
            match Self::open(path, root, &here) {
                Ok(source) => sources.extend(source),
                Err(error) => {
                    failed = true;
                    out::error_line(&format!("ofi {command}: {}: {error}", path.display()));
                }
            }
        }
        (sources, failed)
    }

    fn open(path: &Path, root: &Path, here: &Here) -> Result<Option<Self>, String> {
        let file = match ofi_net::shared::open_named(path) {
            Ok(file) => file,
            // Of a directory that was listed: its process, or a cleaner, was faster.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        // Being made: the room is there, and nothing in it.
        if bytes.first_chunk::<8>() == Some(&[0; 8]) {
            return Ok(None);
        }
        let mut counted = Snapshot::read(&bytes).map_err(|error| error.to_string())?;
        let life = here.life(&counted);
        if life == Life::Live {
            read_nics(&mut counted, root);
        }
        let path = path.to_owned();
        Ok(Some(Self {
            path,
            counted,
            life,
        }))
    }

    /// Seconds that the numbers cover.
    pub(crate) fn seconds(&self) -> f64 {
        let ms = self
            .counted
            .updated_ms
            .saturating_sub(self.counted.opened_ms);
        ms as f64 / 1e3
    }

    pub(crate) fn plugin(&self) -> &'static str {
        match self.counted.flavour {
            0 => "libnccom-net.so",
            1 => "libnccl-net-ofi.so",
            _ => "unknown plugin",
        }
    }

    pub(crate) fn protocol(&self) -> &'static str {
        match self.counted.protocol {
            0 => "RDMA",
            1 => "SENDRECV",
            _ => "unknown protocol",
        }
    }
}

/// The counters of the NICs as they are now: their process looks at them when it opens and when it closes.
fn read_nics(counted: &mut Snapshot, root: &Path) {
    for rail in &mut counted.rails {
        // The name is from a file.
        if rail.nic.contains('/') || rail.nic.starts_with('.') {
            continue;
        }
        let dir = root
            .join("sys/class/infiniband")
            .join(&rail.nic)
            .join("ports/1/hw_counters");
        for hw in &mut rail.hw {
            if hw.name.contains('/') || hw.name.starts_with('.') {
                continue;
            }
            let file = dir.join(&hw.name);
            let text = file.is_file().then(|| fs::read_to_string(file));
            let value = text
                .and_then(Result::ok)
                .and_then(|text| text.trim().parse().ok());
            hw.last = value.unwrap_or(hw.last);
        }
    }
}

/// This host, as processes say theirs.
#[derive(Debug)]
struct Here {
    host: String,
    boot: u64,
    pid_namespace: u64,
}

impl Here {
    fn find() -> Self {
        let line = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let boot = line("/proc/sys/kernel/random/boot_id");
        let boot: String = boot
            .chars()
            .filter(char::is_ascii_hexdigit)
            .take(16)
            .collect();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let namespace: String = namespace
            .to_string_lossy()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        Self {
            host: line("/proc/sys/kernel/hostname"),
            boot: u64::from_str_radix(&boot, 16).unwrap_or(0),
            pid_namespace: namespace.parse().unwrap_or(0),
        }
    }

    fn life(&self, counted: &Snapshot) -> Life {
        if counted.ended {
            return Life::Ended;
        }
        // A host's name can be that of many; its boot is its own.
        if counted.boot != self.boot {
            return match counted.host == self.host && counted.boot != 0 && self.boot != 0 {
                true => Life::Dead,
                false => Life::Elsewhere,
            };
        }
        if counted.pid_namespace != self.pid_namespace {
            return Life::Elsewhere;
        }
        match start_ticks(counted.pid) {
            None => Life::Dead,
            Some(ticks) if counted.start_ticks != 0 && ticks != counted.start_ticks => Life::Dead,
            Some(_) => Life::Live,
        }
    }
}

/// When a process started; `None` when there is none of that number, or it waits to be buried.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace();
    let state = fields.clone().next()?;
    let ticks = fields.nth(START_TICKS_FIELD)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_trace::stats::Total;

    fn counted(here: &Here, pid: u32, start_ticks: u64) -> Snapshot {
        Snapshot {
            pid,
            start_ticks,
            boot: here.boot,
            pid_namespace: here.pid_namespace,
            host: here.host.clone(),
            opened_ms: 0,
            updated_ms: 0,
            ended: false,
            flavour: 0,
            protocol: 0,
            comms_open: 0,
            comms_unseen: 0,
            comms_ever: 0,
            rails_unseen: 0,
            totals: [0; Total::ALL.len()],
            rails: Vec::new(),
            comms: Vec::new(),
            torn: 0,
        }
    }

    #[test]
    fn a_process_is_live_dead_or_not_ours_to_judge() {
        let here = Here::find();
        let own = std::process::id();
        let ticks = start_ticks(own).unwrap();
        let live = counted(&here, own, ticks);
        assert_eq!(here.life(&live), Life::Live);
        assert_eq!(
            here.life(&counted(&here, own, ticks + 1)),
            Life::Dead,
            "another of that number"
        );
        assert_eq!(here.life(&counted(&here, u32::MAX, ticks)), Life::Dead);
        let other_boot = Snapshot {
            boot: here.boot ^ 1,
            ..live.clone()
        };
        assert_eq!(
            here.life(&other_boot),
            Life::Dead,
            "before this host started again"
        );
        let other_host = Snapshot {
            host: "elsewhere".to_owned(),
            ..other_boot
        };
        assert_eq!(here.life(&other_host), Life::Elsewhere);
        let container = Snapshot {
            pid_namespace: here.pid_namespace ^ 1,
            ..live.clone()
        };
        assert_eq!(here.life(&container), Life::Elsewhere);
        assert_eq!(
            here.life(&Snapshot {
                ended: true,
                ..live
            }),
            Life::Ended
        );
    }
}
