//! The loads and limits of trunks.

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    part_of_each,
    sums::windows_buffer,
    topology::{Crossings, Direction, Queue, QueueLoad},
};

use super::flow::{flow, on_line, utilisation};
use crate::{Config, Layout, NodeKind, ShapingMode, Trunk, TrunkKind, division::trunk_capacity};

/// The loads of a trunk or shared buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSum {
    /// Name of the trunk.
    pub name: String,
    /// Kind of the trunk.
    pub kind: TrunkKind,
    /// Rate of each direction, in line bytes; `None`: the trunk limits no rate.
    pub rate: Option<Rate>,
    /// Buffer of each direction, in buffer bytes; `None`: the trunk limits no bytes under way.
    pub buffer: Option<Bytes>,
    /// Position in [`Sums::nodes`](super::Sums::nodes) of the trunk that this trunk is behind;
    /// `None`: this trunk is at the switch at the root of the tree.
    pub parent: Option<usize>,
    /// The directions that lanes cross.
    pub queues: Vec<QueueSum>,
}

/// The load of one direction of a trunk.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSum {
    /// Direction of the data.
    pub direction: Direction,
    /// Number of sources whose lanes cross the trunk in this direction.
    pub sources: u64,
    /// Number of builders whose lanes cross the trunk in this direction.
    pub builders: u64,
    /// Data rate at the requested event rate, in line bytes; `None` if this event rate or a size of
    /// fragments is unknown.
    pub load: Option<Rate>,
    /// Load as a part of the trunk's rate; `None` if the load is unknown or the rate is not
    /// limited.
    pub utilisation: Option<f64>,
    /// Largest number of events per second for which the trunk's rate suffices; `None` if the rate
    /// is not limited or a size of fragments is unknown.
    pub carried: Option<f64>,
    /// Bytes that may be under way through the trunk in mode credit; `None`: the trunk has no
    /// buffer to limit them.
    pub budget: Option<Bytes>,
    /// Buffer bytes that budgets may use; `None`: the trunk has no buffer to limit them.
    pub capacity: Option<Bytes>,
    /// Largest number of bytes under way when all lanes use their full windows.
    pub windows: Bytes,
    /// Largest number of bytes that all lanes' token buckets together let pass at once.
    pub bursts: Bytes,
    /// Sum of the paces of all lanes, in line bytes; `None` if a lane has no pace.
    pub paced: Option<Rate>,
}

impl QueueSum {
    /// Returns the bytes that the shaping mode permits to be under way in this direction; `None` if
    /// it limits nothing.
    pub fn under_way(&self, mode: ShapingMode) -> Option<Bytes> {
        match mode {
            ShapingMode::Credit => self.budget,
            ShapingMode::Window => Some(self.windows),
            ShapingMode::TokenBucket => Some(self.bursts),
            ShapingMode::None => None,
        }
    }
}

impl NodeSum {
    /// Returns the name and kind of the node, as messages name it.
    pub fn in_words(&self) -> String {
        format!("{} `{}`", self.kind.word(), self.name)
    }

    /// Returns the direction that carries the fewest events, after the number of these per second;
    /// `None` if that number is known for no direction.
    pub fn narrowest(&self) -> Option<(f64, &QueueSum)> {
        let each = self.queues.iter().filter_map(|queue| Some((queue.carried?, queue)));
        each.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Computes the loads of all trunks, a trunk after the one that it is behind.
pub(super) fn nodes(config: &Config, layout: &Layout, asked: Option<f64>) -> Vec<NodeSum> {
    if layout.trunks.is_empty() {
        return Vec::new();
    }
    let sizes: Option<Vec<Bytes>> = {
        let mut sources: Vec<_> = config.sources.iter().collect();
        sources.sort_by_key(|source| source.id);
        sources.into_iter().map(|source| source.mean_in_lane()).collect()
    };
    let crossings = layout.topology.crossings();
    let weights = vec![1; config.builders.len()];
    let no_sizes = vec![Bytes::ZERO; config.sources.len()];
    let loads = crossings.loads(sizes.as_deref().unwrap_or(&no_sizes), &weights);
    let mut nodes: Vec<NodeSum> = layout
        .trunks
        .iter()
        .zip(layout.topology.nodes())
        .map(|(position, node)| {
            let Trunk { name, kind, rate, buffer, .. } = config.network.trunks[*position].clone();
            let parent = node.parent.map(|parent| parent.get());
            NodeSum { name, kind, rate, buffer, parent, queues: Vec::new() }
        })
        .collect();
    let builders = Builders::new(config);
    for load in loads {
        let NodeKind::Trunk(trunk) = layout.kind(load.queue.node) else { continue };
        let trunk = &config.network.trunks[trunk];
        // Without the sizes of all sources, loads are not known.
        let line = sizes.is_some().then_some(&load);
        let sum = queue_sum(config, (&crossings, &builders), trunk, line.zip(Some(asked)), load.queue);
        if let Some(node) = nodes.get_mut(load.queue.node.get()) {
            node.queues.push(sum);
        }
    }
    nodes
}

/// Quantities of each builder, computed once.
struct Builders {
    budgets: Vec<Bytes>,
    bursts: Vec<Bytes>,
    paces: Vec<Option<Rate>>,
}

impl Builders {
    /// Computes budget, burst and pace of each builder.
    fn new(config: &Config) -> Self {
        let burst = |builder| config.lane_pace(builder).map_or(Bytes::ZERO, |pace| pace.burst);
        Self {
            budgets: config.builders.iter().map(|builder| builder.budget).collect(),
            bursts: config.builders.iter().map(burst).collect(),
            paces: config.builders.iter().map(|builder| config.paced_line_rate([builder])).collect(),
        }
    }
}

/// Sums up what meets in one queue of a trunk. `load` has the share of the events that pass this
/// queue, and the asked rate.
fn queue_sum(
    config: &Config,
    (crossings, builders): (&Crossings<'_>, &Builders),
    trunk: &Trunk,
    load: Option<(&QueueLoad, Option<f64>)>,
    queue: Queue,
) -> QueueSum {
    let cost = config.cost();
    let (sources, lanes) = (crossings.source_count(queue) as u64, crossings.lanes(queue));
    // Line bytes of a whole event's fragments; a part of the events takes this way.
    let line_and_share = load.map(|(load, _)| (on_line(load.fragments, &cost), load.share));
    let load = load.and_then(|(_, asked)| {
        let (line, share) = line_and_share?;
        flow(asked.map(|asked| asked * share), Some(line))
    });
    let carried = line_and_share
        .zip(trunk.rate)
        .map(|((line, share), rate)| rate.bytes_per_second() / (line.count() as f64 * share));
    let capacity = trunk_capacity(trunk, lanes, &cost);
    let whole: Vec<Bytes> = crossings.builders(queue).map(|builder| builders.budgets[builder]).collect();
    let budget = capacity.map(|capacity| {
        let part = part_of_each(capacity, whole.clone()).unwrap_or(Bytes::new(u64::MAX));
        whole.iter().map(|whole| (*whole).min(part)).sum()
    });
    let paced: Option<Vec<u64>> =
        crossings.builders(queue).map(|builder| builders.paces[builder].map(Rate::bits_per_second)).collect();
    let paced = paced.map(|paced| paced.into_iter().fold(0, u64::saturating_add));
    QueueSum {
        direction: queue.direction,
        sources,
        builders: whole.len() as u64,
        load,
        utilisation: utilisation(load, trunk.rate),
        carried: carried.filter(|carried| carried.is_finite()),
        budget,
        capacity,
        windows: windows_buffer(lanes, config.shaping.window, &cost),
        bursts: crossings.builders(queue).map(|builder| builders.bursts[builder]).sum::<Bytes>() * sources,
        paced: paced.map(|paced| Rate::from_bits_per_second(paced) * sources),
    }
}

#[cfg(test)]
mod tests;
