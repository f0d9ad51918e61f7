//! The queues of a simulated network, as table and JSON.

use evb_config::ranges;
use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_sim::SimReport;
use serde::Serialize;

use crate::output::columns;

/// One queue of the network in one mode, when events come as fast as possible.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodePoint {
    /// Value of `shaping.mode`.
    pub mode: String,
    /// Name of the trunk with the direction ("up": towards the root of the tree), or "builder" with
    /// the builder's id.
    pub node: String,
    /// Id of the builder, if the queue is that of a port.
    pub builder: Option<u16>,
    /// Line rate.
    pub rate_bits_per_s: u64,
    /// Size of the queue.
    pub buffer_bytes: u64,
    /// Largest number of bytes in the queue at the same time.
    pub peak_bytes: u64,
    /// Number of dropped frames.
    pub drops: u64,
    /// Bytes of all frames that were not dropped.
    pub carried_bytes: u64,
}

/// Returns the queues of a report. `id_of` returns the id of the builder at a position.
pub(super) fn of_report(
    mode: &str,
    report: &SimReport,
    id_of: impl Fn(usize) -> Option<BuilderId>,
) -> Vec<NodePoint> {
    let mut ports = 0;
    let point = |node: &evb_sim::NodeReport| {
        let builder = if node.is_trunk {
            None
        } else {
            ports += 1;
            id_of(ports - 1)
        };
        NodePoint {
            mode: mode.to_owned(),
            node: builder.map_or_else(|| node.name.clone(), |id| format!("builder {id}")),
            builder: builder.map(BuilderId::number),
            rate_bits_per_s: node.rate.bits_per_second(),
            buffer_bytes: node.buffer.count(),
            peak_bytes: node.peak.count(),
            drops: node.drops,
            carried_bytes: node.bytes.count(),
        }
    };
    report.nodes.iter().map(point).collect()
}

/// Formats the queues for people: the trunks first, then the ports, of which those that are alike
/// are one row.
pub(super) fn text(nodes: &[NodePoint]) -> String {
    let mut rows: Vec<(NodePoint, Vec<u16>)> = Vec::new();
    let (ports, trunks): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| node.builder.is_some());
    for node in trunks.into_iter().chain(ports) {
        let alike = |row: &NodePoint| {
            row.builder.is_some()
                && (&row.mode, row.rate_bits_per_s, row.buffer_bytes)
                    == (&node.mode, node.rate_bits_per_s, node.buffer_bytes)
        };
        match (node.builder, rows.iter_mut().find(|(row, _)| alike(row))) {
            (Some(id), Some((row, ids))) => {
                ids.push(id);
                row.peak_bytes = row.peak_bytes.max(node.peak_bytes);
                row.drops += node.drops;
            }
            (id, _) => rows.push((node.clone(), id.into_iter().collect())),
        }
    }
    let named = |(node, mut ids): (NodePoint, Vec<u16>)| {
        ids.sort_unstable();
        let name = match ids.len() {
            0 => format!("trunk {}", node.node),
            1 => node.node,
            _ => format!("builders {}", ranges(ids.into_iter())),
        };
        vec![
            node.mode,
            name,
            Rate::from_bits_per_second(node.rate_bits_per_s).to_string(),
            Bytes::new(node.buffer_bytes).to_string(),
            Bytes::new(node.peak_bytes).to_string(),
            node.drops.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(named).collect();
    columns(&["mode", "node", "rate", "buffer", "queue at most", "drops"], &rows)
}
