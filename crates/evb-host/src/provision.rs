//! `evbd provision`: uses the kernel's traffic control to shape evb's traffic. Prints, applies,
//! removes and reads back the `tc` commands that give every builder a token bucket, and give
//! control, monitoring and other traffic their shares of the link.

mod traffic;
mod filter;
mod plan;
mod executor;
mod readback;
mod request;
mod nic;
mod text;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, process::ExitCode};

use self::{
    executor::{Iproute, ProvisionError, Root},
    nic::{Means, Nic},
    plan::Plan,
    request::{Wanted, Wishes},
};
use crate::check::{self, refused};
use evb_config::{complain, say, say_in_line};

/// Arguments of `evbd provision`.
#[derive(clap::Args, Debug)]
pub struct ProvisionArguments {
    /// The configuration of the system.
    config: PathBuf,
    /// The action: print the `tc` commands; apply them (as root; all or none); remove them, so that
    /// the kernel's default returns; or show the present state and compare it with the plan.
    #[arg(value_enum, default_value = "print")]
    action: Action,
    #[command(flatten)]
    wishes: Wishes,
    /// Delete a root qdisc that another program or a person has set up. evbd cannot restore it.
    #[arg(long)]
    replace: bool,
    /// Use these functions of the network card if it has them: HTB offload, and the rate limit of a
    /// single transmit queue.
    #[arg(long)]
    nic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    Print,
    Apply,
    Remove,
    Status,
}

/// Runs `evbd provision`. Returns 0 if the action succeeded (status: the state equals the plan), 1
/// if it failed (status: the state differs), 2 if the configuration or the command line is bad.
pub fn main(arguments: &ProvisionArguments) -> ExitCode {
    let loaded = match check::load(&arguments.config, false) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let nic = nic::look(&arguments.wishes.device);
    let offload = arguments.nic && nic.htb_offload == Means::There;
    let wanted = match request::request(&loaded.config, &arguments.wishes, offload) {
        Ok(wanted) => wanted,
        Err(error) => return refused(&error),
    };
    let plan = match plan::plan(&wanted.request) {
        Ok(plan) => plan,
        Err(error) => return refused(&error),
    };
    match arguments.action {
        Action::Print => {
            say_in_line!("{}", text::plan(&plan, &wanted, &nic));
            ExitCode::SUCCESS
        }
        Action::Apply => apply(arguments, &plan, &wanted, &nic),
        Action::Remove => remove(arguments, &nic),
        Action::Status => status(&plan),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    complain!("error: {error}");
    ExitCode::FAILURE
}

/// Applies a plan, and compares the device with it.
fn apply(arguments: &ProvisionArguments, plan: &Plan, wanted: &Wanted, nic: &Nic) -> ExitCode {
    let before = match executor::apply(&mut Iproute, plan, arguments.replace) {
        Ok(before) => before,
        Err(error) => return failed(&error),
    };
    match before {
        Root::Default(kind) => say!("{}: applied in place of the kernel's {kind}", plan.device),
        Root::Ours => say!("{}: applied in place of an earlier plan of evbd provision", plan.device),
        Root::Foreign(root) => say!("{}: applied; the {root} that was there is deleted", plan.device),
    }
    for note in wanted.notes.iter().chain(&plan.notes) {
        say!("note: {note}");
    }
    if arguments.nic {
        say!("note: {}", limit_only_queue(nic, wanted));
    }
    status(plan)
}

/// Conclusion for operators if the card's own limit is not used.
const ENOUGH: &str = "the token buckets keep the rates without it, and nothing needs to be done";

/// Limits the rate of the device's transmit queue if it has only one, and returns a description of
/// the result. The limit of a queue applies to all destinations together, so that a limit per queue
/// does not help on devices with several queues.
fn limit_only_queue(nic: &Nic, wanted: &Wanted) -> String {
    let ([(file, now)], Means::There) = (&nic.queues[..], nic.queue_rate) else {
        return format!("{}; {ENOUGH}", nic.why_unlimited());
    };
    let (shown, limit) = (file.display(), nic::megabits(wanted.request.link));
    match *now {
        Some(0) => match nic::limit_queue(file, limit) {
            Ok(()) => format!("the network card's own limit (tx_maxrate, in {shown}) is now {limit} Mbit/s"),
            Err(error) => format!(
                "the network card's own limit (tx_maxrate) cannot be set in {shown}: {error}; {ENOUGH}"
            ),
        },
        Some(set) => format!(
            "another program has set the network card's own limit (tx_maxrate, in {shown}) to {set} Mbit/s, and it stays; if that is below the rate of the link, end that program and write 0 to the file"
        ),
        None => format!("the network card's own limit (tx_maxrate) cannot be read from {shown}; {ENOUGH}"),
    }
}

/// Removes what was applied, and the limit of the card if that is asked.
fn remove(arguments: &ProvisionArguments, nic: &Nic) -> ExitCode {
    let device = &arguments.wishes.device;
    let outcome: Result<Root, ProvisionError> = executor::remove(&mut Iproute, device, arguments.replace);
    match outcome {
        Ok(Root::Default(kind)) => say!("{device}: nothing to remove, because the kernel's {kind} is there"),
        Ok(_) => match executor::root(&mut Iproute, device) {
            Ok(Root::Default(kind)) => say!("{device}: removed; the kernel's {kind} is there again"),
            Ok(other) => {
                let other = if let Root::Foreign(root) = other { root } else { "evbd's qdisc".to_owned() };
                return failed(&format!(
                    "{device}: removed, but {other} is there again, so a program sets it up: find and end it"
                ));
            }
            Err(error) => return failed(&error),
        },
        Err(error) => return failed(&error),
    }
    if let ([(file, Some(1..))], true) = (&nic.queues[..], arguments.nic)
        && let Err(error) = nic::limit_queue(file, 0)
    {
        return failed(&format!(
            "{device}: removed, but the limit of the card stays in {}: {error}; write 0 to this file as root",
            file.display()
        ));
    }
    ExitCode::SUCCESS
}

/// Compares the device with the plan, and shows the differences.
fn status(plan: &Plan) -> ExitCode {
    match executor::root(&mut Iproute, &plan.device) {
        Ok(Root::Ours) => {}
        Ok(Root::Default(kind)) => {
            say!(
                "{}: different from the configuration: nothing is applied, the kernel's {kind} is there; `apply` sets it up",
                plan.device
            );
            return ExitCode::FAILURE;
        }
        Ok(Root::Foreign(root)) => {
            say!(
                "{}: different from the configuration: another program's {root} is there; `apply --replace` deletes it",
                plan.device
            );
            return ExitCode::FAILURE;
        }
        Err(error) => return failed(&error),
    }
    match readback::compare(&mut Iproute, plan) {
        Ok(comparison) => {
            say_in_line!("{}", text::comparison(plan, &comparison));
            if comparison.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(&error),
    }
}
