//! The process around the sequences: its environment, the lives of the plugin, and who watches them.

use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use efa_emu::stats::Snapshot;

use super::input::Input;
use super::table::Table;
use super::witness::Witness;

/// Sequences of one life: its end looks for what they left.
const LIFE_SEQUENCES: u32 = 200;

/// Messages of SENDRECV that come before their receives wait at the endpoint, of all its communicators together,
/// and EFA has room for 2048 there: what nobody receives holds up the witness in the end. One sequence
/// makes 1500 at most.
const UNREAD_MAX: usize = 400;

/// No wait for what must come takes longer, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// What a life of the plugin runs with, beside [`ALWAYS`].
const SETTINGS: [&[(&str, &str)]; 8] = [
    &[],
    &[("OFI_NCCL_FORCE_NUM_RAILS", "4")],
    &[("OFI_NCCL_PROTOCOL", "SENDRECV")],
    &[
        ("OFI_NCCL_FORCE_NUM_RAILS", "2"),
        ("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "0"),
    ],
    &[("OFI_NCCL_EAGER_MAX_SIZE", "-1")],
    // Regions that cannot be given back stay to the end of the life: with the cache the next one of the same
    // memory would be the same word.
    &[
        ("OFI_NCCL_ENDPOINT_PER_COMM", "1"),
        ("OFI_NCCL_MR_CACHE_DISABLE", "1"),
    ],
    &[
        ("OFI_NCCL_MR_CACHE_DISABLE", "1"),
        ("OFI_NCCL_FORCE_NUM_RAILS", "3"),
    ],
    &[
        ("OFI_NCCL_MR_CACHE_DISABLE", "0"),
        ("OFI_NCCL_DOMAIN_PER_THREAD", "1"),
    ],
];

/// Settings, and whether a context begins the life.
const MODES: u8 = 16;

/// The number of the settings whose protocol is SENDRECV.
pub(crate) const SENDRECV: usize = 2;

/// That of the settings with CLOSE.
pub(crate) const CLOSE_MESSAGES: usize = 3;
/// Those with which a region is of its communicator alone (regIsGlobal 0).
pub(crate) const ENDPOINTS: usize = 5;

/// All that any of them sets.
const ALWAYS: [(&str, &str); 17] = [
    ("FI_PROVIDER", "efa"),
    ("EFA_EMU_NICS", "1"),
    ("EFA_EMU_SEED", "1"),
    ("EFA_EMU_PROGRESS", "calls"),
    // Nothing that fails: who fails is up to the calls.
    (
        "EFA_EMU_PLAN",
        "reorder window=8; eagain chance=2% burst=3; empty chance=2%",
    ),
    ("OFI_NCCL_PROTOCOL", "RDMA"),
    ("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "1"),
    ("OFI_NCCL_CONNECT_TIMEOUT", "20"),
    ("OFI_NCCL_RDMA_MIN_POSTED_CONTROL_BUFFERS", "64"),
    ("OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS", "64"),
    ("OFI_NCCL_CQ_SIZE", "1"),
    ("OFI_NCCL_FORCE_NUM_RAILS", "1"),
    ("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "1"),
    ("OFI_NCCL_EAGER_MAX_SIZE", "8192"),
    ("OFI_NCCL_ENDPOINT_PER_COMM", "0"),
    ("OFI_NCCL_MR_CACHE_DISABLE", "0"),
    ("OFI_NCCL_DOMAIN_PER_THREAD", "0"),
];

/// Panics in the plugin, which catches them at its edge.
static PANICS: AtomicU64 = AtomicU64::new(0);
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Lines that the plugin wrote.
static LINES: AtomicU64 = AtomicU64::new(0);

const WARN: c_int = 2;

/// The logger that the plugin gets. Its type in C is variadic; what is behind the format travels where a
/// sixth argument would, on x86-64 and aarch64 Linux.
unsafe extern "C" fn log(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    _format: *const c_char,
    text: *const c_char,
) {
    let number = LINES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the plugin's only format is "%s", with a text that ends.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().expect("a line is UTF-8");
    // The first ones say why there is no life.
    if (number < 20 && level == WARN) || std::env::var_os("OFI_FUZZ_VERBOSE").is_some() {
        said(level, text);
    }
}

#[expect(clippy::print_stderr, reason = "for who looks at a find")]
fn said(level: c_int, text: &str) {
    eprintln!("{level} {text}");
}

/// What is left of earlier lives and sequences, for those who use it again.
const KEPT_WORDS: usize = 64;

#[derive(Debug)]
pub(crate) struct World {
    tables: Vec<Table>,
    /// The two of this sequence, by their index.
    pub(crate) chosen: [usize; 2],
    /// The one that begins lives.
    by: usize,
    /// The mode of all sequences, whatever they ask for: to begin a life costs as much as ten sequences.
    only: Option<u8>,
    pub(crate) settings: usize,
    pub(crate) life: Option<Life>,
    pub(crate) old: Vec<usize>,
    stats: PathBuf,
    sequences: u64,
    lives: u64,
}

/// From an init to a fini.
#[derive(Debug)]
pub(crate) struct Life {
    /// Whose init began it.
    by: usize,
    settings: usize,
    pub(crate) contexts: Vec<usize>,
    sequences: u32,
    /// Messages that nobody will receive.
    pub(crate) unread: usize,
    /// There is a connect that nobody will answer.
    pub(crate) has_doomed: bool,
    pub(crate) witness: Option<Witness>,
}

impl World {
    pub(crate) fn new(tables: Vec<Table>) -> Self {
        let stats = std::env::temp_dir().join(format!("ofi-sequences-{}", std::process::id()));
        // Another process of this number may have left one.
        drop(std::fs::remove_dir_all(&stats));
        std::fs::create_dir_all(&stats).expect("a directory for statistics");
        set("EFA_EMU_STATS", stats.to_str().expect("a plain path"));
        for (name, value) in ALWAYS {
            set(name, value);
        }
        Self {
            tables,
            chosen: [0; 2],
            by: 0,
            only: std::env::var("OFI_FUZZ_MODE")
                .ok()
                .and_then(|mode| mode.parse().ok()),
            settings: 0,
            life: None,
            old: Vec::new(),
            stats,
            sequences: 0,
            lives: 0,
        }
    }

    /// The tables and settings of a sequence. The life that is under way goes on if it has them.
    pub(crate) fn choose(&mut self, input: &mut Input<'_>) {
        let tables = input.byte();
        let pick = |nibble: u8| usize::from(nibble) % self.tables.len();
        self.chosen = [pick(tables & 15), pick(tables >> 4)];
        let mode = input.byte();
        let mode = self.only.unwrap_or(mode) % MODES;
        self.settings = usize::from(mode) % SETTINGS.len();
        let is_of_contexts = |table: &Table| table.shape.has_context == (mode & 8 == 8);
        self.by = self.tables.iter().position(is_of_contexts).unwrap_or(0);
        let is_other = |life: &Life| (life.by, life.settings) != (self.by, self.settings);
        let is_old = |life: &Life| life.sequences >= LIFE_SEQUENCES || life.unread >= UNREAD_MAX;
        if (self.life.as_ref()).is_some_and(|life| is_other(life) || is_old(life)) {
            self.finish();
        }
        if self.life.is_none() {
            self.begin();
        }
        self.sequences += 1;
        let life = self.life.as_mut().expect("it was begun");
        life.sequences += 1;
    }

    pub(crate) fn table(&self, number: usize) -> &Table {
        &self.tables[self.chosen[number & 1]]
    }

    /// A context for a table that takes one; another life has none, and then such tables are not used.
    pub(crate) fn context(&self) -> usize {
        let life = self.life.as_ref();
        life.and_then(|life| life.contexts.first().copied())
            .unwrap_or(0)
    }

    /// A table of the plugin that connects step by step, in this life.
    pub(crate) fn polled_table(&self) -> Option<&Table> {
        let mut tables = self.tables.iter();
        tables.find(|table| !table.shape.is_v4 && self.can_connect(table))
    }

    /// The number of the one of the two of the sequence that does, if one does.
    pub(crate) fn polled(&self) -> Option<usize> {
        let mut numbers = 0..2;
        numbers.find(|&number| {
            let table = self.table(number);
            !table.shape.is_v4 && self.can_connect(table)
        })
    }

    /// Whether listen and connect of a table can be called in this life: contexts are made by their init.
    pub(crate) fn can_connect(&self, table: &Table) -> bool {
        !table.shape.has_context || self.context() != 0
    }

    /// init, and the witness.
    pub(crate) fn begin(&mut self) {
        let by = self.by;
        for (name, value) in ALWAYS {
            let special = SETTINGS[self.settings].iter().find(|(own, _)| *own == name);
            if SETTINGS
                .iter()
                .any(|row| row.iter().any(|(own, _)| *own == name))
            {
                set(name, special.map_or(value, |(_, value)| *value));
            }
        }
        let mut context = 0;
        let result = self.tables[by].init(Some(&mut context), log as *const () as usize);
        assert_eq!(result, 0, "init");
        watch_panics();
        self.lives += 1;
        self.life = Some(Life {
            by,
            settings: self.settings,
            contexts: (context != 0).then_some(context).into_iter().collect(),
            sequences: 0,
            unread: 0,
            has_doomed: false,
            witness: None,
        });
    }

    /// One more init: another context, or refused.
    pub(crate) fn begin_again(&mut self) {
        let Some(life) = &mut self.life else {
            return self.begin();
        };
        for by in self.chosen {
            let table = &self.tables[by];
            let mut context = 0;
            let result = table.init(Some(&mut context), log as *const () as usize);
            let may = table.shape.has_context && !life.contexts.is_empty();
            assert_eq!(result, if may { 0 } else { 2 }, "init while initialised");
            assert_eq!(context != 0, may, "a context with its result");
            life.contexts.extend((context != 0).then_some(context));
        }
    }

    /// One context fewer; the last one ends the life. Whether it has ended.
    pub(crate) fn end_context(&mut self) -> bool {
        let Some(life) = &mut self.life else {
            return true;
        };
        if life.contexts.len() < 2 {
            self.end();
            return true;
        }
        let context = life.contexts.pop().expect("there are two");
        let table = self.tables.iter().find(|table| table.shape.has_context);
        let table = table.expect("a context came from a table that has them");
        assert_eq!(table.fini(context), 0, "finalize");
        assert_eq!(table.fini(context), 4, "finalize again");
        self.keep(context);
        false
    }

    /// fini, or what exit does where the table has none: with anything open.
    pub(crate) fn end(&mut self) {
        let Some(mut life) = self.life.take() else {
            return;
        };
        let table = &self.tables[life.by];
        let contexts = core::mem::take(&mut life.contexts);
        for &context in &contexts {
            assert_eq!(table.fini(context), 0, "finalize");
        }
        if contexts.is_empty() {
            match table.shape.slots.fini {
                0 => ofi_plugin_edge::life::fini().expect("the end, as at exit"),
                _ => assert_eq!(table.fini(0), 0, "fini"),
            }
        }
        contexts.into_iter().for_each(|context| self.keep(context));
        self.nothing_open();
    }

    /// All that the emulated NICs count as open was closed.
    fn nothing_open(&self) {
        let all = Snapshot::read_dir(&self.stats).expect("statistics of the emulated EFA");
        let own = all.iter().find(|one| one.pid == std::process::id());
        let own = own.expect("this process's statistics");
        let left: Vec<_> = own.leaks().collect();
        assert!(left.is_empty(), "open after fini: {left:?}");
        assert_eq!(own.total().pending, 0, "operations pending after fini");
    }

    pub(crate) fn finish(&mut self) {
        self.end();
        no_panics();
    }

    /// A connect was begun that nobody will answer: it ends at its deadline, or with the life.
    pub(crate) fn doom(&mut self) {
        if let Some(life) = &mut self.life {
            life.has_doomed = true;
        }
    }

    /// A word that is over, for those that use it again.
    pub(crate) fn keep(&mut self, word: usize) {
        if self.old.len() < KEPT_WORDS {
            self.old.push(word);
        } else {
            let at = word % KEPT_WORDS;
            self.old[at] = word;
        }
    }

    /// Lives, sequences and lines so far; the last of it, since the statistics go.
    pub(crate) fn told(&self) -> String {
        drop(std::fs::remove_dir_all(&self.stats));
        let lines = LINES.load(Ordering::Relaxed);
        format!(
            "{} sequences, {} lives, {lines} lines",
            self.sequences, self.lives
        )
    }
}

/// No panic was caught at the plugin's edge.
pub(crate) fn no_panics() {
    let count = PANICS.load(Ordering::Relaxed);
    if count > 0 {
        let last = LAST_PANIC.lock().map(|last| last.clone());
        panic!("{count} panics in the plugin: {last:?}");
    }
}

/// Counts the panics that the plugin's own hook keeps from being shown: it is set by init, before this.
fn watch_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let plugins = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut last) = LAST_PANIC.try_lock() {
                *last = info.to_string();
            }
            plugins(info);
        }));
    });
}

fn set(name: &str, value: &str) {
    // SAFETY: sequences run on one thread, which nothing else of this process uses the environment
    // beside; the emulated EFA has no thread of its own with EFA_EMU_PROGRESS=calls.
    unsafe { std::env::set_var(name, value) };
}

/// Until `done` says so, within [`PATIENCE`].
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        no_panics();
        assert!(Instant::now() < end, "hangs: {what}");
    }
}
