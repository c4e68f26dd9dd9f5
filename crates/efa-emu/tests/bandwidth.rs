//! Payload bandwidth of writes between two processes beside that of memcpy and of the bare system call that
//! moves the bytes, in one run, over memory that no cache holds: `cargo test --release -p efa-emu --test
//! bandwidth -- --nocapture` prints the table of the README.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a table is printed; test code"
)]

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use efa_fabric::{
    Access, Av, Caps, Context2, Cq, CqBind, CqEntry, CqPoll, Domain, Endpoint, Fabric, Hints,
    Library, Mr, MrMode, MrRequest, PeerAddr, Posted, Source, Target,
};

/// Of each buffer: more than caches hold.
const AREA: usize = 64 << 20;
/// Operations under way at one time.
const WINDOW: usize = 4;
/// Each figure is the best of so many, taken in turn.
const ROUNDS: usize = 3;
const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
const ROLE: &str = "EFA_BENCH_ROLE";
const COPIES: &str = "EFA_EMU_CMA";
const HUGE_PAGES: &str = "EFA_BENCH_HUGE";
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// An open NIC with registered memory.
struct Side {
    ep: Endpoint,
    cq: Cq,
    av: Av,
    mr: Mr,
    memory: *mut u8,
}

impl Side {
    fn new() -> Self {
        let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(std::path::PathBuf::from);
        let library = Library::load(path.as_deref()).unwrap();
        let modes = MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
        let hints = Hints::rdm(Caps::MSG | Caps::RMA)
            .provider(c"efa")
            .mr_mode(modes);
        let list = hints.query(library).unwrap();
        let info = list.iter().next().unwrap().dup().unwrap();
        let fabric = Fabric::open(&info).unwrap();
        let domain = Domain::open(&fabric, &info).unwrap();
        let cq = Cq::open(&domain, 256).unwrap();
        let av = Av::open(&domain).unwrap();
        let mut setup = Endpoint::open(&domain, &info).unwrap();
        setup.bind_cq(&cq, CqBind::TRANSMIT | CqBind::RECV).unwrap();
        setup.bind_av(&av).unwrap();
        let ep = setup.enable().unwrap();
        let memory = area();
        let request = MrRequest::host(memory, AREA, Access::WRITE | Access::REMOTE_WRITE);
        // SAFETY: the memory is never freed.
        let mr = unsafe { Mr::register(&domain, &request) }.unwrap();
        Self {
            ep,
            cq,
            av,
            mr,
            memory,
        }
    }

    fn name(&self) -> String {
        let name = self.ep.name().unwrap();
        name.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn insert(&self, name: &str) -> PeerAddr {
        let byte = |i| u8::from_str_radix(&name[2 * i..2 * i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..name.len() / 2).map(byte).collect();
        self.av.insert(&bytes).unwrap()
    }
}

/// Memory of its own, every page of it there; of huge pages if the environment says so and there are any.
fn area() -> *mut u8 {
    let bytes = Box::leak(vec![0_u8; AREA + HUGE].into_boxed_slice());
    let at = bytes.as_ptr().align_offset(HUGE);
    let bytes = &mut bytes[at..at + AREA];
    let advice = match std::env::var_os(HUGE_PAGES) {
        Some(_) => libc::MADV_HUGEPAGE,
        None => libc::MADV_NOHUGEPAGE,
    };
    // SAFETY: madvise(2): whole pages of memory of our own; contents do not change.
    let _none = unsafe { libc::madvise(bytes.as_mut_ptr().cast(), AREA, advice) };
    bytes.fill(1);
    bytes.as_mut_ptr()
}

/// The target: says what it has, learns who writes, and lives until its input ends.
#[test]
fn target() {
    if std::env::var(ROLE).as_deref() != Ok("target") {
        return;
    }
    let side = Side::new();
    let addr = side.memory.expose_provenance();
    println!("\nHERE {} {addr} {}", side.name(), side.mr.key());
    let mut lines = BufReader::new(std::io::stdin()).lines();
    side.insert(&lines.next().unwrap().unwrap());
    println!("\nKNOWN");
    assert!(lines.next().is_none());
}

/// The least time of a round for each way of moving [`AREA`] bytes in pieces.
type Best = [Duration; 3];

/// What is measured against what.
struct Bench {
    side: Side,
    target: Target,
    pid: libc::pid_t,
    /// Where memcpy goes.
    near: *mut u8,
}

impl Bench {
    fn memcpy(&self, size: usize) {
        for at in (0..AREA).step_by(size) {
            let (from, into) = (
                self.side.memory.wrapping_add(at),
                self.near.wrapping_add(at),
            );
            // SAFETY: two areas of that length, and nobody else uses them now.
            unsafe { into.copy_from_nonoverlapping(from, size) };
        }
        core::hint::black_box(self.near);
    }

    fn bare(&self, size: usize) {
        for at in (0..AREA).step_by(size) {
            let piece = |base: *mut u8| libc::iovec {
                iov_base: base.wrapping_add(at).cast(),
                iov_len: size,
            };
            let near = piece(self.side.memory);
            let remote = usize::try_from(self.target.addr).unwrap();
            let far = piece(core::ptr::with_exposed_provenance_mut(remote));
            // SAFETY: process_vm_writev(2): one piece each; the near one is an area of that length.
            let moved = unsafe {
                libc::process_vm_writev(self.pid, &raw const near, 1, &raw const far, 1, 0)
            };
            assert_eq!(usize::try_from(moved), Ok(size));
        }
    }

    fn writes(&self, size: usize) {
        let mut entries = [CqEntry::EMPTY; WINDOW];
        let contexts: Vec<*mut Context2> = (0..WINDOW)
            .map(|_| Box::into_raw(Box::new(Context2::new())))
            .collect();
        let (mut posted, mut done) = (0, 0);
        let all = AREA / size;
        while done < all {
            while posted < all && posted - done < WINDOW {
                let source = Source {
                    ptr: self.side.memory.wrapping_add(posted * size),
                    len: size,
                    desc: self.side.mr.desc(),
                };
                let target = Target {
                    addr: self.target.addr + (posted * size) as u64,
                    ..self.target
                };
                let context = contexts[posted % WINDOW];
                // SAFETY: memory is never freed; contexts are kept until all is done.
                let taken = unsafe { self.side.ep.post_write(source, target, context) };
                assert_eq!(taken, Ok(Posted::Accepted));
                posted += 1;
            }
            match self.side.cq.read_batch(&mut entries).unwrap() {
                CqPoll::Entries(count) => done += count,
                CqPoll::Empty => {}
                CqPoll::ErrorAvailable => panic!("{:?}", self.side.cq.read_error()),
            }
        }
        for context in contexts {
            // SAFETY: made above, and its operations are over.
            drop(unsafe { Box::from_raw(context) });
        }
    }

    fn best(&self, size: usize) -> Best {
        let mut best = [Duration::MAX; 3];
        for _ in 0..ROUNDS {
            let ways: [fn(&Self, usize); 3] = [Self::memcpy, Self::bare, Self::writes];
            for (best, way) in best.iter_mut().zip(ways) {
                let start = Instant::now();
                way(self, size);
                *best = (*best).min(start.elapsed());
            }
        }
        best
    }
}

/// The initiator: measures, and judges.
#[test]
fn initiator() {
    if std::env::var(ROLE).as_deref() != Ok("initiator") {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "target", "--nocapture"])
        .env(ROLE, "target")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = |starts: &str| {
        let mut found = lines.by_ref().map(Result::unwrap);
        found.find(|line| line.starts_with(starts)).unwrap()
    };
    let side = Side::new();
    let here = line("HERE ");
    let fields: Vec<&str> = here.split(' ').collect();
    writeln!(input, "{}", side.name()).unwrap();
    line("KNOWN");
    let bench = Bench {
        target: Target {
            peer: side.insert(fields[1]),
            addr: fields[2].parse().unwrap(),
            key: fields[3].parse().unwrap(),
        },
        pid: child.id().try_into().unwrap(),
        near: area(),
        side,
    };
    println!("| size | memcpy GB/s | process_vm_writev | emulated | of memcpy | of the call |");
    println!("|---|---|---|---|---|---|");
    for size in SIZES {
        let rates = bench
            .best(size)
            .map(|took| AREA as f64 / took.as_secs_f64() / 1e9);
        let [memcpy, bare, emulated] = rates;
        let kib = size >> 10;
        let (of_memcpy, of_call) = (emulated / memcpy, emulated / bare);
        println!(
            "| {kib} KiB | {memcpy:.1} | {bare:.1} | {emulated:.1} | {of_memcpy:.2} | {of_call:.2} |"
        );
        // What is ours beside the system call, on a machine that may be busy: how far the call is from
        // memcpy is the kernel's.
        // Short ones are about how this test was built, the more the faster the call is; and copies through
        // shared memory about whether the target, which does nothing, gets a processor in time.
        let is_detour = std::env::var(COPIES).as_deref() == Ok("0");
        let least = if size < 256 << 10 || is_detour {
            0.05
        } else {
            0.2
        };
        assert!(
            of_call > least,
            "{kib} KiB: {of_call:.2} of what the call gives"
        );
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn writes_are_nearly_as_fast_as_the_call_that_moves_them() {
    measure(&[]);
}

#[test]
fn and_so_they_are_over_huge_pages() {
    measure(&[(HUGE_PAGES, "1")]);
}

/// Not a hundred times slower, as by a target that looks every few milliseconds.
#[test]
fn where_no_direct_copies_are_permitted_they_keep_up() {
    measure(&[(COPIES, "0")]);
}

#[test]
fn and_so_they_do_over_huge_pages() {
    measure(&[(COPIES, "0"), (HUGE_PAGES, "1")]);
}

/// The limit of the system by itself, in a program without anything of ours.
#[test]
fn the_call_by_itself_in_c() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("vm_writev");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/vm_writev.c"))
        .status();
    match built {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: no cc");
            return;
        }
        built => assert!(built.unwrap().success()),
    }
    let _alone = alone();
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let text = String::from_utf8_lossy(&ran.stdout);
    println!("{text}");
    let rows = text.lines().filter(|line| line.contains(" KiB | "));
    assert_eq!(rows.count(), 2 * SIZES.len(), "{text}");
}

/// One at a time: they would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn measure(set: &[(&str, &str)]) {
    let _alone = alone();
    let this = std::env::current_exe().unwrap();
    let output = Command::new(&this)
        .envs(set.iter().copied())
        .args(["--exact", "initiator", "--nocapture"])
        .env("FI_PROVIDER_PATH", this.parent().unwrap())
        .env("HFI_NO_BACKTRACE", "1")
        .env("IPATH_NO_BACKTRACE", "1")
        .env("EFA_EMU_NICS", "1")
        .env(ROLE, "initiator")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{set:?}\n{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
}
