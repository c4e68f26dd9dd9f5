//! Who is told when something hangs: when state dumps are due, and why.
//!
//! ```text
//! progress: engine stalls, fails ----raise----> Watch <---- nudge: calls that found nothing done
//! every 256th quiet pass ------------tick------>  |            attend, outside of all locks
//!                                                 v
//!                              OFI_NCCL_DUMP_DIR/ofi-dump-HOST-PID-N.json
//! ```
//!
//! Nothing is looked for on the path of a message: a call that has nothing to return reads one byte. No
//! thread, no signal: who makes no call writes no dump, and by that is told from the others.

use crate::config::{Config, DumpConfig};
use crate::dump::{Device, Domain, Dump, Files, NicsAtStart, Process, Reason, SCHEMA, TOOL};
use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use ofi_rdma::Event;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Between two looks for the trigger.
const LOOK_MS: u64 = 1000;

/// Between two dumps that nobody asked for.
const PAUSE_MS: u64 = 1000;

/// What there is to attend to: bits of one byte, so that a call reads no more.
pub(crate) mod flag {
    /// Domains are linked: whoever waits on one makes progress on the others.
    pub(crate) const LINKED: u8 = 1;
    /// A domain was opened.
    pub(crate) const START: u8 = 1 << 1;
    /// Something stalls.
    pub(crate) const STALL: u8 = 1 << 2;
    /// The first error.
    pub(crate) const ERROR: u8 = 1 << 3;
    /// It is time to look for the trigger.
    pub(crate) const LOOK: u8 = 1 << 4;
}

/// What a transport says of itself in every dump.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Version and path of libfabric.
    pub(crate) libfabric: String,
    /// What its devices speak.
    pub(crate) protocol: String,
    /// The devices found.
    pub(crate) devices: Vec<Device>,
    /// What their NICs had counted.
    pub(crate) nics: NicsAtStart,
}

/// One transport's.
#[derive(Default)]
pub(crate) struct Watch {
    flags: AtomicU8,
    /// Stalls that a dump is not due for yet.
    pending: AtomicU8,
    next_look_ms: AtomicU64,
    next_dump_ms: AtomicU64,
    /// An error was told of.
    failed: AtomicBool,
    facts: OnceLock<Facts>,
    dumps: Option<Dumps>,
}

struct Dumps {
    state: Mutex<State>,
    config: DumpConfig,
    process: Process,
    limits: [Option<u64>; 2],
    log: Arc<dyn Log>,
}

struct State {
    files: Files,
    /// The trigger that was answered last.
    answered_ns: Option<u64>,
    told: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// As `config` wants it. A directory that cannot be made is a warning: a job is not lost for want of
    /// dumps.
    pub(crate) fn new(config: &Config, log: &Arc<dyn Log>) -> Arc<Self> {
        let dumps = config.dump.clone().and_then(|wanted| {
            let process = process(config);
            match Files::open(&wanted.dir, &process.host) {
                Ok(files) => {
                    let state = State {
                        // What was asked of those before is not asked of us.
                        answered_ns: files.triggered_ns(),
                        files,
                        told: false,
                    };
                    Some(Dumps {
                        state: Mutex::new(state),
                        config: wanted,
                        process,
                        limits: [config.stall_warn_ms, config.stall_fail_ms],
                        log: Arc::clone(log),
                    })
                }
                Err(error) => {
                    log::warn(&**log, Subsys::Init, || unwritable(&wanted.dir, &error));
                    None
                }
            }
        });
        Arc::new(Self {
            dumps,
            ..Self::default()
        })
    }

    /// What does not change any more.
    pub(crate) fn settle(&self, facts: Facts) {
        let _first = self.facts.set(facts).is_ok();
    }

    /// What there is to attend to.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// From now on, whoever waits for something on one domain makes progress on the others as well.
    pub(crate) fn link(&self) {
        self.flags.fetch_or(flag::LINKED, Ordering::Relaxed);
    }

    /// A domain was opened.
    pub(crate) fn opened(&self) {
        if self.dumps.is_some() {
            self.flags.fetch_or(flag::START, Ordering::Relaxed);
        }
    }

    /// Something stalls: a dump is made at the next tick that one is due at.
    #[cold]
    pub(crate) fn stalled(&self) {
        if self.dumps.is_some() {
            self.pending.fetch_or(flag::STALL, Ordering::Relaxed);
        }
    }

    /// A communicator or a domain failed: the first of a process is the cause of the others.
    #[cold]
    pub(crate) fn failed(&self) {
        if self.dumps.is_some() && !self.failed.swap(true, Ordering::Relaxed) {
            self.flags.fetch_or(flag::ERROR, Ordering::Relaxed);
        }
    }

    /// What an event of an engine means here.
    pub(crate) fn event(&self, event: Event) {
        match event {
            Event::Stalled { .. } => self.stalled(),
            Event::Failed(..) => self.failed(),
            _ => {}
        }
    }

    /// It is `now_ms`. Called now and then, from any domain.
    pub(crate) fn tick(&self, now_ms: u64) {
        if self.dumps.is_none() {
            return;
        }
        let mut raised = 0;
        if self.pending.load(Ordering::Relaxed) != 0 && is_due(&self.next_dump_ms, now_ms, PAUSE_MS)
        {
            raised |= self.pending.swap(0, Ordering::Relaxed);
        }
        if is_due(&self.next_look_ms, now_ms, LOOK_MS) {
            raised |= flag::LOOK;
        }
        if raised != 0 {
            self.flags.fetch_or(raised, Ordering::Relaxed);
        }
    }

    /// Does what is to be done: called outside of all locks. `domains` makes what there is to say of
    /// them.
    #[cold]
    pub(crate) fn attend(&self, domains: impl FnOnce() -> Vec<Domain>) {
        let Some(dumps) = &self.dumps else { return };
        // Another thread is at it; what was raised stays.
        let Ok(mut state) = dumps.state.try_lock() else {
            return;
        };
        let raised = self.flags.fetch_and(flag::LINKED, Ordering::Relaxed);
        let has = |flag| raised & flag != 0;
        if has(flag::STALL) {
            let [warn_ms, fail_ms] = dumps.limits;
            let within = warn_ms.or(fail_ms).unwrap_or(LOOK_MS);
            if let Err(error) = state.files.trigger(Duration::from_millis(within)) {
                // Who cannot ask still tells of itself.
                dumps.tell(&mut state, &error);
            }
        }
        let asked = (has(flag::LOOK) || has(flag::STALL) || has(flag::ERROR))
            .then(|| state.files.triggered_ns())
            .flatten();
        let is_new = asked.is_some() && asked != state.answered_ns;
        let reason = if has(flag::ERROR) {
            Reason::Error
        } else if has(flag::STALL) {
            Reason::Stall
        } else if is_new {
            Reason::Trigger
        } else if has(flag::START) {
            Reason::Start
        } else {
            return;
        };
        if reason != Reason::Start {
            state.answered_ns = asked.or(state.answered_ns);
        }
        let dump = dumps.dump(&state, reason, self.facts.get(), domains());
        dumps.write(&mut state, &dump);
    }
}

/// Whether `now_ms` is at or after the time in `next`, which is moved on then: one caller is told so.
fn is_due(next: &AtomicU64, now_ms: u64, pause_ms: u64) -> bool {
    let due_ms = next.load(Ordering::Relaxed);
    now_ms >= due_ms
        && next
            .compare_exchange(
                due_ms,
                now_ms + pause_ms,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
}

impl Dumps {
    fn dump(
        &self,
        state: &State,
        reason: Reason,
        facts: Option<&Facts>,
        domains: Vec<Domain>,
    ) -> Dump {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let [stall_warn_ms, stall_fail_ms] = self.limits;
        let facts = facts.cloned().unwrap_or_default();
        Dump {
            tool: TOOL.to_owned(),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reason,
            at_unix_ms: since.map_or(0, |s| u64::try_from(s.as_millis()).unwrap_or(0)),
            answers_ns: state.answered_ns.filter(|_| reason != Reason::Start),
            dir_inode: state.files.inode(),
            process: self.process.clone(),
            libfabric: facts.libfabric,
            protocol: facts.protocol,
            stall_warn_ms,
            stall_fail_ms,
            devices: facts.devices,
            nics: facts.nics.grown(),
            domains,
        }
    }

    fn write(&self, state: &mut State, dump: &Dump) {
        let first = dump.reason == Reason::Start;
        match state.files.write(dump, first) {
            Ok(path) => log::info(&*self.log, Subsys::Net, || {
                format!("state dump in {}; read it with `ofi dump`", path.display())
            }),
            Err(error) => self.tell(state, &error),
        }
    }

    /// Once a process.
    fn tell(&self, state: &mut State, error: &io::Error) {
        if !core::mem::replace(&mut state.told, true) {
            log::warn(&*self.log, Subsys::Net, || {
                unwritable(&self.config.dir, error)
            });
        }
    }
}

fn unwritable(dir: &Path, error: &io::Error) -> NetError {
    let what = format!("OFI_NCCL_DUMP_DIR={}: {error}", dir.display());
    NetError::new(Code::DumpDir, what).with_errno(error.raw_os_error().unwrap_or(0))
}

fn process(config: &Config) -> Process {
    let (rank, world) = config
        .dump
        .as_ref()
        .map_or((None, None), |dump| (dump.rank, dump.world));
    Process {
        pid: std::process::id(),
        start_ticks: start_ticks(std::process::id()).unwrap_or(0),
        host: crate::trace::host_name(&config.fs_root),
        rank,
        world,
    }
}

/// When a process of this host was started, in clock ticks: field 22 of `/proc/PID/stat` (`proc(5)`); with
/// the number it names one process. `None`: there is none of that number.
#[must_use]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    // The name, in parentheses, may have anything in it.
    let stat = stat.ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::NoLog;
    use crate::params::Flavour;

    /// What was logged.
    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Log for Kept {
        fn enabled(&self, _level: log::Level) -> bool {
            true
        }

        fn log(&self, line: &log::Line) {
            self.0.lock().unwrap().push(line.text().to_owned());
        }
    }

    fn watch(dir: &Path) -> Arc<Watch> {
        watch_with(dir, Arc::new(NoLog))
    }

    fn watch_with(dir: &Path, log: Arc<dyn Log>) -> Arc<Watch> {
        let config = Config {
            stall_warn_ms: Some(60_000),
            dump: Some(DumpConfig {
                dir: dir.to_owned(),
                rank: Some(3),
                world: Some(8),
            }),
            ..Config::new(Flavour::Nccl)
        };
        Watch::new(&config, &log)
    }

    /// The dumps in a directory, by their name.
    fn dumps(dir: &Path) -> Vec<Dump> {
        let mut paths: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        paths.sort();
        let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        paths.into_iter().map(read).collect()
    }

    /// Ticks at `now_ms` and attends.
    fn pass(watch: &Watch, now_ms: u64) {
        watch.tick(now_ms);
        if watch.flags() != 0 {
            watch.attend(Vec::new);
        }
    }

    #[test]
    fn nothing_is_written_while_nothing_happens() {
        let dir = tempfile::tempdir().unwrap();
        let watch = watch(dir.path());
        for now_ms in (0..100_000).step_by(100) {
            pass(&watch, now_ms);
        }
        assert!(dumps(dir.path()).is_empty());
    }

    #[test]
    fn a_stall_asks_all_and_a_trigger_is_answered_once() {
        let dir = tempfile::tempdir().unwrap();
        let (stuck, other) = (watch(dir.path()), watch(dir.path()));
        stuck.stalled();
        pass(&stuck, 5000);
        let written = dumps(dir.path());
        assert_eq!(written.len(), 1);
        assert_eq!(
            (written[0].reason, written[0].process.rank),
            (Reason::Stall, Some(3))
        );
        assert!(written[0].answers_ns.is_some());
        // It asked itself too, and has answered.
        pass(&stuck, 9000);
        assert_eq!(dumps(dir.path()).len(), 1);
        for now_ms in [0, 500, 5000, 9000] {
            pass(&other, now_ms);
        }
        // In one process both have the same name: the other's took the place of the first.
        let written = dumps(dir.path());
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].reason, Reason::Trigger);
    }

    #[test]
    fn the_first_error_is_told_and_a_start_has_a_place_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let watch = watch(dir.path());
        watch.opened();
        pass(&watch, 0);
        for now_ms in (0..100_000).step_by(5000) {
            watch.failed();
            pass(&watch, now_ms);
        }
        let reasons: Vec<_> = dumps(dir.path()).iter().map(|dump| dump.reason).collect();
        assert_eq!(reasons, [Reason::Start, Reason::Error]);
    }

    #[test]
    fn files_are_few_however_long_it_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let watch = watch(dir.path());
        for now_ms in (0..100_000).step_by(1000) {
            watch.stalled();
            pass(&watch, now_ms);
        }
        let files = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 8, "seven dumps and the trigger");
    }

    /// What somebody else put in the place of the trigger is not written to, not waited for, and told of once.
    #[test]
    fn a_trigger_that_is_no_file_does_no_harm() {
        let plant: [fn(&Path); 3] = [
            |at| std::os::unix::fs::symlink(at.with_file_name("precious"), at).unwrap(),
            |at| std::fs::create_dir(at).unwrap(),
            |at| {
                let made = std::process::Command::new("mkfifo").arg(at).status();
                assert!(made.unwrap().success());
            },
        ];
        for plant in plant {
            let dir = tempfile::tempdir().unwrap();
            let precious = dir.path().join("precious");
            std::fs::write(&precious, "mine").unwrap();
            plant(&dir.path().join(crate::dump::TRIGGER));
            let log = Arc::new(Kept::default());
            let watch = watch_with(dir.path(), Arc::<Kept>::clone(&log));
            for now_ms in (0..10_000).step_by(1000) {
                watch.stalled();
                pass(&watch, now_ms);
            }
            assert_eq!(dumps(dir.path()).len(), 7, "of itself it tells");
            assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
            let said = log.0.lock().unwrap();
            let warned: Vec<&String> = said.iter().filter(|line| line.contains("W0211")).collect();
            assert!(
                warned.len() == 1 && warned[0].contains("trigger"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_directory_that_cannot_be_is_no_dumps() {
        let watch = watch(Path::new("/proc/none"));
        watch.stalled();
        pass(&watch, 0);
        assert_eq!(watch.flags(), 0);
    }

    #[test]
    fn a_process_is_named_by_when_it_was_started() {
        let own = start_ticks(std::process::id());
        assert!(own.is_some_and(|ticks| ticks > 0));
        assert_eq!(start_ticks(u32::MAX), None);
    }
}
