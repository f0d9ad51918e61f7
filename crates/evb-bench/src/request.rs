//! `evb-bench request`: measures the rate of requests and their responses between two hosts, over
//! TCP and UDP, by the length of the response and the number of outstanding requests.
//!
//! The benchmark repeats the network test of the RCNP event builder (Nomachi et al.), whose
//! builders request data from one source after the other: with one outstanding request, the round
//! trip limits the rate, and with more (pipelined), the link or the host does.

mod wire;
mod server;
mod client;
mod point;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use evb_core::units::{Bytes, parse_duration};

pub use point::{RequestPoint, RequestTable};

use self::{
    client::{Case, Client, Run},
    wire::LARGEST_RESPONSE,
};
use crate::{
    ends::{self, Ends, LARGEST_DATAGRAM, Transport},
    interval::Repetition,
    output::{self, BenchError, OutputArguments, failed},
};

/// Arguments of `evb-bench request`.
#[derive(clap::Args, Clone, Debug)]
pub struct RequestArguments {
    #[command(flatten)]
    ends: Ends,
    /// Transports to measure.
    #[arg(long = "transport", value_delimiter = ',', default_values = ["tcp", "udp"], value_enum)]
    transports: Vec<Transport>,
    /// Lengths of the responses; a request has 16 bytes.
    #[arg(long, value_delimiter = ',', default_value = "16 B,64 B,256 B,1 KiB,4 KiB,16 KiB,64 KiB")]
    lengths: Vec<Bytes>,
    /// Numbers of outstanding requests; 1 is request and response in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    outstanding: Vec<usize>,
    /// Duration of a measurement, after the warm-up.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Time from the first response during which nothing is counted.
    #[arg(long, default_value = "100 ms", value_parser = parse_duration)]
    warm_up: Duration,
    /// Time after which a request over UDP counts as lost, and another one replaces it.
    #[arg(long, default_value = "200 ms", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    repetition: Repetition,
    #[command(flatten)]
    output: OutputArguments,
}

/// Largest number of outstanding requests.
const MOST_OUTSTANDING: usize = 1024;

/// Runs the benchmark, or only its answering end if `--listen` is given.
pub(super) fn main(arguments: &RequestArguments) -> ExitCode {
    let done = match arguments.ends.listen {
        Some(at) => ends::listen(at, wire::BENCH, server::serve).map(|never| match never {}),
        None => measure(arguments).and_then(|table| {
            arguments
                .output
                .publish_with(arguments.ends.peer(), &table, &table.text(), || table.figure().svg())
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn measure(arguments: &RequestArguments) -> Result<RequestTable, BenchError> {
    check(arguments)?;
    let limit = ends::datagram_limit(arguments.ends.peer());
    let (cases, remarks) = cases(arguments, limit);
    ends::measure(arguments.ends.send_to, wire::BENCH, server::serve, |dialogue| {
        let mut client = Client::new(dialogue, arguments);
        let mut table = RequestTable::new(setting(arguments), remarks);
        let bar = output::spinner();
        for (number, case) in cases.iter().enumerate() {
            let at = format!("point {} of {}: {case}", number + 1, cases.len());
            let (rate, runs) = arguments.repetition.runs(Run::per_s, |repeat| {
                bar.set_message(format!("{at}, measurement {repeat}"));
                client.run(case)
            })?;
            table.points.push(RequestPoint::new(case, rate, &runs));
        }
        bar.finish_and_clear();
        Ok(table)
    })
}

/// Returns the points in the order of their measurement, and remarks on points that differ from
/// what was requested. `limit` is the payload of a packet on the path.
fn cases(arguments: &RequestArguments, limit: Option<u64>) -> (Vec<Case>, Vec<String>) {
    let mut cases = Vec::new();
    let mut remarks = Vec::new();
    let mut remark = |text: String| {
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    };
    for transport in &arguments.transports {
        for outstanding in &arguments.outstanding {
            for length in &arguments.lengths {
                let mut length = *length;
                if *transport == Transport::Udp && length.count() > LARGEST_DATAGRAM {
                    remark(format!(
                        "responses of {length} are sent over UDP as one datagram of {LARGEST_DATAGRAM} B"
                    ));
                    length = Bytes::new(LARGEST_DATAGRAM);
                }
                if let Some(limit) =
                    limit.filter(|limit| *transport == Transport::Udp && length.count() > *limit)
                {
                    remark(format!(
                        "over UDP, responses of more than {limit} B travel in IP fragments (the path's MTU)"
                    ));
                }
                let case = Case { transport: *transport, outstanding: *outstanding, length };
                if !cases.contains(&case) {
                    cases.push(case);
                }
            }
        }
    }
    (cases, remarks)
}

fn setting(arguments: &RequestArguments) -> String {
    format!(
        "{}; requests of {} B; responses counted by the requesting end, over the time between the first counted response and the \
         last, {} s after a warm-up of {:?}; over UDP, a response is one datagram, and a request is lost after {:?}; {}",
        ends::path_text(arguments.ends.send_to),
        wire::REQUEST,
        arguments.seconds,
        arguments.warm_up,
        arguments.timeout,
        arguments.repetition.text(),
    )
}

fn check(arguments: &RequestArguments) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    arguments.repetition.check()?;
    ends::check_span(arguments.seconds, arguments.warm_up)?;
    if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&arguments.timeout) {
        return refuse(format!("--timeout is 1 ms to 10 s, not {:?}", arguments.timeout));
    }
    let least = Bytes::new(wire::REQUEST as u64);
    if let Some(length) =
        arguments.lengths.iter().find(|length| !(least..=LARGEST_RESPONSE).contains(*length))
    {
        return refuse(format!("--lengths are {least} to {LARGEST_RESPONSE}, not {length}"));
    }
    if let Some(count) = arguments.outstanding.iter().find(|count| !(1..=MOST_OUTSTANDING).contains(*count)) {
        return refuse(format!("--outstanding is 1 to {MOST_OUTSTANDING}, not {count}"));
    }
    Ok(())
}
