//! The sums of planning as text for people.

use std::{fmt::Write as _, time::Duration};

use evb_core::{quantities::size, units::Bytes};

use super::tables::{first_to_last, of_buffer, percent, significant, table};
use crate::{
    Config, ShapingMode,
    admission::{GrantPaths, PathOrigin, Planning, PortPlanning},
};

/// Formats the sums of planning; ports with equal sums share a row.
pub(super) fn planned(config: &Config, planning: &Planning) -> String {
    let mut page = String::new();
    let groups = alike(&planning.ports);
    if !groups.is_empty() {
        page += "\nPlanning: what a port must hold, unless sources are held back\n";
        page += table("", &BEAR, &groups.iter().map(|group| bear(config, group)).collect::<Vec<_>>())
            .trim_start_matches('\n');
        page += &bear_words(config);
        page += &fast_hosts(&planning.paths, &groups);
        page += &table(
            "\nPlanning: what may be under way, and the part of the link that it fills",
            &fill_head(&planning.paths),
            &{
                let rows = groups.iter().flat_map(|group| fill(config, planning, group));
                rows.collect::<Vec<_>>()
            },
        );
        page += "  The grant path is the time from a builder's request for data (grant) to the first byte. Up to the third column, a link is always full.\n";
    }
    page + &limits(planning)
}

const BEAR: [&str; 6] =
    ["port", "(N−1)·ℓ·Δt", "(Y−X)·Δt", "full buffer drains in", "largest window", "lanes with this window"];

/// Explains the columns of what a port must hold.
fn bear_words(config: &Config) -> String {
    format!(
        "  (N−1)·ℓ·Δt: the bytes that wait in the port if N sources send a mean fragment at once, each at rate ℓ for Δt. (Y−X)·Δt: if an event arrives at\n  \
           rate Y, that of all links and paces, and leaves at X. In brackets: as a part of the port's buffer; above 100 %, packets would be lost. Largest\n  \
           window: the most bytes that a lane (source to builder) may have under way. Last column: lanes that fit with the `window` of [shaping], {}.\n",
        config.shaping.window
    )
}

/// Returns the cells of a row about what a group of equal ports has to bear.
fn bear(config: &Config, group: &[&PortPlanning]) -> Vec<String> {
    let port = group[0];
    let buffer = config.network.port_buffer;
    let unknown = || "?".to_owned();
    let of_buffer = |bytes: Option<Bytes>| bytes.map_or_else(unknown, |bytes| of_buffer(bytes, buffer));
    let window = match (buffer, port.largest_window) {
        (None, _) => unknown(),
        (Some(_), None) => "none, as not even a packet fits".to_owned(),
        (Some(_), Some(window)) => size(window),
    };
    vec![
        names(group),
        of_buffer(port.incast),
        of_buffer(port.overload),
        port.buffer_drain.map_or_else(unknown, time),
        window,
        port.most_windows.map_or_else(unknown, |lanes| lanes.to_string()),
    ]
}

/// Formats the sums of sources whose links differ from their way to a port; empty without any.
fn fast_hosts(paths: &GrantPaths, groups: &[Vec<&PortPlanning>]) -> String {
    let of_group = |group: &Vec<&PortPlanning>| {
        let host = group[0].fast_host.as_ref()?;
        let row = |((path, busy), buffer): ((&Duration, &Duration), &Bytes)| {
            vec![
                names(group),
                host.host_rate.to_string(),
                host.network_rate.to_string(),
                time(*path),
                time(*busy),
                size(*buffer),
            ]
        };
        Some(paths.times().iter().zip(&host.busy).zip(&host.buffer).map(row).collect::<Vec<_>>())
    };
    let rows: Vec<Vec<String>> = groups.iter().filter_map(of_group).flatten().collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["port", "host's rate Y", "network's rate X", "path R", "busy Δt = X·R/Y", "buffer (Y−X)·Δt"];
    table("\nPlanning: a source that sends X·R at once, the bytes that fill the way", &head, &rows)
        + "  R: from a builder's request (grant) to the first byte. For Δt of each R, the source's link is busy. If Y is above X, the switch at which the rate\n  \
           falls to X must hold the buffer (line bytes), or packets are lost; a source that sends at X needs none (`mode = \"token-bucket\"`).\n"
}

/// Returns the columns of the table about how full ports are.
fn fill_head(paths: &GrantPaths) -> [&'static str; 6] {
    let path = match paths.origin() {
        PathOrigin::Assumed => "assumed grant path",
        PathOrigin::Stated => "stated grant path",
        PathOrigin::Measured(_) => "measured grant path",
    };
    ["port", "under way at most", "fills it up to", path, "part of the link", "a full link needs"]
}

/// Returns the rows about how full a group of equal ports is, one for each time of the grant path.
fn fill(config: &Config, planning: &Planning, group: &[&PortPlanning]) -> Vec<Vec<String>> {
    let port = group[0];
    let held = match (port.outstanding, config.shaping.mode) {
        (Some(held), _) => size(held),
        (None, ShapingMode::TokenBucket) => "what `rate` lets through".to_owned(),
        (None, _) => "unbounded".to_owned(),
    };
    let row = |(index, path): (usize, &Duration)| {
        let (name, held, up_to) = match index {
            0 => (names(group), held.clone(), port.full_up_to.map_or_else(|| "any".to_owned(), time)),
            _ => (String::new(), String::new(), String::new()),
        };
        let part = percent(port.utilisation.get(index).copied());
        vec![
            name,
            held,
            up_to,
            format!("{}{}", time(*path), quantile(&planning.paths, index)),
            part,
            port.full_budget.get(index).copied().map_or_else(String::new, size),
        ]
    };
    planning.paths.times().iter().enumerate().map(row).collect()
}

/// Returns advice for each group of ports whose links stay partly idle at the longest time from a
/// grant to its data.
pub(super) fn unfilled_ports(planning: &Planning) -> Vec<String> {
    alike(&planning.ports).iter().filter_map(|group| unfilled(planning, group)).collect()
}

/// Returns the stages of the measured time from a grant to its data for each group of ports; empty
/// if the time was not measured.
pub(super) fn stages(planning: &Planning) -> String {
    alike(&planning.ports).iter().filter_map(|group| by_stage(&planning.paths, group)).collect()
}

/// Returns the name of the quantile at `index`; empty unless the path from a grant to its data was
/// measured.
fn quantile(paths: &GrantPaths, index: usize) -> &'static str {
    match (paths.measured(), index) {
        (None, _) => "",
        (Some(_), 0) => " (p50)",
        (Some(_), _) => " (p99)",
    }
}

/// Returns C·R/L for the median of each stage and for the whole path; empty if the bytes under way
/// are not limited.
pub(super) fn of_budget(paths: &GrantPaths, port: &PortPlanning) -> Vec<(&'static str, f64)> {
    let Some((path, up_to)) = paths.measured().zip(port.full_up_to) else { return Vec::new() };
    let part = |time: Duration| time.as_secs_f64() / up_to.as_secs_f64();
    let stages = path.stages.iter().map(|stage| (stage.key, part(stage.p50)));
    stages.chain([("first_byte", part(path.p50))]).collect()
}

/// Formats the stages of a measured time R from a grant to its data, and advice that makes the
/// longest stage shorter.
fn by_stage(paths: &GrantPaths, group: &[&PortPlanning]) -> Option<String> {
    let path = paths.measured()?;
    let parts = of_budget(paths, group[0]);
    if parts.is_empty() {
        return None;
    }
    let whole = ("grant to first byte", path.p50, Some(path.p99));
    let stages = path.stages.iter().map(|stage| (stage.name, stage.p50, stage.p99)).chain([whole]);
    let row = |((name, p50, p99), (_, part)): ((&str, _, Option<_>), (_, f64))| {
        vec![name.to_owned(), time(p50), p99.map_or_else(|| "-".to_owned(), time), format!("{part:.3}")]
    };
    let rows: Vec<_> = stages.zip(parts).map(row).collect();
    let title = format!(
        "\nR by stage, from a builder's request (grant) to the first byte, as {} has it, at {}",
        path.file,
        names(group)
    );
    let mut page = table(&title, &["stage", "p50", "p99", "C·R/L of p50"], &rows);
    page += "  C·R/L: C is the rate of the link, R the time of the stage, L the budget of bytes under way; above 1, the link is partly idle.\n";
    if let Some(slowest) = path.slowest() {
        let _ = writeln!(page, "  Most of it: {}. What makes it shorter: {}", slowest.name, slowest.remedy);
    }
    Some(page)
}

/// Formats advice for a port whose link stays partly idle at the longest time from a grant to its
/// data.
fn unfilled(planning: &Planning, group: &[&PortPlanning]) -> Option<String> {
    let port = group[0];
    let worst = port.utilisation.len().checked_sub(1)?;
    let part = port.utilisation[worst];
    if part >= 1.0 {
        return None;
    }
    let (path, up_to) = (time(*planning.paths.times().get(worst)?), time(port.full_up_to?));
    // The default budget of fast ports is at least three quarters of the buffer, so that 4/3 of the
    // needed budget is a sufficient buffer.
    let buffer = size(*port.full_budget.get(worst)? * 4 / 3);
    Some(format!(
        "{}: if data come {path} after a builder's request (grant), the budget of bytes under way fills {} of the link. What would fill it: a port \
         buffer of {buffer}, or data after at most {up_to}, by cores that are kept awake (`keep_awake`), more cores, or a larger MTU",
        names(group),
        percent(Some(part)),
    ))
}

/// Formats all limits of the event rate, the lowest first.
fn limits(planning: &Planning) -> String {
    let mut page = String::new();
    for (index, bound) in planning.bounds.iter().enumerate() {
        page += if index == 0 { "\nLimits of the event rate\n" } else { "" };
        let _ = writeln!(page, "  {:>10} events/s  {}", significant(bound.events_per_s), bound.resource);
    }
    page
}

/// Groups ports that differ only in their names, so that a table shows them once.
fn alike(ports: &[PortPlanning]) -> Vec<Vec<&PortPlanning>> {
    let mut groups: Vec<Vec<&PortPlanning>> = Vec::new();
    for port in ports {
        let same = |other: &PortPlanning| PortPlanning { name: port.name.clone(), ..other.clone() } == *port;
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) => group.push(port),
            None => groups.push(vec![port]),
        }
    }
    groups
}

fn names(group: &[&PortPlanning]) -> String {
    first_to_last(&group.iter().map(|port| port.name.as_str()).collect::<Vec<_>>())
}

/// Formats a time with three digits and a unit.
fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}
