//! `ofi emu`: runs a command on emulated EFAs.
//!
//! ```text
//! shape, seed, plan --> Setup: a directory with the provider, statistics, a sysfs root; variables
//!                         --> the command, and all it starts
//! files of statistics <------- each process of it
//!        --> summary, leaks by name
//! ```

mod killed;
mod setup;
mod shapes;
mod signals;
mod stale;
mod summary;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use efa_emu::plan::Plan;
use efa_emu::shape::Shape;
use efa_emu::stats::Snapshot;

use crate::report::out;
pub(crate) use killed::by_plan;
use setup::{Ask, Setup};

/// Nothing was run: the command line, or what it names, is no good.
const USAGE: u8 = 2;
/// Something was left open, and `--strict` asks for nothing.
const LEFT_OPEN: u8 = 4;
/// A rule never struck, so that `--strict` has nothing to say of what it is about.
const NEVER_STRUCK: u8 = 5;

/// What is no success though the command is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Strict {
    /// Both of what follows
    All,
    /// Objects that are left open
    Leaks,
    /// Rules that never struck
    Rules,
}

/// Whether this is a value that every emulated host has, which would do harm on a real one.
pub(crate) fn sets(name: &str, value: &str) -> bool {
    (name, value) == setup::VERSION_CHECK
}

#[derive(Debug, Args)]
pub(crate) struct EmuArgs {
    /// p4d, p5, p5en, p3dn, g5, c5n, trn1, trn2, or custom:nics=4,speed=100,pci=0000:10:1b.0+..,names=a+..,product=..;
    /// --help-shapes has what they are
    #[arg(long, default_value = "custom:nics=4")]
    shape: String,
    /// Everything random follows from it [default: another one each time, printed]
    #[arg(long)]
    seed: Option<u64>,
    /// What goes wrong: rules with ; between them, or a file of them (@FILE if its name is a rule's);
    /// --help-rules has them all
    #[arg(long, value_name = "RULES|FILE|@FILE")]
    plan: Option<String>,
    /// The libfabric whose EFA is played, such as 2.1 [default: the one that is loaded, but 1.22 at least]
    #[arg(long, value_name = "VERSION")]
    generation: Option<String>,
    /// The emulated provider [default: `libefa_emu_fi.so` beside this program]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// Where statistics (stats/), sysfs (root/) and provider go; kept [default: a directory that is removed]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print the numbers of every NIC at the end
    #[arg(long)]
    numbers: bool,
    /// Status 4 if the command leaves regions, endpoints or other objects open, 5 if a rule of the plan never
    /// struck that leaves nothing to chance; or one of the two
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    strict: Option<Strict>,
    /// Print every rule of --plan, with its words and an example, and run nothing
    #[arg(long)]
    help_rules: bool,
    /// Print every --shape with its NICs, their speed and generation, and what the plugins do with them
    #[arg(long)]
    help_shapes: bool,
    /// The command
    #[arg(required_unless_present_any = ["help_rules", "help_shapes"], trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command; its status, or one of ours.
pub(crate) fn run(args: &EmuArgs) -> ExitCode {
    if args.help_rules || args.help_shapes {
        help(args);
        return ExitCode::SUCCESS;
    }
    match emulate(args) {
        Ok(code) => code,
        Err(text) => {
            out::error_line(&format!("ofi emu: {text}"));
            ExitCode::from(USAGE)
        }
    }
}

/// What there is to choose from, from the tables by which it is read.
fn help(args: &EmuArgs) {
    if args.help_rules {
        out::line(efa_emu::plan::manual().trim_end());
    }
    if args.help_shapes {
        shapes::lines().iter().for_each(|line| out::line(line));
    }
}

fn emulate(args: &EmuArgs) -> Result<ExitCode, String> {
    let first = args.command.first().map(|word| word.to_string_lossy());
    if let Some(unknown) = first.filter(|word| word.starts_with('-')) {
        return Err(format!(
            "no option {unknown} (ofi emu --help has them), and no command has such a name"
        ));
    }
    let shape = Shape::by_name(&args.shape).map_err(|e| e.to_string())?;
    let plan = read_plan(args.plan.as_deref())?;
    plan.check_nics(shape.nics().len())?;
    let generation = args.generation.as_deref();
    generation
        .map_or(Ok(()), efa_emu::check_generation)
        .map_err(|e| format!("--generation {e}"))?;
    let seed = args.seed.unwrap_or_else(any_seed);
    let sweep = || stale::sweep(&std::env::temp_dir(), &stale::segments());
    sweep();
    signals::pass_on().map_err(|e| format!("signals: {e}"))?;
    let setup = Setup::make(&Ask {
        shape: (&args.shape, &shape),
        plan: &plan,
        seed,
        generation,
        provider: args.provider.as_deref(),
        dir: args.dir.as_deref(),
    })?;
    out::error_line(&format!("ofi emu: {}", title(&shape, &plan, seed)));
    let Some((program, rest)) = args.command.split_first() else {
        return Err("no command".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .envs(setup.variables(&|name| std::env::var_os(name).is_some()));
    let status = command
        .spawn()
        .and_then(|mut command| signals::wait(&mut command));
    let status = status.map_err(|e| format!("{}: {e}", program.to_string_lossy()))?;
    let code = code(status);
    let (seen, unread) = statistics(&setup.stats());
    // Of those that their plan killed.
    sweep();
    let lines = summary::lines(&seen, &plan, args.numbers);
    for line in &lines.text {
        out::error_line(&format!("ofi emu: {line}"));
    }
    for error in &unread {
        out::error_line(&format!(
            "ofi emu: statistics: {error}; what is not there is not counted"
        ));
    }
    // What nobody can read may be a leak.
    let asks_for = |what| {
        args.strict
            .is_some_and(|asked| asked == Strict::All || asked == what)
    };
    let code = match code {
        0 if asks_for(Strict::Leaks) && (lines.is_leaky || !unread.is_empty()) => LEFT_OPEN,
        0 if asks_for(Strict::Rules) && lines.is_idle => NEVER_STRUCK,
        code => code,
    };
    Ok(ExitCode::from(code))
}

/// What the processes counted, and why of some it cannot be read: the command's own status is told all the same.
fn statistics(dir: &Path) -> (Vec<Snapshot>, Vec<io::Error>) {
    let (mut seen, mut unread) = (Vec::new(), Vec::new());
    match Snapshot::read_each(dir) {
        Ok(each) => each.for_each(|one| match one {
            Ok(one) => seen.push(one),
            Err(error) => unread.push(error),
        }),
        Err(error) => unread.push(error),
    }
    (seen, unread)
}

/// A plan from the text itself if it starts with a rule, else from a file.
fn read_plan(given: Option<&str>) -> Result<Plan, String> {
    let Some(given) = given.filter(|given| !given.trim().is_empty()) else {
        return Ok(Plan::default());
    };
    let named = given.strip_prefix('@');
    let script = if named.is_none() && Plan::starts_with_rule(given) {
        given.to_owned()
    } else {
        match std::fs::read_to_string(Path::new(named.unwrap_or(given))) {
            Ok(script) => script,
            // A rule that is misspelt is told as such.
            Err(_) if named.is_none() && given.contains('=') => given.to_owned(),
            Err(e) => return Err(format!("--plan {given}: {e}")),
        }
    };
    Plan::parse(&script).map_err(|e| e.to_string())
}

fn title(shape: &Shape, plan: &Plan, seed: u64) -> String {
    let nics = shape.nics();
    let gbps = nics.first().map_or(0, |nic| nic.speed_bps / 1_000_000_000);
    let plan = plan.to_string().replace('\n', "; ");
    let plan = if plan.is_empty() {
        "none but reordering".to_owned()
    } else {
        plan
    };
    format!(
        "{} with {} NICs of {gbps} Gb/s; --seed {seed}; plan: {plan}",
        shape.name(),
        nics.len()
    )
}

/// Not secret, only different each time.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let pid = u64::from(std::process::id());
    (u64::from(now.subsec_nanos()) << 16 ^ now.as_secs() ^ pid << 40) % 1_000_000_007
}

/// As shells give it: 128 and the signal's number for a command that was killed.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    let code = status.code().unwrap_or_else(signal);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::{code, read_plan, title};
    use efa_emu::plan::Plan;
    use efa_emu::shape::Shape;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    #[test]
    fn plans_are_files_or_rules() {
        let plan = read_plan(Some("lose at=1; die at=2")).unwrap();
        let shown = title(&Shape::by_name("p4d").unwrap(), &plan, 9);
        assert_eq!(
            shown,
            "p4d with 4 NICs of 100 Gb/s; --seed 9; plan: lose at=1; die at=2"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# one\nlose at=1\n").unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(read_plan(Some(path)).unwrap().to_string(), "lose at=1");
        let named = format!("@{path}");
        assert_eq!(read_plan(Some(&named)).unwrap().to_string(), "lose at=1");
        for bare in ["lose", " die at=1", "# all\nlose; lose"] {
            assert_eq!(read_plan(Some(bare)).unwrap(), Plan::parse(bare).unwrap());
        }
        let no_file = read_plan(Some("@lose")).unwrap_err();
        assert!(no_file.contains("--plan @lose"), "{no_file}");
        let wrong = read_plan(Some("die")).unwrap_err();
        assert!(wrong.contains("at="), "{wrong}");
        let misspelt = read_plan(Some("loose at=1")).unwrap_err();
        assert!(misspelt.contains("loose"), "{misspelt}");
        assert_eq!(read_plan(Some("")), Ok(Plan::default()));
        let long = "lose at=1; ".repeat(500);
        assert_eq!(
            read_plan(Some(&long)),
            Plan::parse(&long).map_err(|_| String::new())
        );
        let missing = read_plan(Some("/no/such/plan")).unwrap_err();
        assert!(missing.contains("--plan /no/such/plan"), "{missing}");
        let wrong = read_plan(Some("lose when=1")).unwrap_err();
        assert!(wrong.contains("when=1"), "{wrong}");
    }

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
