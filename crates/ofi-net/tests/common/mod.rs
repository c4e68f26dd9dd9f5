//! What the tests share: running a scenario on every provider, each in a process of its own (libfabric
//! reads `FI_PROVIDER` once), and two transports connected to each other.
#![expect(clippy::unwrap_used, reason = "test code")]
#![expect(
    unreachable_pub,
    dead_code,
    reason = "compiled into several test binaries"
)]

use core::ffi::c_void;
use ofi_net::log::{Level, Log, Subsys};
use ofi_net::params::Flavour;
use ofi_net::{CommWord, Config, MemoryKind, MrWord, NetError, ReqWord, Transport};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Nothing here takes so long, on any provider.
pub const PATIENCE: Duration = Duration::from_secs(60);

const SCENARIO: &str = "OFI_NET_TEST_SCENARIO";

/// libfabric to test with: its directory or file, as the fabric tests take it.
fn library_path() -> Option<std::path::PathBuf> {
    std::env::var_os("OFI_LIBFABRIC_PATH").map(Into::into)
}

/// The providers that can carry the protocol here, by the version loaded.
fn providers() -> Result<Vec<&'static str>, String> {
    let library =
        efa_fabric::Library::load(library_path().as_deref()).map_err(|e| e.to_string())?;
    let old = efa_fabric::Version::of(library) < efa_fabric::Version::new(1, 18);
    Ok(if old {
        vec!["tcp;ofi_rxm", "net", "shm"]
    } else {
        vec!["tcp", "shm"]
    })
}

/// Runs `scenario` once for each provider, in a child process that runs only the test `name`.
pub fn on_each_provider(name: &str, scenario: fn()) {
    on_providers(name, |_| true, scenario);
}

/// As [`on_each_provider`], for those that `wanted` takes.
pub fn on_providers(name: &str, wanted: fn(&str) -> bool, scenario: fn()) {
    if std::env::var(SCENARIO).as_deref() == Ok(name) {
        return scenario();
    }
    let found = match providers() {
        Ok(found) => found,
        Err(error) => {
            let allowed = std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some();
            assert!(
                allowed,
                "no libfabric: {error}; OFI_TEST_ALLOW_NO_FABRIC=1 skips this"
            );
            return say(&format!("skipped: {name}"));
        }
    };
    for provider in found.into_iter().filter(|provider| wanted(provider)) {
        let output = child(name, provider).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{name} on {provider}: {}\n{text}\n{errors}",
            output.status
        );
        assert!(
            text.contains("1 passed"),
            "{name} on {provider} ran nothing:\n{text}"
        );
    }
}

/// This test binary again, to run the test `name` with `provider`.
pub fn child(name: &str, provider: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(SCENARIO, name).env("FI_PROVIDER", provider);
    command
        .env("FI_OFI_RXM_MSG_TX_SIZE", "256")
        .env("FI_OFI_RXM_MSG_RX_SIZE", "256");
    command
}

/// A line in the output of the test.
#[expect(clippy::print_stdout, reason = "what was skipped is said, by name")]
pub fn say(text: &str) {
    println!("{text}");
}

/// Collects lines; shows them when the test panics.
#[derive(Default)]
pub struct Lines(Mutex<Vec<(Level, String)>>);

impl Lines {
    /// The lines so far at `level`.
    pub fn at(&self, level: Level) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .filter(|(l, _)| *l == level)
            .map(|(_, text)| text.clone())
            .collect()
    }
}

impl Log for Lines {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn log(&self, level: Level, _: Subsys, _: &'static str, _: u32, text: &str) {
        self.0.lock().unwrap().push((level, text.to_owned()));
    }
}

impl Drop for Lines {
    #[expect(clippy::print_stderr, reason = "shown only beside a failed assertion")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (level, line) in self.0.lock().unwrap().iter() {
                eprintln!("{level:?} {line}");
            }
        }
    }
}

/// Settings for the loopback interface and `rails` rails, with short deadlines.
pub fn config(rails: u8) -> Config {
    Config {
        libfabric_path: library_path(),
        fi_provider: std::env::var("FI_PROVIDER").ok(),
        exclude_tcp_if: Vec::new(),
        force_num_rails: Some(rails),
        connect_timeout_ms: 20_000,
        stall_fail_ms: Some(30_000),
        ..Config::new(Flavour::Neuron)
    }
}

/// A transport with its log.
pub struct Side {
    pub net: Transport,
    pub log: Arc<Lines>,
}

impl Side {
    pub fn new(config: Config) -> Self {
        let log = Arc::new(Lines::default());
        let sink: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
        let net = Transport::init(config, sink).unwrap_or_else(|error| {
            panic!("init: {error}\n{:?}", log.at(Level::Info));
        });
        Self { net, log }
    }
}

/// Asks until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: nothing within {PATIENCE:?}"
        );
        std::thread::yield_now();
    }
}

/// Connects `from` to `to`: the send communicator and the receive communicator.
pub fn connect(from: &Transport, to: &Transport) -> (CommWord, CommWord) {
    let mut handle = [0xEE; 128];
    let listener = to.listen(0, &mut handle).unwrap();
    assert!(
        handle[88..].iter().all(|&byte| byte == 0xEE),
        "bytes 88..128 are the caller's"
    );
    let (mut send, mut recv) = (None, None);
    until("connect and accept", || {
        if send.is_none() {
            send = from.connect(0, &mut handle).unwrap();
        }
        if recv.is_none() {
            recv = to.accept(listener).unwrap();
        }
        send.zip(recv)
    });
    to.close_listen(listener).unwrap();
    (send.unwrap(), recv.unwrap())
}

/// Registered bytes of the test.
pub struct Buffer {
    pub bytes: Vec<u8>,
    pub mr: MrWord,
}

impl Buffer {
    pub fn new(net: &Transport, comm: CommWord, bytes: Vec<u8>) -> Self {
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        // SAFETY: the vector keeps its place, and lives until `free`.
        let mr = unsafe { net.reg_mr(comm, start, len, MemoryKind::Host) }.unwrap();
        Self { bytes, mr }
    }

    /// Where byte `at` is.
    pub fn at(&mut self, at: usize) -> *mut c_void {
        self.bytes.as_mut_ptr().wrapping_add(at).cast()
    }

    pub fn free(self, net: &Transport, comm: CommWord) -> Vec<u8> {
        net.dereg_mr(comm, self.mr).unwrap();
        self.bytes
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| pattern_byte(seed, at)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the top byte of a hash")]
pub fn pattern_byte(seed: usize, at: usize) -> u8 {
    let mixed = (seed as u64 ^ 0x9E37_79B9).wrapping_mul(0x2545_F491_4F6C_DD1D) ^ at as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Starts a send, retrying while the answer is "not now"; `poll` is what makes progress meanwhile.
pub fn isend(
    net: &Transport,
    comm: CommWord,
    buffer: &mut Buffer,
    at: usize,
    len: usize,
) -> ReqWord {
    let (start, mr) = (buffer.at(at), buffer.mr);
    // SAFETY: the buffer lives until the request was tested or its region deregistered.
    until("isend", || {
        unsafe { net.isend(comm, start, len, Some(mr)) }.unwrap()
    })
}

/// Starts a receive, retrying while the answer is "not now".
pub fn irecv(
    net: &Transport,
    comm: CommWord,
    buffer: &mut Buffer,
    at: usize,
    len: usize,
) -> ReqWord {
    let (start, mr) = (buffer.at(at), buffer.mr);
    // SAFETY: as for `isend`.
    until("irecv", || {
        unsafe { net.irecv(comm, start, len, Some(mr)) }.unwrap()
    })
}

/// Tests both requests until both are done: their sizes.
pub fn finish(a: &Transport, sent: ReqWord, b: &Transport, received: ReqWord) -> (u64, u64) {
    let (mut first, mut second) = (None, None);
    until("a send and its receive", || {
        first = first.or_else(|| a.test(sent).unwrap());
        second = second.or_else(|| b.test(received).unwrap());
        first.zip(second)
    })
}

/// Calls until it is an error, which it has to be within the patience of the tests.
pub fn until_error<T>(what: &str, mut call: impl FnMut() -> Result<T, NetError>) -> NetError {
    until(what, || call().err())
}
