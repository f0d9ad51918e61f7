//! The output of `evbd probe-buffer listen` for people and as JSON.

use std::fmt::Write as _;

use evb_core::units::{Bytes, Rate};
use serde_json::{Value, json};

use super::search::BufferEstimate;

/// Returns the measured buffer in whole KiB, the unit of the printed configuration line.
pub(super) fn whole_kib(buffer: Bytes) -> u64 {
    buffer.count() / 1024
}

/// Formats the result of the measurement for people.
pub(super) fn text(finding: &BufferEstimate) -> String {
    let mut text = String::new();
    for (sender, link) in finding.links.iter().enumerate() {
        let _ = writeln!(text, "sender {}    {link} alone", sender + 1);
    }
    let _ = writeln!(
        text,
        "port        {} of L2 frames, under {} from all senders",
        finding.port, finding.offered
    );
    if finding.spoilt > 0 {
        let _ = writeln!(text, "left out    {} bursts of which a host lost datagrams", finding.spoilt);
    }
    let Some(buffer) = finding.buffer() else {
        not_reached(&mut text, finding);
        return text;
    };
    let lossy = finding.smallest_lossy.unwrap_or_default();
    let _ = writeln!(
        text,
        "bursts      the smallest that lost had {lossy}, the largest that did not {}",
        finding.largest_clean
    );
    let mut line = |what: &str, spread: Option<[f64; 3]>| {
        if let Some([least, median, most]) = spread {
            let [least, median, most] = [least, median, most].map(|bytes| bytes / 1024.0);
            let _ = writeln!(text, "{what:<11} {median:.1} KiB (from {least:.1} to {most:.1})");
        }
    };
    line("counted", finding.spread(|estimate| estimate.counted));
    line("by delay", finding.by_delay());
    let _ = writeln!(
        text,
        "            medians of {} bursts; counted: bytes sent into the port and not yet come when the first was lost;\n\
        \x20           by delay: how long those waited that came through the full port, times its rate",
        finding.counting().len()
    );
    for doubt in blur(finding).into_iter().chain(discord(finding)) {
        let _ = writeln!(text, "            {doubt}");
    }
    let _ = writeln!(
        text,
        "\nport_buffer = \"{} KiB\"\n\n\
         The smaller of the two, in full frames, rounded down; evb uses nine tenths of it (`shaping.budget`). Other traffic to\n\
         this port, or to others where the switch shares its memory, leaves less.",
        whole_kib(buffer)
    );
    text
}

fn not_reached(text: &mut String, finding: &BufferEstimate) {
    let why = finding.not_reached.unwrap_or("too few datagrams arrived to tell");
    let _ = writeln!(text, "bursts      up to {} nothing lost", finding.largest_clean);
    let _ = writeln!(text, "\nport_buffer: not reached: {why}");
    if finding.most_waiting > Bytes::kib(1) {
        let _ = writeln!(text, "at least {} KiB were seen waiting", whole_kib(finding.most_waiting));
    }
    let _ = writeln!(
        text,
        "More senders, or senders with faster links, overload a port; --burst allows larger bursts."
    );
}

/// Describes how much the senders' own queues may have falsified the result; `None` if they did
/// not.
fn blur(finding: &BufferEstimate) -> Option<String> {
    let [_, own, _] = finding.spread(|estimate| estimate.own_queue)?;
    let [_, counted, _] = finding.spread(|estimate| estimate.counted)?;
    (own > counted * 0.05 + 3_028.0).then(|| {
        format!(
            "the senders could not pace evenly: up to {:.1} KiB may have waited in their own links instead",
            own / 1024.0
        )
    })
}

/// Describes a disagreement between the two methods that measure the buffer; `None` if they agree.
fn discord(finding: &BufferEstimate) -> Option<String> {
    let [_, counted, _] = finding.spread(|estimate| estimate.counted)?;
    let [_, delayed, _] = finding.by_delay()?;
    let apart = counted.max(delayed) / counted.min(delayed).max(1.0);
    (apart > 1.25).then(|| {
        "the two differ: the hosts or the port are busy with something else, or the port's rate changes; repeat it".into()
    })
}

/// Formats the result of the measurement as JSON.
pub(super) fn json(finding: &BufferEstimate) -> Value {
    let bits = |rate: &Rate| rate.bits_per_second();
    let spread = |spread: Option<[f64; 3]>| {
        spread.map(|[least, median, most]| json!({ "min": least, "median": median, "max": most }))
    };
    let estimates: Vec<Value> = finding
        .estimates
        .iter()
        .map(|e| {
            json!({
                "burst_bytes": e.burst,
                "counted_bytes": e.counted,
                "wait_us": e.wait * 1e6,
                "rate_bit_s": e.rate * 8.0,
                "own_queue_bytes": e.own_queue,
            })
        })
        .collect();
    json!({
        "reached": finding.buffer().is_some(),
        "why_not": finding.buffer().is_none().then_some(finding.not_reached),
        "port_buffer_bytes": finding.buffer().map(Bytes::count),
        "port_buffer": finding.buffer().map(|buffer| format!("{} KiB", whole_kib(buffer))),
        "counted_bytes": spread(finding.spread(|estimate| estimate.counted)),
        "delay_bytes": spread(finding.by_delay()),
        "at_least_bytes": finding.most_waiting.count(),
        "largest_clean_burst_bytes": finding.largest_clean.count(),
        "smallest_lossy_burst_bytes": finding.smallest_lossy.map(Bytes::count),
        "port_rate_bit_s": bits(&finding.port),
        "offered_bit_s": bits(&finding.offered),
        "sender_rates_bit_s": finding.links.iter().map(bits).collect::<Vec<_>>(),
        "spoilt_bursts": finding.spoilt,
        "doubts": blur(finding).into_iter().chain(discord(finding)).collect::<Vec<_>>(),
        "estimates": estimates,
    })
}
