//! The command line of `evbd`.

mod help;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use evb_config::{check::BAD_CONFIGURATION, complain, plan};
use evb_host::{check, doctor, keygen, probe_buffer, provision};

use crate::{
    ctl,
    log::{self, LogFormat},
    run, shell,
    tools::{dump, frames, merge, records, tap, verify},
};

#[derive(Parser)]
#[command(
    name = "evbd",
    version,
    about = "The event builder: all fragments of one event on one machine, none dropped"
)]
struct Cli {
    /// Format of log lines, which go to standard error: for people or for machines.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "text|json",
        hide_possible_values = true,
        help_heading = "Log"
    )]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the system that a configuration describes, or some of its roles.
    Run(run::RunArguments),
    /// Give commands to a running evbd and show its status (run control).
    Ctl(ctl::CtlArguments),
    /// Check a configuration, and show whether links, buffers and memory suffice for it.
    Check(check::CheckArguments),
    /// Plan a system from numbers on the command line, and print a starter configuration.
    Plan(plan::PlanArguments),
    /// Report what this host can do for an event builder, and which settings to change.
    Doctor(doctor::DoctorArguments),
    /// Read event files and account for every event: counts, gaps, duplicates, damage.
    Verify(verify::VerifyArguments),
    /// List the events of event files, or show one event.
    Dump(dump::DumpArguments),
    /// Decode a capture of a board's stream with the declared layout of its frames.
    Frames(frames::FramesArguments),
    /// Write events of a run that goes on to standard output, for `evbd dump -` or other programs.
    Tap(tap::TapArguments),
    /// Merge a run's files, of all builders, into files in event order.
    Merge(merge::MergeArguments),
    /// List the runs that a supervisor has led.
    Runs(records::RunsArguments),
    /// Describe a run that a supervisor has led.
    Report(records::ReportArguments),
    /// Make a key that all machines of a system share, for `[security] mode = "psk"`.
    Keygen(keygen::KeygenArguments),
    /// Print, apply, remove or read back the kernel's traffic control for this host's part of a
    /// configuration.
    Provision(provision::ProvisionArguments),
    /// Measure the usable buffer of a switch port: `listen` on the builder's host, `send` on two or
    /// more sources' hosts.
    ProbeBuffer {
        #[command(subcommand)]
        end: probe_buffer::ProbeBufferCommand,
    },
    /// `bench` of an older version.
    #[command(hide = true, disable_help_flag = true)]
    Bench(Moved),
    /// `trigger` of an older version.
    #[command(hide = true, disable_help_flag = true)]
    Trigger(Moved),
    /// Print the completions of evbd's commands and options for a shell.
    Completions(shell::CompletionsArguments),
    /// Write the man pages of evbd and its commands.
    #[command(hide = true)]
    ManPages(shell::ManPagesArguments),
}

/// Arguments of a command that the program `evb-bench` has now.
#[derive(clap::Args)]
struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Moved {
    /// Refuses the command, and shows the one that replaces it.
    fn refuse(&self, command: Option<&str>) -> ExitCode {
        let words: Vec<&str> = command.into_iter().chain(self.arguments.iter().map(String::as_str)).collect();
        let line = words.join(" ");
        complain!(
            "error: nothing was started: measurements and the pseudo-trigger are a program of their own; run it with\n  \
             evb-bench {line}\nor, in the source tree of evb, with\n  \
             cargo run --release -p evb-bench -- {line}"
        );
        BAD_CONFIGURATION.into()
    }
}

/// Returns the command line with its help.
fn command() -> clap::Command {
    help::with_help(Cli::command())
}

/// Runs the command that is given on the command line.
pub fn main() -> ExitCode {
    evb_net::host::block_signals_of_writes();
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let _log = log::start(cli.log_format);
    match cli.command {
        Command::Run(arguments) => run::main(&arguments),
        Command::Ctl(arguments) => ctl::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Verify(arguments) => verify::main(&arguments),
        Command::Dump(arguments) => dump::main(&arguments),
        Command::Frames(arguments) => frames::main(&arguments),
        Command::Tap(arguments) => tap::main(&arguments),
        Command::Merge(arguments) => merge::main(&arguments),
        Command::Runs(arguments) => records::list(&arguments),
        Command::Report(arguments) => records::report(&arguments),
        Command::Keygen(arguments) => keygen::main(&arguments),
        Command::Provision(arguments) => provision::main(&arguments),
        Command::ProbeBuffer { end } => probe_buffer::main(&end),
        Command::Bench(moved) => moved.refuse(None),
        Command::Trigger(moved) => moved.refuse(Some("trigger")),
        Command::Check(arguments) => check::main(&arguments, run::needs_of_host),
        Command::Plan(arguments) => plan::main(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments, &mut command()),
        Command::ManPages(arguments) => shell::man_pages(&arguments, command()),
    }
}
