//! The output of `evbd probe-buffer listen` for people and as JSON.

use std::fmt::Write as _;

use evb_core::units::{Bytes, Rate};
use serde_json::{Value, json};

use super::search::SearchResult;

/// Returns the measured buffer in whole KiB, the unit of the printed configuration line.
pub(super) fn whole_kib(buffer: Bytes) -> u64 {
    buffer.count() / 1024
}

/// Formats the result of the measurement for people.
pub(super) fn text(result: &SearchResult) -> String {
    let mut text = String::new();
    for (sender, link) in result.links.iter().enumerate() {
        let _ = writeln!(text, "sender {}    sent {link} while it was alone", sender + 1);
    }
    let _ = writeln!(
        text,
        "port        carried {} of L2 frames, while all senders together sent {}",
        result.port, result.offered
    );
    if result.spoilt > 0 {
        let _ = writeln!(
            text,
            "left out    {} bursts of which a host lost datagrams, which does not change the result",
            result.spoilt
        );
    }
    let Some(buffer) = result.buffer() else {
        not_reached(&mut text, result);
        return text;
    };
    let lossy = result.smallest_lossy.unwrap_or_default();
    let _ = writeln!(
        text,
        "bursts      the smallest that lost datagrams had {lossy}, the largest that lost none had {}",
        result.largest_clean
    );
    let mut line = |what: &str, spread: Option<[f64; 3]>| {
        if let Some([least, median, most]) = spread {
            let [least, median, most] = [least, median, most].map(|bytes| bytes / 1024.0);
            let _ = writeln!(text, "{what:<11} {median:.1} KiB (from {least:.1} to {most:.1})");
        }
    };
    line("counted", result.spread(|estimate| estimate.counted));
    line("by delay", result.by_delay());
    let _ = writeln!(
        text,
        "            medians of {} bursts; counted: bytes that were in the port when the first datagram was lost;\n\
        \x20           by delay: time that datagrams waited in the full port, times the port's rate",
        result.counting().len()
    );
    for doubt in blur(result).into_iter().chain(discord(result)) {
        let _ = writeln!(text, "            {doubt}");
    }
    let _ = writeln!(
        text,
        "\nport_buffer = \"{} KiB\"\n\n\
         Write this line into [network] of the configuration. It is the smaller of the two medians, in full frames, rounded down; evb\n\
         uses nine tenths of it (`shaping.budget`). Other traffic to this port, or to others where the switch shares its\n\
         memory, leaves less.",
        whole_kib(buffer)
    );
    text
}

/// Writes why the buffer's size was not found, and what is known of it.
fn not_reached(text: &mut String, result: &SearchResult) {
    let why = match result.not_reached {
        Some(why) => format!("not reached: {why}"),
        None => "not known, because too few datagrams arrived; repeat the probe".to_owned(),
    };
    let _ = writeln!(text, "bursts      up to {} lost nothing", result.largest_clean);
    let _ = writeln!(text, "\nport_buffer: {why}");
    if result.most_waiting > Bytes::kib(1) {
        let least = whole_kib(result.most_waiting);
        let _ = writeln!(
            text,
            "The port holds at least {least} KiB, which were seen waiting in it: until the probe reaches the port's limit,\n\
             write no more than that as `port_buffer` in [network]."
        );
    }
}

/// Describes how much the senders' own queues may have falsified the result; `None` if they did
/// not.
fn blur(result: &SearchResult) -> Option<String> {
    let [_, own, _] = result.spread(|estimate| estimate.own_queue)?;
    let [_, counted, _] = result.spread(|estimate| estimate.counted)?;
    // Less than a twentieth and two full frames is within the error of the measurement.
    (own > counted * 0.05 + 3_028.0).then(|| {
        format!(
            "the senders could not pace evenly, so up to {:.1} KiB of the buffer may be of their own hosts and not of the switch: repeat the probe when these hosts are idle",
            own / 1024.0
        )
    })
}

/// Describes a disagreement between the two methods that measure the buffer; `None` if they agree.
fn discord(result: &SearchResult) -> Option<String> {
    let [_, counted, _] = result.spread(|estimate| estimate.counted)?;
    let [_, delayed, _] = result.by_delay()?;
    let apart = counted.max(delayed) / counted.min(delayed).max(1.0);
    (apart > 1.25).then(|| {
        "`counted` and `by delay` differ: the hosts or the port are busy with something else, or the port's rate changes; repeat the probe when they are idle".into()
    })
}

/// Formats the result of the measurement as JSON.
pub(super) fn json(result: &SearchResult) -> Value {
    let bits = |rate: &Rate| rate.bits_per_second();
    let spread = |spread: Option<[f64; 3]>| {
        spread.map(|[least, median, most]| json!({ "min": least, "median": median, "max": most }))
    };
    let estimates: Vec<Value> = result
        .estimates
        .iter()
        .map(|estimate| {
            json!({
                "burst_bytes": estimate.burst,
                "counted_bytes": estimate.counted,
                "wait_us": estimate.wait * 1e6,
                "rate_bit_s": estimate.rate * 8.0,
                "own_queue_bytes": estimate.own_queue,
            })
        })
        .collect();
    json!({
        "reached": result.buffer().is_some(),
        "why_not": result.buffer().is_none().then_some(result.not_reached),
        "port_buffer_bytes": result.buffer().map(Bytes::count),
        "port_buffer": result.buffer().map(|buffer| format!("{} KiB", whole_kib(buffer))),
        "counted_bytes": spread(result.spread(|estimate| estimate.counted)),
        "delay_bytes": spread(result.by_delay()),
        "at_least_bytes": result.most_waiting.count(),
        "largest_clean_burst_bytes": result.largest_clean.count(),
        "smallest_lossy_burst_bytes": result.smallest_lossy.map(Bytes::count),
        "port_rate_bit_s": bits(&result.port),
        "offered_bit_s": bits(&result.offered),
        "sender_rates_bit_s": result.links.iter().map(bits).collect::<Vec<_>>(),
        "spoilt_bursts": result.spoilt,
        "doubts": blur(result).into_iter().chain(discord(result)).collect::<Vec<_>>(),
        "estimates": estimates,
    })
}
