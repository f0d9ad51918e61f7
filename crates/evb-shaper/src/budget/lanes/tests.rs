use std::collections::BTreeMap;

use evb_core::{
    index::{BuilderIndex, LaneIndex, SourceIndex},
    set::LaneSet,
    units::Bytes,
};
use proptest::prelude::*;

use super::{BuilderBudget, budgets};
use crate::topology::{Node, NodeIndex, Queue, Topology};

fn node(buffer: Option<u64>, parent: Option<NodeIndex>) -> Node {
    Node { name: String::new(), rate: None, buffer: buffer.map(Bytes::new), parent }
}

fn of_nodes(topology: &Topology) -> Vec<BuilderBudget> {
    budgets(topology, |queue| topology.node(queue.node)?.buffer)
}

fn lanes(of: impl IntoIterator<Item = usize>) -> LaneSet {
    of.into_iter().map(LaneIndex::new).collect()
}

#[test]
fn a_trunk_in_front_of_all_lanes_is_part_of_the_whole_budget() {
    let mut topology = Topology::default();
    let trunk = topology.add(node(Some(300), None));
    let ports = [40, 500, 500].map(|buffer| topology.add(node(Some(buffer), Some(trunk))));
    topology.add_source(None);
    ports.into_iter().for_each(|port| {
        topology.add_builder(Some(port));
    });
    let budgets = of_nodes(&topology);
    assert!(budgets.iter().all(|budget| budget.groups.is_empty()));
    assert_eq!(budgets.iter().map(|budget| budget.port.count()).collect::<Vec<_>>(), [40, 130, 130]);
}

#[test]
fn all_sources_behind_one_trunk_fill_it_together() {
    let mut topology = Topology::default();
    let trunk = topology.add(node(Some(90), None));
    let inside = topology.add(node(Some(1000), Some(trunk)));
    let outside = [1000; 3].map(|buffer| topology.add(node(Some(buffer), None)));
    topology.add_source(Some(trunk));
    topology.add_source(Some(trunk));
    topology.add_builder(Some(inside));
    outside.into_iter().for_each(|port| {
        topology.add_builder(Some(port));
    });
    let budgets = of_nodes(&topology);
    assert_eq!(budgets.iter().map(|budget| budget.port.count()).collect::<Vec<_>>(), [1000, 30, 30, 30]);
}

/// Four sources behind one trunk and two behind another send to three ports. The limits of the two
/// groups are equal, and larger than the parts of the port that the sources need.
#[test]
fn sources_behind_two_trunks_are_two_groups() {
    let mut topology = Topology::default();
    let trunks = [150, 150].map(|buffer| topology.add(node(Some(buffer), None)));
    for (trunk, count) in trunks.into_iter().zip([4, 2]) {
        (0..count).for_each(|_| {
            topology.add_source(Some(trunk));
        });
    }
    for buffer in [60, 60, 30] {
        let port = topology.add(node(Some(buffer), None));
        topology.add_builder(Some(port));
    }
    // Of 150 bytes, the third builder takes all of its 30 bytes, and the others fit beside it.
    assert!(of_nodes(&topology).iter().all(|budget| budget.groups.is_empty()));
    let small = budgets(&topology, |queue| {
        let buffer = topology.node(queue.node)?.buffer?;
        Some(if buffer == Bytes::new(150) { Bytes::new(120) } else { buffer })
    });
    for budget in &small[..2] {
        let groups: Vec<_> =
            budget.groups.iter().map(|group| (group.lanes.as_ref().clone(), group.limit.count())).collect();
        assert_eq!((budget.port.count(), groups), (60, vec![(lanes(0..4), 45), (lanes(4..6), 45)]));
        assert_eq!((budget.smallest(), budget.on_lanes(&lanes([4]))), (Bytes::new(45), Bytes::new(45)));
        assert_eq!(budget.on_lanes(&lanes([0, 5])), Bytes::new(60));
    }
    assert_eq!(small[2], BuilderBudget { port: Bytes::new(30), groups: Vec::new() });
}

#[test]
fn groups_of_the_same_lanes_are_one() {
    let mut topology = Topology::default();
    let outer = topology.add(node(Some(50), None));
    let inner = topology.add(node(Some(40), Some(outer)));
    let there = topology.add(node(Some(30), None));
    let port = topology.add(node(Some(100), Some(there)));
    topology.add_source(Some(inner));
    topology.add_source(Some(there));
    topology.add_builder(Some(port));
    let budget = &of_nodes(&topology)[0];
    let groups: Vec<_> =
        budget.groups.iter().map(|group| (group.lanes.as_ref().clone(), group.limit.count())).collect();
    assert_eq!((budget.port.count(), groups), (100, vec![(lanes([0]), 30)]));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Lets every builder have as much under way as its budget permits on all lanes through a
    /// queue, and adds this up over builders: no queue may hold more than its capacity.
    #[test]
    fn no_queue_can_overflow(
        nodes in proptest::collection::vec((any::<prop::sample::Index>(), proptest::option::of(0_u64..100_000)), 0..10),
        sources in proptest::collection::vec(any::<prop::sample::Index>(), 1..8),
        builders in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut topology = Topology::default();
        let mut places = vec![None];
        for (parent, buffer) in nodes {
            let parent = *parent.get(&places);
            places.push(Some(topology.add(node(buffer, parent))));
        }
        for place in &sources {
            topology.add_source(*place.get(&places));
        }
        for place in &builders {
            topology.add_builder(*place.get(&places));
        }
        let budgets = of_nodes(&topology);
        let mut held: BTreeMap<Queue, Bytes> = BTreeMap::new();
        for builder in BuilderIndex::all(builders.len()) {
            let mut crossing: BTreeMap<Queue, LaneSet> = BTreeMap::new();
            for source in SourceIndex::all(sources.len()) {
                for queue in topology.path(source, builder) {
                    crossing.entry(queue).or_default().insert(LaneIndex::new(source.get()));
                }
            }
            for (queue, lanes) in crossing {
                *held.entry(queue).or_default() += budgets[builder].on_lanes(&lanes);
            }
        }
        for (queue, held) in held {
            let buffer = topology.node(queue.node).and_then(|node| node.buffer);
            prop_assert!(buffer.is_none_or(|buffer| held <= buffer), "{queue:?}: {held} in {buffer:?}");
        }
    }
}
