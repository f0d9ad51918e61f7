//! The sums as JSON for machines: plain numbers, with the units in the names of the keys.

use std::time::Duration;

use evb_core::units::{Bytes, Rate};
use serde_json::{Value, json};

use super::{alignment, planned::of_budget, text::switches};
use crate::{
    Config, Problems, Severity,
    admission::{
        DescriptorSum, GrantPaths, MemorySum, NodeSum, Planning, PortPlanning, PortSum, QueueSum, Sums,
        UplinkSum, narrowest, planning,
    },
};

/// Returns one JSON object with the system, the sums and the problems. `found` is `None` if the
/// file could not be read to its end. The [`GrantPaths`] have the same meaning as in
/// [`super::text()`].
pub fn json(found: Option<(&Config, &Sums, &GrantPaths)>, problems: Option<&Problems>) -> Value {
    let list: Vec<Value> = problems
        .into_iter()
        .flat_map(|problems| problems.iter().map(move |problem| (problems, problem)))
        .map(|(problems, problem)| {
            json!({
                "severity": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "line": problems.line_of(problem),
                "key": problem.key,
                "reason": problem.reason,
                "remedy": problem.remedy,
            })
        })
        .collect();
    let admitted = found.is_some() && !problems.is_some_and(Problems::are_fatal);
    let Some((config, sums, paths)) = found else {
        return json!({ "admitted": false, "problems": list });
    };
    let planning = planning(config, sums, paths);
    json!({
        "admitted": admitted,
        "problems": list,
        "sources": config.sources.len(),
        "builders": config.builders.len(),
        "mode": config.shaping.mode.word(),
        "chunk_bytes": config.shaping.chunk.count(),
        "window_bytes": config.shaping.window.count(),
        "link_bits_per_s": bits(config.network.link_rate),
        "port_buffer_bytes": bytes(config.network.port_buffer),
        "asked_events_per_s": sums.asked,
        "carried_events_per_s": sums.carried,
        "event": {
            "fragments": sums.event.fragments,
            "payload_bytes": bytes(sums.event.payload),
            "line_bytes": bytes(sums.event.line),
            "burst_buffer_bytes": bytes(sums.event.burst),
            "largest_bytes": sums.event.largest.count(),
        },
        "ports": sums.ports.iter().map(port).collect::<Vec<_>>(),
        "uplinks": sums.uplinks.iter().map(uplink).collect::<Vec<_>>(),
        "network": switches(sums),
        "nodes": nodes(config, sums),
        "memory": sums.memory.iter().map(memory).collect::<Vec<_>>(),
        "source_memory": sums.source_memory.iter().map(|(source, needed)| {
            json!({ "source": source.number(), "needed_bytes": needed.count() })
        }).collect::<Vec<_>>(),
        "descriptors": sums.descriptors.iter().map(descriptors).collect::<Vec<_>>(),
        "alignment": alignment::json(config),
        "grant_path": grant_path(paths),
        "planning": planned(&planning),
        "expected_events_per_s": planning.bounds.first().map(|bound| bound.events_per_s),
        "limited_by": planning.bounds.first().map(|bound| bound.resource.as_str()),
        "bounds": planning.bounds.iter().map(|bound| {
            json!({ "resource": bound.resource, "events_per_s": bound.events_per_s })
        }).collect::<Vec<_>>(),
    })
}

/// Returns the planning of each port.
fn planned(planning: &Planning) -> Vec<Value> {
    let port = |port: &PortPlanning| {
        let stages = of_budget(&planning.paths, port);
        let paths = planning.paths.times().iter().zip(&port.utilisation).zip(&port.full_budget);
        let fast_host = port.fast_host.as_ref().map(|host| {
            let sums = planning.paths.times().iter().zip(&host.busy).zip(&host.buffer);
            json!({
                "host_bits_per_s": host.host_rate.bits_per_second(),
                "network_bits_per_s": host.network_rate.bits_per_second(),
                "grant_paths": sums.map(|((time, busy), buffer)| {
                    json!({
                        "grant_path_us": micros(Some(*time)),
                        "busy_us": micros(Some(*busy)),
                        "buffer_line_bytes": buffer.count(),
                    })
                }).collect::<Vec<_>>(),
            })
        });
        json!({
            "port": port.name,
            "incast_bytes": bytes(port.incast),
            "overload_bytes": bytes(port.overload),
            "fast_host": fast_host,
            "buffer_drain_us": micros(port.buffer_drain),
            "outstanding_bytes": bytes(port.outstanding),
            "full_up_to_us": micros(port.full_up_to),
            "grant_paths": paths.map(|((time, part), budget)| {
                json!({ "grant_path_us": micros(Some(*time)), "utilisation": part, "full_budget_bytes": budget.count() })
            }).collect::<Vec<_>>(),
            "stages": stages.iter().map(|(key, part)| json!({ "stage": key, "of_budget": part })).collect::<Vec<_>>(),
            "largest_window_bytes": bytes(port.largest_window),
            "most_windows": port.most_windows,
        })
    };
    planning.ports.iter().map(port).collect()
}

/// Returns the times R from a grant to its data as JSON, with their origin and their stages.
fn grant_path(paths: &GrantPaths) -> Value {
    let measured = paths.measured();
    let stages: Vec<Value> = measured
        .into_iter()
        .flat_map(|path| &path.stages)
        .map(|stage| json!({ "stage": stage.key, "p50_us": micros(Some(stage.p50)), "p99_us": micros(stage.p99) }))
        .collect();
    json!({
        "origin": paths.word(),
        "file": measured.map(|path| path.file.as_str()),
        "stages": stages,
    })
}

fn micros(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * 1e6)
}

/// Returns the sums of a port.
fn port(port: &PortSum) -> Value {
    json!({
        "port": port.name,
        "builders": port.builders.iter().map(|id| id.number()).collect::<Vec<_>>(),
        "link_bits_per_s": bits(port.rate),
        "load_bits_per_s": bits(port.load),
        "utilisation": port.utilisation,
        "budget_bytes": port.budget.count(),
        "budget_chunks": port.chunks,
        "drain_us": micros(port.drain),
        "windows_bytes": port.windows.count(),
        "bursts_bytes": port.bursts.count(),
        "paced_bits_per_s": bits(port.paced),
    })
}

/// Returns the sums of a link from sources.
fn uplink(uplink: &UplinkSum) -> Value {
    json!({
        "link": uplink.name,
        "sources": uplink.sources.iter().map(|id| id.number()).collect::<Vec<_>>(),
        "link_bits_per_s": bits(uplink.rate),
        "load_bits_per_s": bits(uplink.load),
        "utilisation": uplink.utilisation,
        "paced_bits_per_s": bits(uplink.paced),
    })
}

/// Returns the trunks and shared buffers, each after the one that it is behind.
fn nodes(config: &Config, sums: &Sums) -> Vec<Value> {
    let least = narrowest(config, sums).map(|(events, _)| events);
    let direction = |queue: &QueueSum| {
        json!({
            "direction": queue.direction.word(),
            "sources": queue.sources,
            "builders": queue.builders,
            "load_bits_per_s": bits(queue.load),
            "utilisation": queue.utilisation,
            "carried_events_per_s": queue.carried,
            "budget_bytes": bytes(queue.budget),
            "windows_bytes": queue.windows.count(),
            "bursts_bytes": queue.bursts.count(),
            "paced_bits_per_s": bits(queue.paced),
        })
    };
    let node = |node: &NodeSum| {
        let carried = node.narrowest().map(|(events, _)| events);
        json!({
            "node": node.name,
            "kind": node.kind.word(),
            "behind": node.parent.and_then(|parent| sums.nodes.get(parent)).map(|parent| parent.name.as_str()),
            "rate_bits_per_s": bits(node.rate),
            "buffer_bytes": bytes(node.buffer),
            "directions": node.queues.iter().map(direction).collect::<Vec<_>>(),
            "binds": carried.is_some() && carried == least,
        })
    };
    sums.nodes.iter().map(node).collect()
}

/// Returns the file descriptors of a host.
fn descriptors(sum: &DescriptorSum) -> Value {
    json!({
        "host": sum.host,
        "needed": sum.needed(),
        "lanes": sum.lanes,
        "control": sum.control,
        "files": sum.files,
        "limit": sum.limit,
    })
}

fn memory(sum: &MemorySum) -> Value {
    json!({ "builder": sum.builder.number(), "needed_bytes": sum.needed.count(), "limit_bytes": bytes(sum.limit) })
}

fn bytes(bytes: Option<Bytes>) -> Option<u64> {
    bytes.map(Bytes::count)
}

fn bits(rate: Option<Rate>) -> Option<u64> {
    rate.map(Rate::bits_per_second)
}
