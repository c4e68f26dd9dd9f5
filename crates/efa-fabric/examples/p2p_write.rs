//! A write with immediate data between two processes: `cargo run -p efa-fabric --example p2p_write`.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use core::error::Error;
use std::process::Command;

use efa_fabric::{Access, Buffer, Caps, Exposed, Hints, Incoming, Library, Port, Submitted};

fn open() -> Result<Port, Box<dyn Error>> {
    let hints = Hints::rdm(Caps::MSG | Caps::RMA).provider(c"tcp;ofi_rxm");
    Ok(Port::open(hints.query(Library::load(None)?)?.first())?)
}

/// Exposes memory, starts the writer with its address and key, and waits to be told.
fn target() -> Result<(), Box<dyn Error>> {
    let mut port = open()?;
    let memory = Exposed::zeroed(port.domain(), 64, Access::REMOTE_WRITE)?;
    let numbers = [memory.address(), memory.key()].map(|n| n.to_string());
    let name = port.name()?.into_iter().map(|byte| byte.to_string());
    let mut writer = Command::new(std::env::current_exe()?);
    let mut writer = writer.args(numbers).args(name).spawn()?;
    while writer.try_wait()?.is_none_or(|status| status.success()) {
        port.poll()?;
        if let Some(Incoming::Immediate { data, .. }) = port.next_incoming() {
            let mut bytes = [0; 5];
            memory.read_at(0, &mut bytes);
            println!("told {data:#x}, bytes {:?}", core::str::from_utf8(&bytes)?);
            return Ok(writer.wait().map(drop)?);
        }
    }
    Err("the writer failed".into())
}

/// Writes into the memory of the process that started this one.
fn writer(address: &str, key: &str, name: &[String]) -> Result<(), Box<dyn Error>> {
    let mut port = open()?;
    let name: Result<Vec<u8>, _> = name.iter().map(|byte| byte.parse()).collect();
    let peer = port.insert(&name?)?;
    // SAFETY: the other process exposes 64 bytes there until this one is done.
    let region = unsafe { peer.region(address.parse()?, key.parse()?, 64) };
    let mut buffer = Buffer::from_bytes(port.domain(), b"hello".to_vec())?;
    let ticket = loop {
        port.poll()?;
        match port.write(buffer, 0..5, region, Some(0xc0de))? {
            Submitted::Pending(ticket) => break ticket,
            Submitted::Busy(back) => buffer = back, // not connected yet
        }
    };
    while !ticket.is_done() {
        port.poll()?;
    }
    Ok(ticket.take().map_err(|_| "no result")?.outcome.map(drop)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [address, key, name @ ..] => writer(address, key, name),
        _ => target(),
    }
}
