//! A first configuration, which admission control accepts unchanged. Comments in the configuration
//! mark the values that users must fill in.

use evb_core::units::{Bytes, Frequency, Rate};

use super::{Advice, Numbers};
use crate::ShapingMode;

/// Writes a configuration with the advised values, in which hosts are to be filled in.
pub(super) fn skeleton(arguments: &Numbers, advice: &Advice) -> String {
    let (sources, builders) = (arguments.sources, arguments.builders);
    let fragment = arguments.event_size.count().div_ceil(u64::from(sources));
    // The largest fragment is assumed to have twice the mean size; builders reserve memory for the
    // largest.
    let largest = Bytes::new((fragment * 2).max(1024));
    format!(
        "# {sources} sources, {builders} builders, events of {}. Fill in the hosts.\n\n\
         [supervisor]\nlisten  = \"supervisor.daq:7000\"\ntrigger = {}\nslots   = {}\n\n{}\
         [security]\nmode = \"none\"  # every peer that reaches the ports is trusted: use a network of its own\n\n\
         [[source]]\nids          = \"{}\"\ninput        = {{ kind = \"generator\", size = \"{fragment} B\" }}  # later your readout\n\
         max_fragment = {}\n{}\n\
         [[builder]]\nids    = \"{}\"\nlisten = \"builder{{id}}.daq:7100\"\nsink   = \"null\"  # {{ kind = \"file\", path = \"out/\" }}\n",
        arguments.event_size,
        trigger(arguments.trigger_rate),
        advice.slots,
        network(arguments, advice),
        ids(sources),
        quoted(largest),
        host_rate(arguments).map_or_else(String::new, |rate| format!("link_rate    = {rate}\n")),
        ids(builders),
    )
}

/// Returns the value of `trigger` in TOML.
pub(super) fn trigger(rate: Option<Frequency>) -> String {
    match rate {
        Some(rate) => format!("{{ kind = \"poisson\", rate = \"{}\" }}", frequency(rate)),
        None => "\"as-fast-as-possible\"".to_owned(),
    }
}

/// Returns the sections `[network]` and `[shaping]` in TOML.
pub(super) fn network(arguments: &Numbers, advice: &Advice) -> String {
    let buffer = match arguments.port_buffer {
        Some(buffer) => format!("port_buffer = {}\n", quoted(buffer)),
        None => {
            "# port_buffer = \"128 KiB\"  # evbd probe-buffer measures it; then leave budget out\n".to_owned()
        }
    };
    let bounds = match (advice.budget, advice.pace) {
        (Some(budget), _) if advice.mode == ShapingMode::Credit => format!("budget = {}\n", quoted(budget)),
        (_, Some((rate, burst))) => format!("rate  = \"{}\"\nburst = {}\n", link(rate), quoted(burst)),
        _ => String::new(),
    };
    format!(
        "[network]\nlink_rate   = \"{}\"\n{buffer}mtu         = {}\n\n[shaping]\nmode = \"{}\"\n{bounds}\n",
        link(arguments.link_rate),
        arguments.mtu,
        advice.mode.word(),
    )
}

/// Returns the value of a source's `link_rate` in TOML; `None` if it is that of all links.
pub(super) fn host_rate(arguments: &Numbers) -> Option<String> {
    arguments.host_rate.map(|rate| format!("\"{}\"", link(rate)))
}

fn ids(count: u16) -> String {
    if count == 1 { "1".to_owned() } else { format!("1-{count}") }
}

/// Formats a size as a quoted TOML string, in a large unit if that is exact and in bytes otherwise.
fn quoted(bytes: Bytes) -> String {
    let shown = bytes.to_string();
    if shown.parse() == Ok(bytes) { format!("\"{shown}\"") } else { format!("\"{} B\"", bytes.count()) }
}

fn link(rate: Rate) -> String {
    let shown = rate.to_string();
    if shown.parse() == Ok(rate) { shown } else { format!("{} bit/s", rate.bits_per_second()) }
}

fn frequency(rate: Frequency) -> String {
    let shown = rate.to_string();
    if shown.parse() == Ok(rate) { shown } else { format!("{} Hz", rate.hertz()) }
}
