//! What the tests share: running a scenario on every provider, each in a process of its own (libfabric
//! reads `FI_PROVIDER` once), and two transports connected to each other.
#![expect(clippy::unwrap_used, reason = "test code")]
#![expect(
    unreachable_pub,
    dead_code,
    reason = "compiled into several test binaries"
)]

pub mod emulated;
pub mod peer;

use core::cell::RefCell;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::time::Duration;
use ofi_net::log::{Level, Line, Log};
use ofi_net::params::Flavour;
use ofi_net::{CommWord, Config, MemoryKind, MrWord, NetError, Protocol, ReqWord, Transport};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

/// Nothing here takes so long, on any provider.
pub const PATIENCE: Duration = Duration::from_secs(60);

const SCENARIO: &str = "OFI_NET_TEST_SCENARIO";

/// libfabric to test with: its directory or file, as the fabric tests take it.
fn library_path() -> Option<PathBuf> {
    std::env::var_os("OFI_LIBFABRIC_PATH").map(Into::into)
}

/// Whether the libfabric under test is older than this.
pub fn version_is_below(version: efa_fabric::Version) -> bool {
    let library = efa_fabric::Library::load(library_path().as_deref());
    library.is_ok_and(|library| efa_fabric::Version::of(library) < version)
}

/// The providers that can carry the protocol here, by the version loaded.
fn providers() -> Result<Vec<&'static str>, String> {
    let library =
        efa_fabric::Library::load(library_path().as_deref()).map_err(|e| e.to_string())?;
    let old = efa_fabric::Version::of(library) < efa_fabric::Version::new(1, 18);
    Ok(if old {
        vec!["tcp;ofi_rxm", "net", "shm", emulated::EFA]
    } else {
        vec!["tcp", "shm", emulated::EFA]
    })
}

/// Runs `scenario` once for each provider, in a child process that runs only the test `name`.
pub fn on_each_provider(name: &str, scenario: fn()) {
    on_providers(name, |_| true, scenario);
}

/// As [`on_each_provider`], for scenarios with two transports in one process. shm of libfabric 2.x
/// follows a null pointer when two endpoints of one process answer each other with more than an inline
/// message (seen with bare libfabric 2.5.1), so it is left out there, by name.
pub fn in_one_process(name: &str, scenario: fn()) {
    on_providers(name, is_sound_in_one_process, scenario);
}

fn is_sound_in_one_process(provider: &str) -> bool {
    let skipped = provider == "shm" && !version_is_below(efa_fabric::Version::new(2, 0));
    if skipped {
        say("skipped: shm of libfabric 2.x with two endpoints in one process");
    }
    !skipped
}

/// As [`in_one_process`], for scenarios that close endpoints while a peer writes to them: `ofi_rxm` of
/// libfabric 1.17 follows a null pointer then (seen with bare libfabric: an endpoint that has half of a
/// write when it is closed), so it is left out, by name.
pub fn breaking(name: &str, scenario: fn()) {
    on_providers(
        name,
        |provider| {
            let skipped = provider.contains("ofi_rxm");
            if skipped {
                say("skipped: ofi_rxm of libfabric 1.17, closed with half of a write received");
            }
            !skipped && is_sound_in_one_process(provider)
        },
        scenario,
    );
}

/// As [`in_one_process`], for scenarios that choose keys: EFA chooses its own, of 32 bits.
pub fn with_keys_of_ours(name: &str, scenario: fn()) {
    on_providers(
        name,
        |provider| provider != emulated::EFA && is_sound_in_one_process(provider),
        scenario,
    );
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
        let output = bounded(child(name, provider));
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
        // What a scenario sums up.
        let said = text
            .lines()
            .filter_map(|line| line.find("swept: ").map(|at| &line[at..]));
        said.for_each(say);
    }
}

/// Runs it to its end, or kills it: a call of the provider that never returns is a failure with the output
/// so far, not a test that hangs.
fn bounded(mut command: Command) -> Output {
    let process = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // With the peers it starts.
        .process_group(0)
        .spawn()
        .unwrap();
    let (done, ended) = mpsc::channel::<()>();
    let group = format!("-{}", process.id());
    let guard = std::thread::spawn(move || {
        if ended.recv_timeout(3 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            say(&format!(
                "group {group} is still there after {:?}",
                3 * PATIENCE
            ));
            Command::new("kill")
                .args(["-ABRT", "--", &group])
                .status()
                .unwrap();
        }
    });
    let output = process.wait_with_output().unwrap();
    drop(done);
    guard.join().unwrap();
    output
}

/// This test binary again, to run the test `name` with `provider`.
pub fn child(name: &str, provider: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(SCENARIO, name).env("FI_PROVIDER", provider);
    command
        .env("FI_OFI_RXM_MSG_TX_SIZE", "256")
        .env("FI_OFI_RXM_MSG_RX_SIZE", "256");
    if provider == emulated::EFA {
        emulated::dress(&mut command);
    }
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

/// The end of two sides of which nothing went wrong: nobody is warned of anything, closing included, and the
/// log says with whom each was connected.
pub fn end_quietly(sides: (Side, Side)) {
    let logs = [&sides.0, &sides.1].map(|side| Arc::clone(&side.log));
    drop(sides);
    for log in logs {
        assert_eq!(log.at(Level::Warn), Vec::<String>::new());
        let lines = log.at(Level::Info);
        let mut connections = lines.iter().filter(|line| line.contains(" connected, "));
        assert!(connections.clone().count() > 0, "{lines:?}");
        assert!(
            connections.all(|line| line.contains(": peer ")),
            "{lines:?}"
        );
    }
}

impl Log for Lines {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn log(&self, line: &Line) {
        let line = (line.level(), line.text().to_owned());
        self.0.lock().unwrap().push(line);
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
        efa_iface: std::env::var("FI_EFA_IFACE").ok(),
        exclude_tcp_if: Vec::new(),
        // The emulated EFA works on any libfabric.
        efa_version_check: false,
        protocol: Some(Protocol::Rdma),
        force_num_rails: Some(rails),
        connect_timeout_ms: 20_000,
        stall_fail_ms: Some(30_000),
        ..Config::new(Flavour::Neuron)
    }
}

/// As [`config`], for the other protocol.
pub fn sendrecv() -> Config {
    Config {
        protocol: Some(Protocol::SendRecv),
        ..config(1)
    }
}

/// A transport with its log.
pub struct Side {
    pub net: Arc<Transport>,
    pub log: Arc<Lines>,
    /// Nobody connects to it: asking it makes progress and nothing else.
    spare: CommWord,
}

thread_local! {
    static WATCHED: RefCell<Vec<(Weak<Transport>, CommWord)>> = const { RefCell::new(Vec::new()) };
}

impl Side {
    pub fn new(config: Config) -> Self {
        let log = Arc::new(Lines::default());
        let sink: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
        let net = Transport::init(config, sink).unwrap_or_else(|error| {
            panic!("init: {error}\n{:?}", log.at(Level::Info));
        });
        let spare = net.listen(0, &mut [0; 128]).unwrap();
        let side = Self {
            net: Arc::new(net),
            log,
            spare,
        };
        side.watch();
        side
    }

    /// A listener to which nobody connects.
    pub fn spare(&self) -> CommWord {
        self.spare
    }

    /// Whatever this thread waits for, this side makes progress meanwhile: a peer does so in another
    /// process, and connections of some providers are made only then.
    pub fn watch(&self) {
        WATCHED.with_borrow_mut(|watched| watched.push((Arc::downgrade(&self.net), self.spare)));
    }
}

fn nudge() {
    WATCHED.with_borrow_mut(|watched| {
        watched.retain(|(net, spare)| match net.upgrade() {
            Some(net) => {
                assert_eq!(net.accept(*spare).unwrap(), None);
                true
            }
            None => false,
        });
    });
}

/// Asks until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        nudge();
        peer::die_if_asked();
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

/// Registered bytes of the test. Kept for good unless [`Buffer::free`] ends the registration: a failed
/// assertion unwinds while the network still writes.
pub struct Buffer {
    pub bytes: ManuallyDrop<Vec<u8>>,
    pub mr: MrWord,
}

impl Buffer {
    pub fn new(net: &Transport, comm: CommWord, bytes: Vec<u8>) -> Self {
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        // SAFETY: the vector keeps its place, and lives until `free`.
        let mr = unsafe { net.reg_mr(comm, start, len, MemoryKind::Host) }.unwrap();
        Self {
            bytes: ManuallyDrop::new(bytes),
            mr,
        }
    }

    /// Where byte `at` is.
    pub fn at(&mut self, at: usize) -> *mut c_void {
        self.bytes.as_mut_ptr().wrapping_add(at).cast()
    }

    pub fn free(self, net: &Transport, comm: CommWord) -> Vec<u8> {
        net.dereg_mr(comm, self.mr).unwrap();
        ManuallyDrop::into_inner(self.bytes)
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| pattern_byte(seed, at)).collect()
}

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
    until("isend", || {
        // SAFETY: the buffer lives until the request was tested or its region deregistered.
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
    irecv_into(net, comm, (buffer.at(at), len), buffer.mr)
}

/// As [`irecv`], into memory that stays mapped for good.
pub fn irecv_into(
    net: &Transport,
    comm: CommWord,
    (start, len): (*mut c_void, usize),
    mr: MrWord,
) -> ReqWord {
    until("irecv", || {
        // SAFETY: as for `isend`.
        unsafe { net.irecv(comm, start, len, Some(mr), false) }.unwrap()
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

/// A listener on device 0 and its handle.
pub fn listen(net: &Transport) -> (CommWord, [u8; 128]) {
    let mut handle = [0; 128];
    (net.listen(0, &mut handle).unwrap(), handle)
}

/// Drives a connect to its end.
pub fn connect_to(net: &Transport, handle: &mut [u8; 128]) -> CommWord {
    until("connect", || net.connect(0, handle).unwrap())
}

/// Drives an accept to its end.
pub fn accept_from(net: &Transport, listener: CommWord) -> CommWord {
    let comm = until("accept", || net.accept(listener).unwrap());
    net.close_listen(listener).unwrap();
    comm
}

/// Tests a request until it is done.
pub fn wait(net: &Transport, request: ReqWord) -> u64 {
    until("a request", || net.test(request).unwrap())
}

/// Numbers that look random and are the same each time.
pub struct Lcg(pub u64);

impl Lcg {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
