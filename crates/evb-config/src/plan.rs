//! `evbd plan`: turns numbers on the command line into a configuration, and shows its sums and the
//! reasons for each choice.

mod advice;
mod skeleton;
mod allocation;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use evb_core::units::{Bytes, Frequency, Rate, UnitError, parse_duration};
use serde_json::json;

use crate::{
    Loaded, Problems,
    admission::{self, GrantPaths, Planning, Sums, planning, rounded_down},
    check::{self, BAD_CONFIGURATION},
};
use advice::{Advice, advise};
use allocation::Allocation;

/// Arguments of `evbd plan`.
#[derive(clap::Args, Clone, Debug)]
pub struct PlanArguments {
    /// Number of sources; each sends a fragment of every event. The default with --hosts: one for
    /// each host but the first, or for both of two hosts.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096), required_unless_present = "hosts")]
    sources: Option<u16>,
    /// Number of builders, each behind a switch port of its own. The default with --hosts: one for
    /// each host but the first, or for both of two hosts.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), required_unless_present = "hosts")]
    builders: Option<u16>,
    /// Mean payload of a whole event: all fragments together. The default with --hosts: 1 kB from
    /// each source.
    #[arg(long, required_unless_present = "hosts")]
    event_size: Option<Bytes>,
    /// Mean rate of the triggers. Without this option, triggers come as fast as possible.
    #[arg(long, value_parser = frequency)]
    trigger_rate: Option<Frequency>,
    /// The rate of every link, in line bytes. The option may be left out with --hosts; then the
    /// configuration lacks the values that depend on the link rate.
    #[arg(long, required_unless_present = "hosts")]
    link_rate: Option<Rate>,
    /// The rate of the sources' links, if it differs from the rate of the other links, in line
    /// bytes.
    #[arg(long, requires = "link_rate")]
    host_rate: Option<Rate>,
    /// The buffer of a switch port towards a builder, in buffer bytes; `evbd probe-buffer` measures
    /// it.
    #[arg(long, requires = "link_rate")]
    port_buffer: Option<Bytes>,
    /// The size of the largest IP packet, in bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_536))]
    mtu: u32,
    /// The time from a grant to its data. 20, 60 and 200 µs are assumed by default; the advice
    /// follows from the longest time.
    #[arg(long, value_parser = parse_duration, conflicts_with = "path")]
    rtt: Vec<Duration>,
    /// File with a measured time from a grant to its data: the summary of a run, or the output of
    /// `evbd doctor --json`. The advice follows from the 99th percentile of the measured time.
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// Print all sums: also of each port, link and role.
    #[arg(long, conflicts_with_all = ["config", "json", "hosts"])]
    verbose: bool,
    /// Print the plan as JSON.
    #[arg(long, conflicts_with = "config")]
    json: bool,
    /// Print only the configuration, for `> FILE`.
    #[arg(long)]
    config: bool,
    #[command(flatten)]
    allocation: AllocationArguments,
}

/// Arguments of `evbd plan` for a configuration with known hosts.
#[derive(clap::Args, Clone, Debug)]
struct AllocationArguments {
    /// Print a complete configuration for these hosts, each of which runs `evbd run --here`: the
    /// supervisor on the first host, sources and builders on the others, or on both of two. Give
    /// several arguments, or one list separated by commas, blanks or lines; `-` reads the list from
    /// standard input.
    #[arg(long, num_args = 1.., value_name = "HOST", conflicts_with = "json")]
    hosts: Vec<String>,
    /// The number of events after which the run ends. Without this option, the run ends when an
    /// operator stops it.
    #[arg(long, requires = "hosts", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// The directory to which builders write their events, on their own hosts or on a shared file
    /// system. Without this option, events are not written.
    #[arg(long, requires = "hosts", value_name = "DIR")]
    out: Option<PathBuf>,
    /// The file with the key that all hosts share (`evbd keygen`). Without this option, every peer
    /// that reaches the ports is trusted.
    #[arg(long, requires = "hosts", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The supervisor's port P; builder N listens at port P + 100 + N.
    #[arg(long, requires = "hosts", default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
}

/// Name of the configuration of a plan in messages.
const PLANNED: &str = "the planned configuration";

/// The numbers from the command line on which a plan is based.
#[derive(Clone, Debug)]
struct Numbers {
    sources: u16,
    builders: u16,
    event_size: Bytes,
    trigger_rate: Option<Frequency>,
    link_rate: Rate,
    /// Rate of the sources' links, if it differs from `link_rate`.
    host_rate: Option<Rate>,
    port_buffer: Option<Bytes>,
    mtu: u32,
}

fn frequency(text: &str) -> Result<Frequency, String> {
    text.parse().map_err(|error: UnitError| error.to_string())
}

impl PlanArguments {
    /// Returns the numbers of the plan; `None` if the command line has no link rate.
    fn numbers(&self, sources: u16, builders: u16, event_size: Bytes) -> Option<Numbers> {
        Some(Numbers {
            sources,
            builders,
            event_size,
            trigger_rate: self.trigger_rate,
            link_rate: self.link_rate?,
            host_rate: self.host_rate,
            port_buffer: self.port_buffer,
            mtu: self.mtu,
        })
    }
}

/// A plan: the advice, the configuration that follows the advice, and the configuration's sums.
#[derive(Debug)]
struct Plan {
    advice: Advice,
    text: String,
    loaded: Loaded,
    sums: Sums,
    problems: Problems,
    planning: Planning,
}

/// Runs `evbd plan`: prints a configuration for the given numbers, or the reasons why none is
/// possible. Returns the exit code.
pub fn main(arguments: &PlanArguments) -> ExitCode {
    if !arguments.allocation.hosts.is_empty() {
        return for_hosts(arguments);
    }
    // The command-line parser has already refused arguments without these numbers.
    let given = arguments.sources.zip(arguments.builders).zip(arguments.event_size);
    let numbers = given.and_then(|((sources, builders), event)| arguments.numbers(sources, builders, event));
    let Some(numbers) = numbers else { return BAD_CONFIGURATION.into() };
    let paths = match GrantPaths::of(arguments.path.as_deref(), &arguments.rtt) {
        Ok(paths) => paths,
        Err(error) => {
            complain!("error: {error}");
            return BAD_CONFIGURATION.into();
        }
    };
    let plan = match plan(&numbers, &paths) {
        Ok(plan) => plan,
        Err(problems) => {
            complain!("{problems}");
            return BAD_CONFIGURATION.into();
        }
    };
    if arguments.config {
        say_in_line!("{}", plan.text);
    } else if arguments.json {
        say!("{:#}", as_json(&plan));
    } else {
        say_in_line!("{}", page(&plan, arguments.verbose));
    }
    if plan.problems.are_fatal() {
        complain!("{}\n{}", plan.problems, remedy(&numbers, &plan));
        return BAD_CONFIGURATION.into();
    }
    ExitCode::SUCCESS
}

/// Prints the configuration for the given hosts, if `evbd check` admits it.
fn for_hosts(arguments: &PlanArguments) -> ExitCode {
    let paths = GrantPaths::of(arguments.path.as_deref(), &arguments.rtt);
    let longest = paths.map(|paths| paths.longest()).map_err(|error| format!("error: {error}"));
    let written =
        longest.and_then(|path| Allocation::new(arguments, path).map_err(|error| format!("error: {error}")));
    let admitted = written.and_then(|allocation| {
        let text = allocation.text();
        let loaded = crate::read(&text, PLANNED).map_err(|problems| problems.to_string())?;
        let (_, problems) = admission::admit(&loaded, None);
        if problems.are_fatal() { Err(problems.to_string()) } else { Ok(text) }
    });
    match admitted {
        Ok(text) => {
            say_in_line!("{text}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            complain!("{reason}");
            BAD_CONFIGURATION.into()
        }
    }
}

/// Computes the advice, writes the configuration, and checks it in the same way as `evbd check`.
fn plan(arguments: &Numbers, paths: &GrantPaths) -> Result<Plan, Problems> {
    let advice = advise(arguments, paths.longest());
    let text = skeleton::skeleton(arguments, &advice);
    let loaded = crate::read(&text, PLANNED)?;
    // The builders' memory is unknown, because they may run on other machines than this one.
    let (sums, problems) = admission::admit(&loaded, None);
    let planning = planning(&loaded.config, &sums, paths);
    Ok(Plan { advice, text, loaded, sums, problems, planning })
}

/// Formats the plan for people.
fn page(plan: &Plan, is_verbose: bool) -> String {
    let verdict = if plan.problems.are_fatal() { "refused, for the reasons below" } else { "admitted" };
    let (config, sums, planning) = (&plan.loaded.config, &plan.sums, &plan.planning);
    let mut page = format!("{verdict}\n{}", check::head(config, sums, planning));
    if is_verbose {
        page.push('\n');
        page += &check::text(config, sums, planning);
    }
    page += "\nSuggested\n";
    for (key, value, reason) in plan.advice.rows() {
        let _ = writeln!(page, "  {key:<12} {value:<14} {reason}");
    }
    page += "\nTo start: `evbd plan … --config > FILE` writes a configuration with these values";
    page += if is_verbose { ".\n" } else { "; --verbose shows all sums.\n" };
    page
}

/// Returns advice for a load that the links cannot carry.
fn remedy(arguments: &Numbers, plan: &Plan) -> String {
    let (Some(asked), Some(carried)) = (plan.sums.asked, plan.sums.carried) else { return String::new() };
    if asked <= carried {
        return String::new();
    }
    // More builders add port capacity, but they do not add capacity to the sources' links.
    let fragment = arguments.event_size.count() as f64 / f64::from(arguments.sources);
    let per_event = evb_shaper::cost::PacketCost::tcp(arguments.mtu, evb_shaper::cost::CELL).line_factor();
    let link = arguments.link_rate.bytes_per_second();
    let from_host = arguments.host_rate.map_or(link, Rate::bytes_per_second);
    let from_source = from_host / (fragment * per_event);
    if asked > from_source {
        return format!(
            "each source's link carries the fragments of {} events/s, however many builders there are: it takes smaller fragments, faster \
             links or fewer events",
            rounded_down(from_source)
        );
    }
    let builders = (asked * arguments.event_size.count() as f64 * per_event / link).ceil();
    format!(
        "at these sizes {builders:.0} builders or more would carry it, each behind a port of its own: give --builders {builders:.0}"
    )
}

/// Returns the plan as a JSON object.
fn as_json(plan: &Plan) -> serde_json::Value {
    let found = (&plan.loaded.config, &plan.sums, &plan.planning.paths);
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
