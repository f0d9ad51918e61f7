//! `evbd plan`: from numbers on the command line to a configuration, with the sums and the reasons.

mod advice;
mod skeleton;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use evb_core::units::{Bytes, Frequency, Rate, UnitError, parse_duration};
use serde_json::json;

use crate::{
    admission::{self, Planning, ROUND_TRIPS, Sums, planning, rounded_down},
    check::{self, BAD_CONFIGURATION},
    config::{self, Loaded, Problems},
};
use advice::{Advice, advise};

/// The numbers.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PlanArguments {
    /// How many sources; each sends a fragment of every event.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    sources: u16,
    /// How many builders, each behind a switch port of its own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    builders: u16,
    /// Mean payload of a whole event: all fragments together.
    #[arg(long)]
    event_size: Bytes,
    /// Mean rate of the triggers; without it as fast as possible.
    #[arg(long, value_parser = frequency)]
    trigger_rate: Option<Frequency>,
    /// The rate of every link, in line bytes.
    #[arg(long)]
    link_rate: Rate,
    /// The buffer of a switch port towards a builder, in buffer bytes; `evbd probe-buffer` measures it.
    #[arg(long)]
    port_buffer: Option<Bytes>,
    /// The largest IP packet.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_536))]
    mtu: u32,
    /// The time from a grant to its data. 20, 60 and 200 µs by default; the longest decides.
    #[arg(long, value_parser = parse_duration)]
    rtt: Vec<Duration>,
    /// Print JSON.
    #[arg(long, conflicts_with = "config")]
    json: bool,
    /// Print the configuration alone, for `> FILE`.
    #[arg(long)]
    config: bool,
}

fn frequency(text: &str) -> Result<Frequency, String> {
    text.parse().map_err(|error: UnitError| error.to_string())
}

impl PlanArguments {
    fn round_trips(&self) -> &[Duration] {
        if self.rtt.is_empty() { &ROUND_TRIPS } else { &self.rtt }
    }

    /// What decides.
    fn longest_trip(&self) -> Duration {
        self.round_trips().iter().copied().max().unwrap_or_default()
    }
}

/// A plan: the advice, the configuration that follows it, and its sums.
#[derive(Debug)]
struct Plan {
    advice: Advice,
    text: String,
    loaded: Loaded,
    sums: Sums,
    problems: Problems,
    planning: Planning,
}

/// Runs the command.
pub(crate) fn main(arguments: &PlanArguments) -> ExitCode {
    let plan = match plan(arguments) {
        Ok(plan) => plan,
        Err(problems) => {
            eprintln!("{problems}");
            return BAD_CONFIGURATION.into();
        }
    };
    if arguments.config {
        print!("{}", plan.text);
    } else if arguments.json {
        println!("{:#}", as_json(arguments, &plan));
    } else {
        print!("{}", page(arguments, &plan));
    }
    if plan.problems.are_fatal() {
        eprintln!("{}\n{}", plan.problems, remedy(arguments, &plan));
        return BAD_CONFIGURATION.into();
    }
    ExitCode::SUCCESS
}

/// Advises, writes the configuration, and reads it again as `evbd check` does.
fn plan(arguments: &PlanArguments) -> Result<Plan, Problems> {
    let advice = advise(arguments);
    let text = skeleton::skeleton(arguments, &advice);
    let loaded = config::read(&text, "plan")?;
    // Memory is the builders', and this may be another machine.
    let (sums, problems) = admission::admit(&loaded, None);
    let planning = planning(&loaded.config, &sums, arguments.round_trips());
    Ok(Plan { advice, text, loaded, sums, problems, planning })
}

fn page(arguments: &PlanArguments, plan: &Plan) -> String {
    let mut page = check::text(&plan.loaded.config, &plan.sums, arguments.round_trips());
    page += "\nSuggested\n";
    for (key, value, reason) in plan.advice.rows() {
        let _ = writeln!(page, "  {key:<12} {value:<14} {reason}");
    }
    let _ = write!(page, "\nTo begin with (`evbd plan … --config > FILE` writes it alone):\n\n{}", plan.text);
    page
}

/// Where links cannot carry what is asked: what would.
fn remedy(arguments: &PlanArguments, plan: &Plan) -> String {
    let (Some(asked), Some(carried)) = (plan.sums.asked, plan.sums.carried) else { return String::new() };
    if asked <= carried {
        return String::new();
    }
    // What builders' ports carry grows with them; the links from sources do not.
    let fragment = arguments.event_size.count() as f64 / f64::from(arguments.sources);
    let per_event = evb_shaper::cost::PacketCost::tcp(arguments.mtu, evb_shaper::cost::CELL).line_factor();
    let link = arguments.link_rate.bytes_per_second();
    let from_source = link / (fragment * per_event);
    if asked > from_source {
        return format!(
            "each source's link carries the fragments of {} events/s, however many builders there are: it takes smaller fragments, faster \
             links or fewer events",
            rounded_down(from_source)
        );
    }
    let builders = (asked * arguments.event_size.count() as f64 * per_event / link).ceil();
    format!("at these sizes {builders:.0} builders or more would carry it, each behind a port of its own")
}

fn as_json(arguments: &PlanArguments, plan: &Plan) -> serde_json::Value {
    let found = (&plan.loaded.config, &plan.sums, arguments.round_trips());
    let advice: Vec<_> = plan
        .advice
        .rows()
        .map(|(key, value, reason)| json!({ "key": key, "value": value, "reason": reason }))
        .collect();
    json!({
        "advice": advice,
        "config": plan.text,
        "expected_events_per_s": plan.planning.bounds.first().map(|bound| bound.events_per_s),
        "check": check::json(Some(found), Some(&plan.problems)),
    })
}
