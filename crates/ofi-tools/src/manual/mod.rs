//! `ofi man` and `ofi completions`: manual pages and the shell's completions, made from the command line's
//! own definition and from the tables, so that they have whatever the program has.

mod tables;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::report::out;

/// A file cannot be written.
const UNWRITTEN: u8 = 2;
/// Where sections are below a directory of manual pages (`man-pages(7)`).
const COMMANDS: &str = "man1";
const OVERVIEWS: &str = "man7";

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// A directory of manual pages, such as /usr/local/share/man: man1 and man7 are made in it
    dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Whose
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes every page.
pub(crate) fn run_man(args: &ManArgs) -> ExitCode {
    match write_all(&args.dir) {
        Ok(count) => {
            let dir = args.dir.display();
            out::line(&format!("{count} pages in {dir} (man -M {dir} ofi)"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            out::error_line(&format!("ofi man: {}: {error}", args.dir.display()));
            ExitCode::from(UNWRITTEN)
        }
    }
}

/// Prints the script.
pub(crate) fn run_completions(args: &CompletionsArgs) -> ExitCode {
    out::line(script(args.shell).trim_end());
    ExitCode::SUCCESS
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "ofi", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The definition without what is for the program itself.
fn command() -> Command {
    let mut shown = Command::new("ofi");
    let whole = Cli::command();
    for text in [whole.get_about(), whole.get_long_about()]
        .into_iter()
        .flatten()
    {
        shown = shown.about(text.clone());
    }
    let visible = whole.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut shown = shown
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommands(visible.cloned());
    shown.build();
    shown
}

fn write_all(dir: &Path) -> io::Result<usize> {
    let pages = pages();
    for (section, name, text) in &pages {
        let section = dir.join(section);
        fs::create_dir_all(&section)?;
        fs::write(section.join(name), text)?;
    }
    Ok(pages.len())
}

/// Section, file and text of every page.
fn pages() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut pages = Vec::new();
    of_command(&command(), &mut pages);
    pages.push((
        OVERVIEWS,
        "ofi-nccl.7".to_owned(),
        tables::variables().into_bytes(),
    ));
    pages.push((
        OVERVIEWS,
        "ofi-errors.7".to_owned(),
        tables::codes().into_bytes(),
    ));
    pages
}

/// A page for it and for each below it.
fn of_command(command: &Command, pages: &mut Vec<(&'static str, String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or("ofi").to_owned();
    let page = clap_mangen::Man::new(command.clone())
        .manual("Open collectives transport")
        .source(concat!("ofi ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    // Into memory: nothing can fail.
    if page.render(&mut text).is_ok() {
        pages.push((COMMANDS, format!("{name}.1"), text));
    }
    let below = command.get_subcommands();
    let below = below.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    below.for_each(|sub| of_command(sub, pages));
}

#[cfg(test)]
mod tests {
    use super::{Shell, command, pages, script};
    use clap::Command;

    /// `(path of the command, --option)` of the whole definition.
    fn options(command: &Command, path: &str, all: &mut Vec<(String, String)>) {
        let longs = command.get_arguments().filter_map(clap::Arg::get_long);
        all.extend(longs.map(|long| (path.to_owned(), long.to_owned())));
        for sub in command.get_subcommands() {
            if sub.get_name() != "help" {
                options(sub, &format!("{path}-{}", sub.get_name()), all);
            }
        }
    }

    fn all_options() -> Vec<(String, String)> {
        let mut all = Vec::new();
        options(&command(), "ofi", &mut all);
        assert!(all.len() > 60, "{}", all.len());
        all
    }

    #[test]
    fn every_option_is_on_the_page_of_its_command() {
        let pages = pages();
        for (path, option) in all_options() {
            let name = format!("{path}.1");
            let (_, _, text) = pages.iter().find(|(_, page, _)| *page == name).unwrap();
            // In roff a hyphen that is to be copied is written so.
            let wanted = format!("--{option}").replace('-', "\\-");
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(&wanted), "{name} lacks {wanted}");
        }
    }

    #[test]
    fn every_option_and_command_is_completed_in_each_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for (path, option) in all_options() {
                let wanted = match shell {
                    Shell::Fish => format!("-l {option}"),
                    _ => format!("--{option}"),
                };
                assert!(script.contains(&wanted), "{shell}: {path} lacks {wanted}");
            }
            for sub in command().get_subcommands() {
                assert!(
                    script.contains(sub.get_name()),
                    "{shell}: {}",
                    sub.get_name()
                );
            }
            for hidden in ["perf-rank", "doctor-probe"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
