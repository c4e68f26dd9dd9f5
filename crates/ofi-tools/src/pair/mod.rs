//! `ofi pair`: our transport between two hosts, with nothing else installed, and why it does not work.
//!
//! ```text
//! listen | connect --> talk (TCP: hello, handles, steps) --> agree
//!     transport (libfabric) --> lane (a device, both directions) --> measure (verify, latency, bandwidth)
//! any of them fails --> cause (ranked, by stage, provider, place)
//! ```

mod cause;
mod door;
mod lane;
mod measure;
mod talk;
mod versions;
mod watch;

use core::time::Duration;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ofi_net::{Accelerators, Config, Transport, log::NoLog, params};
use serde_json::json;

use crate::coord::stream::Address;
use crate::report::out;
use cause::{Failure, Place, Stage, ranked};
use lane::Lane;
use measure::{Row, Side};
use talk::{DeviceSaid, Hello, Talk, printable};
use watch::Watch;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// Raised when a field of the JSON changes its meaning or goes.
const SCHEMA: u32 = 1;
/// Where the two meet unless told otherwise.
const PORT: u16 = 7174;

#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    #[command(subcommand)]
    role: Role,
    /// Seconds that the other side may take to come
    #[arg(long, global = true, default_value_t = 120.0, value_parser = seconds)]
    wait: f64,
    /// Seconds that a connection or a message may take
    #[arg(long, global = true, default_value_t = 10.0, value_parser = seconds)]
    deadline: f64,
    /// Print JSON in place of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Waits for the other host
    Listen {
        /// Address and port to wait at
        #[arg(long, default_value_t = format!("0.0.0.0:{PORT}"))]
        addr: String,
    },
    /// Goes to the host that listens
    Connect {
        /// Its name or address, and the port (7174 if none is given)
        address: String,
    },
}

fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    read.ok_or_else(|| "it is more than 0, up to 86400".to_owned())
}

/// Runs one side, and prints what came of it.
pub(crate) fn run(args: &PairArgs) -> ExitCode {
    let mut seen = Seen::default();
    let watch = Watch::start(Duration::from_secs_f64(args.deadline));
    let result = side(args, &watch, &mut seen);
    watch.end();
    if let Err(Failure {
        stage: Stage::Agree,
        what,
    }) = &result
    {
        if let Some(usage) = what.strip_prefix(BAD_ADDRESS) {
            out::error_line(&format!("ofi pair: {usage}"));
            return ExitCode::from(USAGE);
        }
    }
    report(args, &seen, result.as_ref().err());
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}

/// How a failure begins that is the command line's.
const BAD_ADDRESS: &str = "bad address: ";

/// What is known at the end, whichever it is.
#[derive(Debug, Default)]
struct Seen {
    place: Place,
    here: Option<Hello>,
    there: Option<Hello>,
    rows: Vec<Row>,
    warnings: Vec<String>,
}

fn side(args: &PairArgs, watch: &Watch, seen: &mut Seen) -> Result<(), Failure> {
    let deadline = Duration::from_secs_f64(args.deadline);
    watch.at(Stage::Start, "starting libfabric");
    let transport = transport(deadline, None)?;
    let hello = hello(&transport)?;
    seen.place.provider = hello
        .devices
        .first()
        .map(|d| d.provider.clone())
        .unwrap_or_default();
    seen.here = Some(hello.clone());
    watch.idle();
    let wait = Duration::from_secs_f64(args.wait);
    let (mut talk, theirs, side) = meet(&args.role, wait, &hello)?;
    seen.place.is_same_host = Some(theirs.boot == hello.boot && theirs.host == hello.host);
    versions::compare(&hello, &theirs, &mut seen.place, &mut seen.warnings);
    seen.there = Some(theirs.clone());
    let done = agree(&hello, &theirs, &mut seen.warnings)
        .and_then(|()| passes(transport, (&hello, &theirs), (side, &mut talk, watch), seen));
    if let Err(failure) = &done {
        talk.failed(&format!("{}: {}", failure.stage, failure.what));
    }
    done
}

fn meet(role: &Role, wait: Duration, hello: &Hello) -> Result<(Talk, Hello, Side), Failure> {
    let bad = |e: String| Failure::new(Stage::Agree, format_args!("{BAD_ADDRESS}{e}"));
    match role {
        Role::Listen { addr } => {
            let listener = TcpListener::bind(with_port(addr));
            let listener = listener.map_err(|e| bad(format!("--addr {addr}: {e}")))?;
            let at = listener
                .local_addr()
                .map_err(|e| Failure::new(Stage::Nobody, e))?;
            let there = if at.ip().is_unspecified() {
                format!("{}:{}", hello.host, at.port())
            } else {
                at.to_string()
            };
            out::error_line(&format!(
                "ofi pair: listening at {at}; on the other host: ofi pair connect {there}"
            ));
            let (talk, theirs) = Talk::accept(&listener, wait, hello)?;
            Ok((talk, theirs, Side::Listener))
        }
        Role::Connect { address } => {
            let address: Address = with_port(address).parse().map_err(bad)?;
            let (talk, theirs) = Talk::connect(&address, wait, hello)?;
            Ok((talk, theirs, Side::Connector))
        }
    }
}

/// An address with a port, ours where none is given. An address of IPv6 stands in brackets then: `::1` is one
/// without a port.
fn with_port(address: &str) -> String {
    let is_whole = address.starts_with('[') || address.starts_with("unix:");
    if !is_whole && address.matches(':').count() > 1 {
        format!("[{address}]:{PORT}")
    } else if !address.contains(':') || address.ends_with(']') {
        format!("{address}:{PORT}")
    } else {
        address.to_owned()
    }
}

/// A transport of this process's environment; `alone`: each NIC a device, and this protocol.
fn transport(deadline: Duration, alone: Option<ofi_net::Protocol>) -> Result<Transport, Failure> {
    let failed = |e: ofi_net::NetError| Failure::new(Stage::Start, e);
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let pairs = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let (values, mut notes) = params::parse(params::Flavour::Nccl, pairs);
    let mut config = Config::from_values(&values, &mut notes).map_err(failed)?;
    let ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    (config.connect_timeout_ms, config.stall_fail_ms) = (ms, Some(ms));
    if let Some(protocol) = alone {
        config.protocol = Some(protocol);
        (config.group_by, config.nic_groups) = (Accelerators::NONE, None);
        config.force_num_rails = None;
    }
    Transport::init(config, Arc::new(NoLog)).map_err(failed)
}

fn hello(transport: &Transport) -> Result<Hello, Failure> {
    let failed = |e: ofi_net::NetError| Failure::new(Stage::Start, e);
    let count = transport.devices().map_err(failed)?;
    let said = |dev| {
        let rails = transport.rail_names(dev).map_err(failed)?;
        Ok(DeviceSaid {
            provider: rails
                .first()
                .map(|(provider, _)| provider.clone())
                .unwrap_or_default(),
            rails: rails.into_iter().map(|(_, name)| name).collect(),
        })
    };
    let devices = (0..count).map(said).collect::<Result<Vec<_>, Failure>>()?;
    let versions = versions::of(transport).map_err(failed)?;
    let speaks = transport.protocol().to_string();
    Ok(Hello::new(speaks, versions, devices))
}

/// What would keep the two from each other is told before anything hangs.
fn agree(here: &Hello, there: &Hello, warnings: &mut Vec<String>) -> Result<(), Failure> {
    let differ = |what: &str, a: &str, b: &str| {
        let (at, b) = (printable(&there.host), printable(b));
        Err(Failure::new(
            Stage::Agree,
            format_args!("{what}: {a} here, {b} on {at}"),
        ))
    };
    if here.speaks != there.speaks {
        return differ("protocols", &here.speaks, &there.speaks);
    }
    for (number, (a, b)) in here.devices.iter().zip(&there.devices).enumerate() {
        if a.provider != b.provider {
            return differ("providers", &a.provider, &b.provider);
        }
        if a.rails.len() != b.rails.len() {
            let (a, b) = (a.rails.len().to_string(), b.rails.len().to_string());
            return differ(&format!("rails of device {number}"), &a, &b);
        }
    }
    if there.devices.is_empty() {
        return Err(Failure::new(Stage::Agree, "the other side has no device"));
    }
    if here.devices.len() != there.devices.len() {
        let (a, b) = (here.devices.len(), there.devices.len());
        warnings.push(format!(
            "{a} devices here, {b} there: only the first ones are tried"
        ));
    }
    Ok(())
}

type Script<'a> = (Side, &'a mut Talk, &'a Watch);

/// All devices as a job has them; then each NIC alone, where devices have several.
fn passes(
    transport: Transport,
    (here, there): (&Hello, &Hello),
    (side, talk, watch): Script<'_>,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let limit = Duration::from_millis(transport.config().connect_timeout_ms);
    let protocol = transport.protocol();
    let both = here.devices.len().min(there.devices.len());
    pass(&transport, &here.devices[..both], (side, talk, watch), seen)?;
    drop(transport);
    if !(has_several(here) && has_several(there)) {
        return Ok(());
    }
    watch.at(Stage::Start, "starting again with each NIC alone");
    let each = self::transport(limit, Some(protocol))?;
    let mut mine = hello(&each)?;
    let count = f64::from(u32::try_from(mine.devices.len()).unwrap_or(0));
    let theirs = talk.step("alone", count)?;
    // NICs are compared by number: one host may have more of them.
    let both = theirs.min(count);
    let numbers = (0..)
        .take_while(|number: &u32| f64::from(*number) < both)
        .count();
    mine.devices.truncate(numbers);
    pass(&each, &mine.devices, (side, talk, watch), seen)
}

fn has_several(hello: &Hello) -> bool {
    let several = |device: &DeviceSaid| device.rails.iter().any(|rail| *rail != device.rails[0]);
    hello.devices.iter().any(several)
}

fn pass(
    transport: &Transport,
    devices: &[DeviceSaid],
    (side, talk, watch): Script<'_>,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let limit = Duration::from_millis(transport.config().connect_timeout_ms);
    let is_alone = !seen.rows.is_empty();
    for (dev, said) in devices.iter().enumerate() {
        let names = said.rails.join(", ");
        let tell = |failure: Failure| Failure {
            what: format!("device {dev} ({names}): {}", failure.what),
            ..failure
        };
        watch.at(
            Stage::Connect,
            &format!("connecting device {dev} ({names})"),
        );
        let lane = Lane::open(transport, dev, talk, limit).map_err(tell)?;
        watch.at(
            Stage::Data,
            &format!("moving messages on device {dev} ({names})"),
        );
        let numbers = measure::all(&lane, side, talk).map_err(tell)?;
        lane.close().map_err(tell)?;
        talk.step("closed", 0.0)?;
        seen.rows.push(Row {
            device: dev,
            rails: said.rails.clone(),
            is_alone,
            latency_us: numbers.latency_us,
            out_gbps: numbers.out_gbps,
            in_gbps: numbers.in_gbps,
            verified_bytes: numbers.verified_bytes,
        });
    }
    Ok(())
}

fn report(args: &PairArgs, seen: &Seen, failure: Option<&Failure>) {
    let causes = failure
        .map(|failure| ranked(failure, &seen.place))
        .unwrap_or_default();
    if args.json {
        let failure = failure
            .map(|f| json!({"stage": f.stage.to_string(), "what": f.what, "causes": causes}));
        let value = json!({
            "schema": SCHEMA,
            "tool": "ofi pair",
            "version": env!("CARGO_PKG_VERSION"),
            "ok": failure.is_none(),
            "here": seen.here,
            "there": seen.there,
            "rows": seen.rows,
            "warnings": seen.warnings,
            "failure": failure,
        });
        out::line(&format!("{value:#}"));
        return;
    }
    for line in text(seen) {
        out::line(&line);
    }
    match failure {
        None => out::line("all bytes verified, in both directions"),
        Some(Failure { stage, what }) => {
            out::error_line(&format!("ofi pair: failed ({stage}): {what}"));
            for (number, cause) in (1..).zip(&causes) {
                out::error_line(&format!("  likely {number}: {cause}"));
            }
        }
    }
}

fn text(seen: &Seen) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, side) in [("here", &seen.here), ("there", &seen.there)] {
        if let Some(hello) = side {
            let first = hello.devices.first();
            lines.push(format!(
                "{name:<5} {}: {} over {}, {} devices of {} rails; {}",
                printable(&hello.host),
                printable(&hello.speaks),
                printable(first.map_or("nothing", |device| &device.provider)),
                hello.devices.len(),
                first.map_or(0, |device| device.rails.len()),
                versions::shown(hello)
            ));
        }
    }
    lines.extend(
        seen.warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    for row in &seen.rows {
        let kind = if row.is_alone { "NIC" } else { "device" };
        lines.push(format!(
            "{kind} {} ({}): {:.1} us, out {:.2} GB/s, in {:.2} GB/s, {} bytes verified each way",
            row.device,
            row.rails.join(", "),
            row.latency_us,
            row.out_gbps,
            row.in_gbps,
            row.verified_bytes
        ));
    }
    lines
}
