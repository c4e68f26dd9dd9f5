//! A progress pass of one host: completion queues into the engine, and the engine's outputs out,
//! as `ofi-net` does it.

use core::fmt::Debug;

use ofi_rdma::{Dialect, Engine, Event, RxFate, RxId, Token};

use crate::ledger::{Part, SEND};
use crate::post::Port;
use crate::report::What;
use crate::view::{Control, immediate};
use crate::world::{CqEntry, World};

/// Entries read from one completion queue before the next has its turn.
const BATCH: u64 = 16;

/// Reads the completion queues of a host into its engine. True when anything was there.
pub(crate) fn progress<D: Dialect>(world: &mut World, engine: &mut Engine<D>, host: u8) -> bool {
    let rails = world.config.rails;
    let mut any = false;
    world.node_mut(host).woken = false;
    for rail in 0..rails {
        // A short read now and then leaves entries for the next pass.
        let batch = if world.rng.chance(200_000) {
            world.rng.between(1, BATCH)
        } else {
            BATCH
        };
        for _ in 0..batch {
            let Some(entry) = world.node_mut(host).cq[usize::from(rail)].pop_front() else {
                break;
            };
            any = true;
            feed(world, engine, host, rail, entry);
        }
        let left = !world.node(host).cq[usize::from(rail)].is_empty();
        world.node_mut(host).woken |= left;
    }
    drain(world, engine, host);
    any
}

/// Takes everything that the engine puts out.
pub(crate) fn drain<D: Dialect>(world: &mut World, engine: &mut Engine<D>, host: u8) {
    engine.pump(&mut Port { world, host });
    while let Some(rx) = engine.take_released() {
        let node = world.node_mut(host);
        let known = usize::from(rx.rail) < node.bounce.len()
            && node.bounce[usize::from(rx.rail)].release(rx.index, &mut node.memory);
        if known {
            world.eager_reposted(host, rx.rail);
        } else {
            world.violation(format!(
                "host {host} gives back {rx:?}, which it did not hold"
            ));
        }
    }
    while let Some(event) = engine.poll_event() {
        match event {
            Event::Stray(_)
            | Event::Connected { .. }
            | Event::EagerCapped { .. }
            | Event::Failed(..) => {}
            Event::Stalled { .. } => world.report.stalls += 1,
        }
    }
}

fn feed<D: Dialect>(world: &mut World, engine: &mut Engine<D>, host: u8, rail: u8, entry: CqEntry) {
    match entry {
        CqEntry::Local { token, owner } => {
            world.note(host, What::Complete, token.0, 0);
            world.settle(owner);
            engine.on_local(token);
            remember(world, engine, host, rail, token);
        }
        CqEntry::Failed {
            token,
            cause,
            owner,
        } => {
            world.note(host, What::Complete, token.0, 1);
            world.taint(owner);
            world.settle(owner);
            engine.on_failed(token, cause);
        }
        CqEntry::RemoteWrite { data, len } => {
            world.note(host, What::Write, data, len.unwrap_or(0));
            let stray = world.is_stray(host, immediate(data));
            let before = engine.counters().strays;
            engine.on_remote_write(rail, data, len);
            stray_counted(
                world,
                engine,
                host,
                before,
                stray.then_some(&entry as &dyn Debug),
            );
        }
        CqEntry::Control { op } => feed_control(world, engine, host, rail, op),
        CqEntry::Eager { imm, len, rx } => feed_eager(world, engine, host, imm, len, rx),
    }
}

/// Now and then a completion comes again, when its operation is long over.
fn remember<D: Dialect>(
    world: &mut World,
    engine: &mut Engine<D>,
    host: u8,
    rail: u8,
    token: Token,
) {
    let due = world.node(host).old_token.is_some() && world.rng.chance(100_000);
    if let Some((old_rail, old)) = world.node_mut(host).old_token.take_if(|_| due) {
        // The token may have been given to a new operation in the meantime: tokens carry a
        // generation, so it may not.
        let before = engine.counters().strays;
        engine.on_local(old);
        world.report.faults.strays += 1;
        let another = old != token || old_rail != rail;
        stray_counted(
            world,
            engine,
            host,
            before,
            another.then_some(&old as &dyn Debug),
        );
    }
    if world.node(host).old_token.is_none() && world.rng.chance(world.config.faults.stray_ppm) {
        world.node_mut(host).old_token = Some((rail, token));
    }
}

fn stray_counted<D: Dialect>(
    world: &mut World,
    engine: &Engine<D>,
    host: u8,
    before: u64,
    stray: Option<&dyn Debug>,
) {
    if let Some(what) = stray.filter(|_| engine.counters().strays == before) {
        world.violation(format!("host {host} took {what:x?}, which is for nobody"));
    }
}

fn feed_control<D: Dialect>(
    world: &mut World,
    engine: &mut Engine<D>,
    host: u8,
    rail: u8,
    op: u32,
) {
    let bytes = core::mem::take(&mut world.ops.get_mut(op).bytes);
    let owner = world.ops.get(op).owner;
    let first = bytes
        .first_chunk()
        .map_or(0, |word| u32::from_le_bytes(*word));
    world.note(host, What::Control, first.into(), bytes.len() as u64);
    if let Some(owner) = owner.filter(|o| o.part == Part::Ctrl) {
        note_ctrl(world, owner.link, owner.life, owner.k);
    }
    let message = Control::read(&bytes);
    // A sender that closed and still drains takes CLOSE, and counts CTRLs until it heard CLOSE: for
    // nobody, and nothing changes.
    let heard = match message {
        Control::Close { .. } => true,
        Control::Ctrl { .. } => world.config.close_messages,
        _ => false,
    };
    let unknown = owner.is_none() && !heard;
    let before = engine.counters().strays;
    engine.on_control(&bytes);
    stray_counted(
        world,
        engine,
        host,
        before,
        unknown.then_some(&message as &dyn Debug),
    );
    if let Control::ConnResp { .. } = message {
        if let Some(owner) = owner {
            world.ledger.link_mut(owner.link).answered = true;
        }
    }
    world.ops.get_mut(op).bytes = bytes;
    world.ops.release(op);
    world.control_reposted(host, rail);
}

fn note_ctrl(world: &mut World, link: u16, life: u32, k: u64) {
    let truth = world.ledger.link_mut(link);
    if truth.life == life {
        truth.rings[SEND].note_ctrl(k);
        world.report.faults.overtaken += u64::from(!truth.answered);
    }
}

fn feed_eager<D: Dialect>(
    world: &mut World,
    engine: &mut Engine<D>,
    host: u8,
    imm: u32,
    len: u32,
    rx: RxId,
) {
    world.note(host, What::Eager, imm.into(), len.into());
    let stray = world.is_stray(host, imm);
    let before = engine.counters().strays;
    let fate = engine.on_eager(imm, len, rx);
    stray_counted(
        world,
        engine,
        host,
        before,
        stray.then_some(&(imm, len) as &dyn Debug),
    );
    let node = world.node_mut(host);
    let bounce = &mut node.bounce[usize::from(rx.rail)];
    match fate {
        RxFate::Repost => bounce.repost(rx.index),
        RxFate::Held => bounce.hold(rx.index, &mut node.memory),
    }
    world.eager_reposted(host, rx.rail);
}
