//! A rank's life: load the plugin, go through the plan, close, tell.

use std::collections::BTreeMap;
use std::time::Instant;

use super::context::Context;
use super::fail::{At as _, Fail};
use super::plan::{Mode, Plan};
use super::{bandwidth, check, collective, latency};
use crate::abi::{Device, Plugin, logger};
use crate::coord::{ControlError, Link, stream::Stream};
use crate::raw;
use crate::report::out;
use crate::report::row::Summary;

/// Serves one rank of a run over `stream`; true if the whole run is good.
pub(crate) fn run(stream: Stream, rank: usize, world: usize, job: String) -> bool {
    let joined = Link::join(stream, rank, world, job);
    let (link, plan) = match joined {
        Ok(both) => both,
        Err(e) => {
            out::error_line(&format!("ofi perf: rank {rank} cannot join: {e}"));
            return false;
        }
    };
    logger::configure(u32::try_from(rank).unwrap_or(u32::MAX), plan.log.level());
    let mut loaded = None;
    let worked = match plan.raw {
        Some(wire) => raw::rank::work(&link, &plan, wire),
        None => work(&link, &plan, &mut loaded),
    };
    let result = worked.and_then(|summary| Ok(link.done(summary)?));
    result.unwrap_or_else(|fail| {
        link.failed(fail.to_string());
        // What is open after this was left open by the plugin, and not by its caller.
        if let Some(plugin) = &mut loaded {
            plugin.close_all();
        }
        false
    })
}

/// Leaves the plugin behind, for what is still open in it.
fn work(link: &Link, plan: &Plan, left: &mut Option<Plugin>) -> Result<Summary, Fail> {
    let (path, symbol, flavor) = plan.plugin_of(link.rank).ok_or(Fail::NoPlugin)?;
    link.board.stage(format!("loading {}", path.display()));
    let start = Instant::now();
    let loaded = Plugin::load(path, symbol, flavor);
    let plugin = left.insert(loaded.at(|| "load the plugin".to_owned())?);
    plugin.stop_when(link.board.ending());
    link.board.stage("init of the plugin");
    plugin.init().at(|| "init".to_owned())?;
    link.board.stage("reading device properties");
    let devices = read_devices(plugin)?;
    let init_ms = start.elapsed().as_secs_f64() * 1e3;
    let chosen = choose(plan, &devices)?;
    let host = hostname();
    let local_ranks = ranks_on(link, &host)?;
    if link.rank == 0 {
        for line in describe(plugin, plan, &devices) {
            link.note(line)?;
        }
    }
    let mut ctx = Context::new(link, plan, plugin, chosen, local_ranks);
    for mode in &plan.modes {
        run_mode(&mut ctx, *mode)?;
    }
    link.board.stage("waiting for the others before closing");
    link.barrier()?;
    let connections = u64::try_from(ctx.mesh.ends()).unwrap_or(u64::MAX);
    ctx.mesh.close(link, plugin)?;
    let (tally, connect_ms) = (ctx.tally, ctx.mesh.connect_ms);
    let name = plugin.name();
    link.board.stage("fini of the plugin");
    plugin.fini().at(|| "fini".to_owned())?;
    Ok(Summary {
        host,
        plugin: name,
        devices,
        init_ms,
        connections,
        connect_ms,
        verified_messages: tally.verified_messages,
        verified_bytes: tally.verified_bytes,
        memory_kib: peak_memory_kib(),
        warnings: logger::warnings(),
        retries: tally.retries,
    })
}

fn run_mode(ctx: &mut Context<'_>, mode: Mode) -> Result<(), Fail> {
    match mode {
        Mode::Lat => latency::run(ctx),
        Mode::Bw | Mode::Bidir | Mode::Rate => bandwidth::run(ctx, mode),
        Mode::Check => check::run(ctx),
        Mode::Allreduce | Mode::Allgather | Mode::Alltoall => collective::run(ctx, mode),
        Mode::All => Mode::EACH.into_iter().try_for_each(|m| run_mode(ctx, m)),
    }
}

fn read_devices(plugin: &Plugin) -> Result<Vec<Device>, Fail> {
    let count = plugin.devices().at(|| "count devices".to_owned())?;
    let read = |d| {
        plugin
            .device(d)
            .at(|| format!("read the properties of device {d}"))
    };
    (0..count).map(read).collect()
}

/// The devices that the communicators are spread over.
fn choose(plan: &Plan, devices: &[Device]) -> Result<Vec<usize>, Fail> {
    let count = devices.len();
    let chosen = if plan.devices.is_empty() {
        (0..count).collect()
    } else {
        plan.devices.clone()
    };
    if let Some(index) = chosen.iter().copied().find(|d| *d >= count) {
        return Err(Fail::NoDevice { index, count });
    }
    let cannot = |d: &usize| devices[*d].reg_is_global == Some(false);
    match chosen.iter().copied().find(cannot) {
        Some(index) if plan.check_plan.truncate => Err(Fail::NoTruncation { index }),
        _ => Ok(chosen),
    }
}

/// How many ranks share this host.
fn ranks_on(link: &Link, host: &str) -> Result<usize, ControlError> {
    link.board.stage("meeting the other ranks");
    let hosts = link.gather(host.as_bytes().to_vec())?;
    let mut count = BTreeMap::new();
    for h in &hosts {
        *count.entry(h.as_slice()).or_insert(0) += 1;
    }
    Ok(count.get(host.as_bytes()).copied().unwrap_or(1))
}

fn describe(plugin: &Plugin, plan: &Plan, devices: &[Device]) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, path) in plan.plugins.iter().enumerate() {
        let (_, symbol, flavor) = plan.plugin_of(i).unwrap_or((path, "", plan.flavors[0]));
        lines.push(format!(
            "plugin {} ({symbol}, {})",
            path.display(),
            flavor.name()
        ));
    }
    lines.push(format!(
        "{}: {} device(s); {} ranks, seed {}",
        plugin.name(),
        devices.len(),
        plan.ranks,
        plan.seed
    ));
    for (i, d) in devices.iter().enumerate() {
        lines.push(format!(
            "  device {i}: {}, {}, {} communicators at most{}",
            d.name,
            speed(d.speed_mbps),
            d.max_comms,
            d.pci_path
                .as_ref()
                .map(|p| format!(", {p}"))
                .unwrap_or_default(),
        ));
    }
    lines
}

/// Plugins say 0 for a link whose speed they cannot read.
fn speed(mbps: i32) -> String {
    if mbps > 0 {
        format!("{:.1} Gb/s", f64::from(mbps) / 1e3)
    } else {
        "speed unknown".to_owned()
    }
}

pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// `VmHWM` of proc(5); 0 where it cannot be read.
pub(crate) fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_of_zero_is_unknown() {
        assert_eq!(speed(100_000), "100.0 Gb/s");
        assert_eq!(speed(0), "speed unknown");
        assert_eq!(speed(-1), "speed unknown");
    }
}
