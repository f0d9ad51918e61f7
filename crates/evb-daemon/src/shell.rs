//! `evbd completions` and `evbd man-pages`: what shells and `man` know about evbd, generated from
//! its command line.

#[cfg(test)]
mod tests;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Command};
use clap_complete::Shell;
use evb_config::complain;

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// Shell that will read the completions, for example by `source <(evbd completions bash)`.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManPagesArguments {
    /// Folder for the pages, which must exist.
    folder: PathBuf,
}

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments, evbd: &mut Command) -> ExitCode {
    match io::stdout().write_all(&script(arguments.shell, evbd)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain!(
                "error: cannot write the completions to standard output: {error}; make room on that disk, or write them to another file"
            );
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Returns the script that teaches a shell the commands and options of evbd.
fn script(shell: Shell, evbd: &mut Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, evbd, "evbd", &mut script);
    script
}

/// Writes a man page for evbd and for each of its commands.
pub(crate) fn man_pages(arguments: &ManPagesArguments, evbd: Command) -> ExitCode {
    match clap_mangen::generate_to(evbd, &arguments.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!(
                "error: cannot write the man pages to {}: {error}; give a directory that exists and that this user can write to",
                arguments.folder.display()
            );
            ExitCode::from(2)
        }
    }
}
