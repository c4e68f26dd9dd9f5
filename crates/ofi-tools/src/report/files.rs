//! The files of `--json` and `--plot`: opened before the run, so that none is made in vain.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::{json, out, svg};
use crate::bench::plan::Plan;
use crate::cli::PerfArgs;
use crate::coord::hub::Outcome;

/// Where results go; nothing for what was not asked for.
#[derive(Debug)]
pub(crate) struct Files {
    /// None for standard output too.
    json: Option<File>,
    plot: Option<File>,
}

impl Files {
    /// Opens the files, empty.
    ///
    /// # Errors
    ///
    /// Text for the user that names the option, the file and why it cannot be written.
    pub(crate) fn open(args: &PerfArgs) -> Result<Self, String> {
        let json = args.json.as_deref().filter(|p| *p != Path::new("-"));
        Ok(Self {
            json: json.map(|p| create("--json", p)).transpose()?,
            plot: args
                .plot
                .as_deref()
                .map(|p| create("--plot", p))
                .transpose()?,
        })
    }

    /// Writes what the run has left.
    pub(crate) fn write(
        self,
        args: &PerfArgs,
        plan: &Plan,
        outcome: &Outcome,
    ) -> Result<(), String> {
        if let Some(path) = &args.json {
            let text = json::text(plan, outcome).map_err(|e| format!("--json: {e}"))?;
            match self.json {
                Some(file) => fill(file, path, &(text + "\n"))?,
                None => out::line(&text),
            }
        }
        if let (Some(path), Some(file)) = (&args.plot, self.plot) {
            let drawn = svg::draw(&title(plan, outcome), &outcome.rows);
            fill(file, path, &drawn)?;
            if !svg::has_points(&outcome.rows) {
                out::error_line(&format!(
                    "ofi perf: {} is an empty drawing: the run has no row over size (check has none)\n  try: --plot with lat, bw, bidir, rate or a collective, and sizes above 0",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}

fn create(option: &str, path: &Path) -> Result<File, String> {
    File::create(path).map_err(|e| {
        format!(
            "cannot write {} ({option}): {e}\n  nothing was run\n  try: a file in a directory that exists and that you may write to",
            path.display()
        )
    })
}

fn fill(mut file: File, path: &Path, text: &str) -> Result<(), String> {
    let done = file.write_all(text.as_bytes());
    done.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn title(plan: &Plan, outcome: &Outcome) -> String {
    let file = || plan.plugins.first().map(|p| p.display().to_string());
    let mut known = outcome.summaries.iter().flatten();
    let name = known.next().map(|s| s.plugin.clone());
    let name = name.or_else(file).unwrap_or_default();
    format!("{name}, {} ranks", plan.ranks)
}
