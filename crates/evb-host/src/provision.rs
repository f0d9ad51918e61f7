//! `evbd provision`: the kernel's traffic control as evb's shaper. Prints, applies, removes and
//! reads back the `tc` commands that give every builder its token bucket, and control, monitoring
//! and other traffic their share of the link.

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

use evb_config::{check::BAD_CONFIGURATION, say, say_in_line};
use evb_core::units::{Bytes, Rate};
use evb_shaper::ByteMeasure;

use self::{
    executor::{Iproute, ProvisionError, Root},
    nic::{Means, Nic},
    plan::{Bucket, Plan},
    request::{BuilderRate, Wanted, Wishes},
    traffic::ClassOption,
};

/// Arguments of `evbd provision`.
#[derive(clap::Args, Debug)]
pub struct ProvisionArguments {
    /// The configuration.
    config: PathBuf,
    /// Action: print the commands; apply them (as root; all or nothing); remove them, which brings
    /// the kernel's default back; or show what is set up and whether it matches the plan.
    #[arg(value_enum, default_value = "print")]
    action: Action,
    /// The network device towards the switch.
    #[arg(long, value_name = "DEV")]
    device: String,
    /// A source of this host (repeatable); without it, those whose `bind` is an address of this
    /// host.
    #[arg(long = "source", value_name = "N")]
    sources: Vec<u16>,
    /// The rate of the device's link; without it, `[network] link_rate`, else what the driver says.
    #[arg(long, value_name = "RATE")]
    link_rate: Option<Rate>,
    /// The rate that this host may send to a builder (repeatable); without it, the configuration's
    /// rate of a lane for every source here.
    #[arg(long = "rate", value_name = "BUILDER=RATE")]
    rates: Vec<BuilderRate>,
    /// The most bytes that leave towards a builder back to back; without it, `[shaping] burst`,
    /// else ten milliseconds of the rate, within the lanes' part of `port_buffer`.
    #[arg(long, value_name = "BYTES")]
    burst: Option<Bytes>,
    /// Change a class (repeatable): `control`, `monitoring` or `other`, then any of `rate=`,
    /// `ceiling=`, `prio=`, `dscp=46+48`, `priority=` (the `SO_PRIORITY`), separated by commas.
    #[arg(long = "class", value_name = "CLASS")]
    classes: Vec<ClassOption>,
    /// The bytes that the rates on this command line count; `line` bytes are converted to what tc
    /// counts.
    #[arg(long, value_parser = request::measure(), default_value = "line")]
    bytes: ByteMeasure,
    /// The mechanism that keeps a builder's rate.
    #[arg(long, value_enum, default_value = "htb")]
    bucket: Bucket,
    /// Delete a root qdisc that was set up by another program or by hand. evbd cannot restore it.
    #[arg(long)]
    replace: bool,
    /// Use the network card's own functions where it has them: HTB offload, and the rate limit of
    /// a single transmit queue.
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

/// Runs the command. Returns 0 if it was carried out (status: equal), 1 if not (status: different),
/// 2 if the configuration or the command line is bad.
pub fn main(arguments: &ProvisionArguments) -> ExitCode {
    let loaded = match evb_config::load(&arguments.config) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{error}");
            return BAD_CONFIGURATION.into();
        }
    };
    let nic = nic::look(&arguments.device);
    let wishes = Wishes {
        device: &arguments.device,
        sources: &arguments.sources,
        link_rate: arguments.link_rate,
        rates: &arguments.rates,
        burst: arguments.burst,
        classes: &arguments.classes,
        counted: arguments.bytes,
        bucket: arguments.bucket,
        offload: arguments.nic && nic.htb_offload == Means::There,
    };
    let wanted = match request::request(&loaded.config, &wishes) {
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

fn refused(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    BAD_CONFIGURATION.into()
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

fn apply(arguments: &ProvisionArguments, plan: &Plan, wanted: &Wanted, nic: &Nic) -> ExitCode {
    let before = match executor::apply(&mut Iproute, plan, arguments.replace) {
        Ok(before) => before,
        Err(error) => return failed(&error),
    };
    match before {
        Root::Default(kind) => say!("{}: applied, where the kernel's {kind} was", plan.device),
        Root::Ours => say!("{}: applied, where an earlier evbd provision was", plan.device),
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

/// Limits the only transmit queue, and returns what was done. A queue has one rate, which limits
/// all destinations together, so that this is of use only if there is one queue.
fn limit_only_queue(nic: &Nic, wanted: &Wanted) -> String {
    let ([(file, now)], Means::There) = (&nic.queues[..], nic.queue_rate) else {
        return format!("tx_maxrate: {}, {} queues: not used", nic.queue_rate.word(), nic.queues.len());
    };
    let limit = nic::megabits(wanted.request.link);
    match *now {
        Some(0) => match nic::limit_queue(file, limit) {
            Ok(()) => format!("{}: {limit} Mbit/s", file.display()),
            Err(error) => format!("{}: not used: {error}", file.display()),
        },
        _ => format!("{}: another program has set {now:?} Mbit/s, which stays", file.display()),
    }
}

fn remove(arguments: &ProvisionArguments, nic: &Nic) -> ExitCode {
    let device = &arguments.device;
    let outcome: Result<Root, ProvisionError> = executor::remove(&mut Iproute, device, arguments.replace);
    match outcome {
        Ok(Root::Default(kind)) => say!("{device}: nothing to remove, the kernel's {kind} is there"),
        Ok(_) => match executor::root(&mut Iproute, device) {
            Ok(Root::Default(kind)) => say!("{device}: removed; the kernel's {kind} is there again"),
            Ok(other) => return failed(&format!("{device}: removed, but now there is {other:?}")),
            Err(error) => return failed(&error),
        },
        Err(error) => return failed(&error),
    }
    if let ([(file, Some(1..))], true) = (&nic.queues[..], arguments.nic)
        && let Err(error) = nic::limit_queue(file, 0)
    {
        return failed(&format!("{}: {error}", file.display()));
    }
    ExitCode::SUCCESS
}

fn status(plan: &Plan) -> ExitCode {
    match executor::root(&mut Iproute, &plan.device) {
        Ok(Root::Ours) => {}
        Ok(Root::Default(kind)) => {
            say!("{}: different: nothing is applied, the kernel's {kind} is there", plan.device);
            return ExitCode::FAILURE;
        }
        Ok(Root::Foreign(root)) => {
            say!("{}: different: another program's {root} is there", plan.device);
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
