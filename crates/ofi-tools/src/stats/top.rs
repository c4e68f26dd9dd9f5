//! `ofi top`: what processes do now.

use core::time::Duration;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::rates::{By, Rate, Rates};
use super::source::{Life, Source};
use super::text::bytes;
use super::{NOBODY, Where, nothing};
use crate::report::out;

/// Rows of each kind.
const ROWS: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    place: Where,
    /// One look at what happens in --interval, then the end
    #[arg(long)]
    once: bool,
    /// A JSON object for each look, one a line
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// What rows are sorted by
    #[arg(long, value_enum, default_value = "bytes")]
    sort: By,
}

/// Prints rates until it is stopped. With --once: 1 if a file is none or damaged; 2 if there is nothing to look at.
pub(crate) fn run(args: &TopArgs) -> ExitCode {
    if !(args.interval >= 0.01 && args.interval <= 3600.0) {
        let error = format!("--interval is {}; it can be 0.01 to 3600", args.interval);
        return nothing("top", &error);
    }
    let mut failed = false;
    let mut look = || -> Result<(Instant, Vec<Source>, bool), String> {
        let files = args.place.files()?;
        let (mut sources, has_bad) = Source::open_all(&files, &args.place.root, "top");
        sources.retain(|source| matches!(source.life, Life::Live | Life::Elsewhere));
        failed |= has_bad;
        Ok((Instant::now(), sources, failed))
    };
    let mut before = match look() {
        Ok(looked) => looked,
        Err(error) => return nothing("top", &error),
    };
    loop {
        sleep(Duration::from_secs_f64(args.interval));
        let now = match look() {
            Ok(looked) => looked,
            Err(error) => return nothing("top", &error),
        };
        let seconds = now.0.duration_since(before.0).as_secs_f64();
        let mut rates = Rates::between(&before.1, &now.1, seconds);
        rates.sort(args.sort);
        if args.json {
            out::line(&object(&rates, seconds).to_string());
        } else {
            // Over what the last look left, if this one is not the only one.
            if !args.once {
                out::clear();
            }
            out::line(&page(&rates));
        }
        if args.once && now.1.is_empty() && !now.2 {
            return nothing("top", NOBODY);
        }
        if args.once {
            return ExitCode::from(u8::from(now.2));
        }
        before = now;
    }
}

fn page(rates: &Rates) -> String {
    let mut lines = Vec::new();
    for (name, count, rows) in [
        ("process", "messages/s", &rates.processes),
        ("rail", "segments/s", &rates.rails),
        ("communicator", "messages/s", &rates.comms),
    ] {
        lines.push(format!(
            "{:<16} {:>8} {:<34} {:>13} {:>13} {:>12} {:>10}",
            "host", "pid", name, "sent/s", "received/s", count, "EAGAIN/s"
        ));
        lines.extend(rows.iter().take(ROWS).map(row));
        if rows.len() > ROWS {
            lines.push(format!("and {} more: see --json", rows.len() - ROWS));
        }
        lines.push(String::new());
    }
    if !rates.nics.is_empty() {
        lines.push(format!(
            "{:<16} {:<16} {:<34} {:>12}",
            "host", "NIC", "what it counts itself", "/s"
        ));
        let nics = rates.nics.iter().take(ROWS);
        lines.extend(nics.map(|nic| {
            format!(
                "{:<16} {:<16} {:<34} {:>12.0}",
                nic.host, nic.nic, nic.counter, nic.per_second
            )
        }));
        lines.push(String::new());
    }
    lines.join("\n")
}

fn row(rate: &Rate) -> String {
    format!(
        "{:<16} {:>8} {:<34} {:>13} {:>13} {:>12.0} {:>10.0}",
        rate.host,
        rate.pid,
        rate.what,
        whole(rate.sent_bytes),
        whole(rate.received_bytes),
        rate.messages,
        rate.busy
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are no less than 0, and what is beyond 2^64 is shown as that"
)]
fn whole(rate: f64) -> String {
    bytes(rate.round() as u64)
}

fn object(rates: &Rates, seconds: f64) -> Value {
    let rows = |rows: &[Rate]| -> Vec<Value> {
        let row = |rate: &Rate| {
            json!({
                "host": rate.host,
                "pid": rate.pid,
                "what": rate.what,
                "sent_bytes_per_s": rate.sent_bytes,
                "received_bytes_per_s": rate.received_bytes,
                "messages_per_s": rate.messages,
                "busy_per_s": rate.busy,
            })
        };
        rows.iter().map(row).collect()
    };
    let nics = rates.nics.iter().map(|nic| {
        json!({
            "host": nic.host,
            "nic": nic.nic,
            "counter": nic.counter,
            "per_s": nic.per_second,
        })
    });
    json!({
        "version": 1,
        "seconds": seconds,
        "processes": rows(&rates.processes),
        "rails": rows(&rates.rails),
        "nics": nics.collect::<Vec<_>>(),
        "comms": rows(&rates.comms),
    })
}
