//! The sums as tables for people.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Write as _,
};

use evb_core::{
    quantities::{counted, size},
    units::Bytes,
};

use super::{
    planned::planned,
    tables::{first_to_last, of_buffer, percent, rate, significant, table},
    tree::tree,
};
use crate::{
    Config, ShapingMode, TriggerConfig,
    admission::{Planning, PortSum, Sums, UplinkSum, narrowest, rounded_down},
    ranges,
};

/// Formats all sums as a page of text for people.
pub fn text(config: &Config, sums: &Sums, planning: &Planning) -> String {
    let mut page = system(config, sums);
    page += &tree(config, sums);
    page += &table("\nPorts towards builders", &port_head(config), &ports(config, sums));
    page += &table("\nLinks from sources", &["link", "sources", "load", "of the link"], &uplinks(sums));
    page += &table("\nMemory", &["of each", "at most", "may use"], &memory(sums));
    page += &descriptors(sums);
    page += &planned(config, planning);
    let unknown = match page.contains('?') {
        true => " A ? is not stated in [network] or not known before the run.",
        false => "",
    };
    page + "\nRates and loads are line bytes (L2 + 24 per packet); budgets, windows and bursts are buffer bytes (L2 frames)."
        + unknown
        + "\n"
}

/// The row of links whose rate the configuration does not state.
const NO_RATE: &str = "not stated, so the load on it is not checked: write `link_rate` in [network]";
/// The row of port buffers whose size the configuration does not state.
const NO_BUFFER: &str = "not stated, so the load on it is not checked: write `port_buffer` in [network]";

/// Describes the system, one quantity a line.
fn system(config: &Config, sums: &Sums) -> String {
    let network = &config.network;
    let unknown = || {
        "not known before the run, as it depends on the inputs of sources: nothing needs to be done"
            .to_owned()
    };
    let shaping = &config.shaping;
    let events = match (config.run.events, config.run.duration) {
        (Some(events), Some(time)) => format!("{events} events, or {time:?}"),
        (Some(events), None) => format!("{events} events"),
        (None, Some(time)) => format!("{time:?}"),
        (None, None) => "until stopped".to_owned(),
    };
    let event = match sums.event.payload {
        Some(payload) => {
            format!("{}, {} of payload on average", counted(sums.event.fragments, "fragment"), size(payload))
        }
        None => format!("{} fragments, whose sizes depend on the inputs of sources", sums.event.fragments),
    };
    let mode = match shaping.mode {
        ShapingMode::Credit => format!("credit, in which a builder asks a source for at most {} at a time", shaping.chunk),
        ShapingMode::Window => format!("window, {} for each lane", shaping.window),
        ShapingMode::TokenBucket => {
            let burst = shaping.rate.map_or(Bytes::ZERO, |rate| config.pace(rate).burst);
            format!("token-bucket, {} for each lane, {burst} at once", rate(shaping.rate))
        }
        ShapingMode::None => "none: expect lost packets in switches with small buffers; mode = \"credit\" in [shaping] prevents them".to_owned(),
    };
    let unstated = || match sums.event.line {
        Some(_) => "not known, so the load is not checked: write `link_rate` in [network]".to_owned(),
        None => unknown(),
    };
    let carried = narrowest(config, sums).map_or_else(unstated, |(carried, by)| {
        let by = if sums.nodes.is_empty() { String::new() } else { format!(", bounded by {by}") };
        format!("{} events/s{by}", rounded_down(carried))
    });
    let rows = [
        (
            "system",
            format!(
                "{}, {}",
                counted(config.sources.len(), "source"),
                counted(config.builders.len(), "builder")
            ),
        ),
        ("run", events),
        ("trigger", trigger(config, sums)),
        ("event", event),
        ("on the wire", sums.event.line.map_or_else(unknown, size)),
        ("largest event", size(sums.event.largest)),
        ("link", network.link_rate.map_or_else(|| NO_RATE.to_owned(), |rate| rate.to_string())),
        (
            "port buffer",
            network.port_buffer.map_or_else(|| NO_BUFFER.to_owned(), |buffer| buffer.to_string()),
        ),
        ("network", switches(sums)),
        ("links carry", carried),
        ("shaping", mode),
    ];
    let mut page = String::new();
    for (name, value) in rows {
        let _ = writeln!(page, "{name:<14} {value}");
    }
    page
}

/// Returns the switches that the sums assume.
pub(super) fn switches(sums: &Sums) -> String {
    match sums.nodes.as_slice() {
        [] => {
            "assumed: one switch that carries all its ports at once; state [[network.trunk]] if there are more".into()
        }
        [_] => "a tree of switches with one trunk or shared buffer".into(),
        nodes => format!("a tree of switches with {} trunks and shared buffers", nodes.len()),
    }
}

/// Describes the trigger, and how much of what the links carry its rate is.
fn trigger(config: &Config, sums: &Sums) -> String {
    let kind = match &config.supervisor.trigger {
        TriggerConfig::Periodic { .. } => "periodic".to_owned(),
        TriggerConfig::Poisson { .. } => "poisson".to_owned(),
        TriggerConfig::AsFastAsPossible => "as fast as possible".to_owned(),
        TriggerConfig::External { listen, .. } => format!("external, at {listen}"),
        TriggerConfig::Multicast(group) => format!("multicast, group {}", group.group),
    };
    match (sums.asked, sums.carried) {
        (Some(asked), Some(carried)) => {
            format!(
                "{kind}, {} events/s: {:.1} % of what the links carry",
                significant(asked),
                asked / carried * 100.0
            )
        }
        (Some(asked), None) => format!("{kind}, {} events/s", significant(asked)),
        (None, _) => kind,
    }
}

/// Returns the columns of the table of ports.
fn port_head(config: &Config) -> [&'static str; 7] {
    let (bound, parts) = match config.shaping.mode {
        ShapingMode::Credit => ("budget", "grants"),
        ShapingMode::Window => ("windows", "-"),
        ShapingMode::TokenBucket => ("bursts", "-"),
        ShapingMode::None => ("unbounded", "-"),
    };
    [
        "port",
        "builders",
        "load",
        "of the link",
        "one whole event",
        bound,
        if parts == "grants" { "grants, time to drain" } else { parts },
    ]
}

/// Returns the table rows of the ports; ports with equal sums share a row.
fn ports(config: &Config, sums: &Sums) -> Vec<Vec<String>> {
    let buffer = config.network.port_buffer;
    let cells = |port: &PortSum| {
        let (bound, parts) = match config.shaping.mode {
            ShapingMode::Credit => {
                let drain = port.drain.map_or(String::new(), |drain| format!(", {drain:.0?}"));
                (of_buffer(port.budget, buffer), format!("{}{drain}", port.chunks))
            }
            ShapingMode::Window => (of_buffer(port.windows, buffer), "-".into()),
            ShapingMode::TokenBucket => (of_buffer(port.bursts, buffer), "-".into()),
            ShapingMode::None => ("-".into(), "-".into()),
        };
        vec![
            rate(port.load),
            percent(port.utilisation),
            sums.event.burst.map_or_else(|| "?".into(), |burst| of_buffer(burst, buffer)),
            bound,
            parts,
        ]
    };
    let each = sums.ports.iter().map(|port| {
        let ids = port.builders.iter().map(|id| id.number()).collect();
        (port.name.as_str(), ids, cells(port))
    });
    alike(each)
}

/// Returns a table row for all links with equal cells and numbers of roles: names, ids, cells.
fn alike<'s>(links: impl Iterator<Item = (&'s str, Vec<u16>, Vec<String>)>) -> Vec<Vec<String>> {
    let mut rows: Vec<(Vec<&str>, Vec<u16>, Vec<String>)> = Vec::new();
    let mut known: BTreeMap<(usize, Vec<String>), usize> = BTreeMap::new();
    for (name, ids, cells) in links {
        match known.entry((ids.len(), cells.clone())) {
            Entry::Occupied(row) => {
                let (names, all, _) = &mut rows[*row.get()];
                names.push(name);
                all.extend(ids);
            }
            Entry::Vacant(row) => {
                row.insert(rows.len());
                rows.push((vec![name], ids, cells));
            }
        }
    }
    let row = |(names, mut ids, cells): (Vec<&str>, Vec<u16>, Vec<String>)| {
        ids.sort_unstable();
        [first_to_last(&names), ranges(ids.into_iter())].into_iter().chain(cells).collect()
    };
    rows.into_iter().map(row).collect()
}

/// Number of groups of hosts whose descriptors are listed.
const HOSTS: usize = 4;

/// Formats the file descriptors that each host needs, the most first; equal hosts are listed once.
fn descriptors(sums: &Sums) -> String {
    let each = sums.descriptors.iter().map(|sum| {
        let host = sum.host.as_deref().unwrap_or("this host");
        (host, Vec::new(), vec![format!("{:>9}", sum.needed())])
    });
    let mut rows = alike(each);
    rows.sort_by(|a, b| b.last().cmp(&a.last()));
    let more = rows.len() > HOSTS;
    let listed: Vec<String> = rows
        .iter()
        .take(HOSTS)
        .map(|row| format!("{} {}", row[0], row.last().map_or("", |number| number.trim())))
        .collect();
    let more = if more { ", fewer on the other hosts" } else { "" };
    let limit = sums.descriptors.first().and_then(|sum| sum.limit);
    let limit = limit.map_or_else(String::new, |limit| format!("; a process of this host may open {limit}"));
    format!("\nFile descriptors needed: {}{more}{limit}\n", listed.join(", "))
}

/// Returns the table rows of the sources' links; links with equal loads share a row.
fn uplinks(sums: &Sums) -> Vec<Vec<String>> {
    let each = sums.uplinks.iter().map(|uplink: &UplinkSum| {
        let ids = uplink.sources.iter().map(|id| id.number()).collect();
        (uplink.name.as_str(), ids, vec![rate(uplink.load), percent(uplink.utilisation)])
    });
    alike(each)
}

/// Returns the table rows of the memory that each role needs; roles with equal needs share a row.
fn memory(sums: &Sums) -> Vec<Vec<String>> {
    let limit = |limit: Option<Bytes>| limit.map_or_else(|| "?".into(), size);
    let builders = alike(
        sums.memory
            .iter()
            .map(|sum| ("", vec![sum.builder.number()], vec![size(sum.needed), limit(sum.limit)])),
    );
    let needs = sums.source_memory.iter();
    let sources = alike(needs.map(|(source, needed)| ("", vec![source.number()], vec![size(*needed)])));
    let named = |role: &'static str| {
        move |row: Vec<String>| {
            let mut cells = row.into_iter().skip(1);
            let name = format!("{role} {}", cells.next().unwrap_or_default());
            [name].into_iter().chain(cells).collect()
        }
    };
    builders.into_iter().map(named("builder")).chain(sources.into_iter().map(named("source"))).collect()
}
