//! A message between two transports of one process, over a real libfabric:
//! `cargo run -p examples --bin pair`.
//!
//! The connection handle, which a collectives library would carry from host to host by other means,
//! is a variable here. Settings are the plugin's: `FI_PROVIDER` and `OFI_NCCL_*`.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use anyhow::{Result, ensure};
use ofi_net::{Config, MemoryKind, Transport, log::NoLog, params};
use std::sync::Arc;

const BYTES: usize = 1_000_000;

/// The environment's settings, with two rails on a NIC that may be `lo`, and short deadlines.
fn config() -> Result<Config> {
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let pairs = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let (values, mut notes) = params::parse(params::Flavour::Neuron, pairs);
    let mut config = Config::from_values(&values, &mut notes)?;
    config.exclude_tcp_if.clear();
    config.force_num_rails = config.force_num_rails.or(Some(2));
    (config.connect_timeout_ms, config.stall_fail_ms) = (10_000, Some(10_000));
    Ok(config)
}

/// Asks until there is an answer. Nothing in a transport waits, or has a thread of its own: both
/// sides move on by being asked.
fn until<T>(mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        std::thread::yield_now();
    }
}

fn main() -> Result<()> {
    // Declared before the transports, so dropped after them: whatever fails, the bytes stay.
    let mut source: Vec<u8> = (0..=250).cycle().take(BYTES).collect();
    let mut sink = vec![0_u8; BYTES];
    let (from, into) = (source.as_mut_ptr().cast(), sink.as_mut_ptr().cast());
    let a = Transport::init(config()?, Arc::new(NoLog))?;
    let b = Transport::init(config()?, Arc::new(NoLog))?;

    let mut handle = [0; 128];
    let listener = b.listen(0, &mut handle)?;
    let (mut sender, mut receiver) = (None, None);
    let (send, recv) = until(|| {
        sender = sender.map_or_else(|| a.connect(0, &mut handle), |comm| Ok(Some(comm)))?;
        receiver = receiver.map_or_else(|| b.accept(listener), |comm| Ok(Some(comm)))?;
        Ok(sender.zip(receiver))
    })?;
    b.close_listen(listener)?;
    println!("connected over {}", a.properties(0)?.name);

    // SAFETY: both buffers keep their place until the transports are gone.
    let out = unsafe { a.reg_mr(send, from, BYTES, MemoryKind::Host) }?;
    // SAFETY: as above.
    let room = unsafe { b.reg_mr(recv, into, BYTES, MemoryKind::Host) }?;
    // SAFETY: nobody looks at the bytes or changes them before the requests are done.
    let want = until(|| Ok(unsafe { b.irecv(recv, into, BYTES, Some(room), false) }?))?;
    // SAFETY: as above.
    let give = until(|| Ok(unsafe { a.isend(send, from, BYTES, Some(out)) }?))?;
    let (mut gave, mut got) = (None, None);
    let (sent, received) = until(|| {
        gave = gave.map_or_else(|| a.test(give), |bytes| Ok(Some(bytes)))?;
        got = got.map_or_else(|| b.test(want), |bytes| Ok(Some(bytes)))?;
        Ok(gave.zip(got))
    })?;
    a.dereg_mr(send, out)?;
    b.dereg_mr(recv, room)?;
    ensure!(source == sink, "the bytes differ");
    println!("moved {BYTES} bytes, every one as it was: {sent} sent, {received} received");
    a.close_send(send)?;
    b.close_recv(recv)?;
    Ok(())
}
