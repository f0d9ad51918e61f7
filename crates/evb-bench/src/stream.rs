//! `evb-bench stream`: measures the throughput of one flow between two hosts, over TCP and UDP, by
//! the size of the records that the sender writes.
//!
//! The benchmark repeats the network tests of the BaBar event builder and of the KEK study of
//! quality of service: each point is repeated until its confidence interval is narrow, and sweeps
//! change Nagle's algorithm, socket buffers, packet sizes and interrupt coalescing.

mod wire;
mod coalescing;
mod plan;
mod receiver;
mod sender;
mod point;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use evb_core::units::{Bytes, parse_duration};

pub use point::{StreamPoint, StreamTable};

use self::{
    coalescing::{Coalescer, Times},
    sender::{Run, Sender},
};
use crate::{
    ends::{self, Ends, Transport},
    interval::Repetition,
    machine,
    output::{self, BenchError, OutputArguments, failed},
};

/// Arguments of `evb-bench stream`.
#[derive(clap::Args, Clone, Debug)]
pub struct StreamArguments {
    #[command(flatten)]
    ends: Ends,
    /// Transports to measure.
    #[arg(long = "transport", value_delimiter = ',', default_values = ["tcp", "udp"], value_enum)]
    transports: Vec<Transport>,
    /// Sizes of the records, each of which is one `write` of the sender, or one datagram.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "16 B,32 B,64 B,128 B,256 B,512 B,1 KiB,2 KiB,4 KiB,8 KiB,16 KiB,32 KiB,64 KiB"
    )]
    records: Vec<Bytes>,
    /// Duration of a measurement, after the warm-up.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Time from the first arrival during which nothing is counted.
    #[arg(long, default_value = "200 ms", value_parser = parse_duration)]
    warm_up: Duration,
    #[command(flatten)]
    repetition: Repetition,
    /// Sweep of TCP_NODELAY; `false` leaves Nagle's algorithm on.
    #[arg(long, value_delimiter = ',', default_values_t = [true], action = clap::ArgAction::Set)]
    nodelay: Vec<bool>,
    /// Sweep of the sizes of the send and receive buffers; by default, the system's own.
    #[arg(long, value_delimiter = ',')]
    socket_buffers: Vec<Bytes>,
    /// Sweep of the largest TCP payload of a packet, in bytes; by default, that of the path's MTU.
    #[arg(long, value_delimiter = ',')]
    mss: Vec<u32>,
    /// Sweep of the interrupt coalescing of this host's device, as TX/RX in microseconds, such as
    /// 996/1000; the settings before are restored.
    #[arg(long, value_delimiter = ',', value_name = "TX/RX")]
    coalescing: Vec<Times>,
    #[command(flatten)]
    output: OutputArguments,
}

/// Runs the benchmark, or only its receiving end if `--listen` is given.
pub(super) fn main(arguments: &StreamArguments) -> ExitCode {
    let done = match arguments.ends.listen {
        Some(at) => ends::listen(at, wire::BENCH, receiver::serve).map(|never| match never {}),
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

fn measure(arguments: &StreamArguments) -> Result<StreamTable, BenchError> {
    check(arguments)?;
    let peer = arguments.ends.peer();
    let mut coalescer = match arguments.coalescing.is_empty() {
        true => None,
        false => Some(Coalescer::of(machine::device(peer))?),
    };
    let (cases, mut remarks) = plan::cases(arguments);
    let limit = ends::datagram_limit(peer);
    if cases.iter().any(|case| plan::is_fragmented(case, limit)) {
        let limit = limit.unwrap_or_default();
        remarks.push(format!(
            "over UDP, records of more than {limit} B travel in IP fragments (the path's MTU)"
        ));
    }
    ends::measure(arguments.ends.send_to, wire::BENCH, receiver::serve, |dialogue| {
        let mut sender = Sender::new(dialogue, arguments);
        let mut table = StreamTable::new(setting(arguments), remarks);
        let bar = output::spinner();
        for (number, case) in cases.iter().enumerate() {
            let at = format!("point {} of {}: {case}", number + 1, cases.len());
            if let Some((coalescer, times)) = coalescer.as_mut().zip(case.coalescing) {
                coalescer.set(times)?;
            }
            let (rate, runs) = arguments.repetition.runs(Run::bits_per_s, |repeat| {
                bar.set_message(format!("{at}, measurement {repeat}"));
                sender.run(case)
            })?;
            table.add(StreamPoint::new(case, rate, &runs));
        }
        bar.finish_and_clear();
        Ok(table)
    })
}

fn setting(arguments: &StreamArguments) -> String {
    format!(
        "{}; one flow; payload that arrived, over the time from the first counted arrival to the last by the receiver's monotonic \
         clock, {} s after a warm-up of {:?}; {}",
        ends::path_text(arguments.ends.send_to),
        arguments.seconds,
        arguments.warm_up,
        arguments.repetition.text(),
    )
}

fn check(arguments: &StreamArguments) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    arguments.repetition.check()?;
    ends::check_span(arguments.seconds, arguments.warm_up)?;
    let bad = |record: &&Bytes| record.count() == 0 || **record > wire::LARGEST_RECORD;
    if let Some(record) = arguments.records.iter().find(bad) {
        return refuse(format!("--records are 1 B to {}, not {record}", wire::LARGEST_RECORD));
    }
    if let Some(buffer) = arguments.socket_buffers.iter().find(|buffer| !wire::is_buffer(**buffer)) {
        return refuse(format!(
            "--socket-buffers are {} to {}, not {buffer}",
            wire::LEAST_BUFFER,
            wire::LARGEST_BUFFER
        ));
    }
    if let Some(mss) = arguments.mss.iter().find(|mss| !wire::is_mss(**mss)) {
        let (least, most) = (wire::MSS.start(), wire::MSS.end());
        return refuse(format!("--mss is {least} to {most} (bytes), not {mss}"));
    }
    let udp = arguments.transports.contains(&Transport::Udp);
    if let Some(record) = arguments.records.iter().find(|record| udp && record.count() < wire::LABEL as u64) {
        return refuse(format!(
            "over UDP, a record carries a label of {} B, so {record} is too small; measure it with --transport tcp",
            wire::LABEL
        ));
    }
    Ok(())
}
