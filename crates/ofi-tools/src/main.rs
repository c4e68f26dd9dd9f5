//! The `ofi` command; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ofi_tools::run()
}
