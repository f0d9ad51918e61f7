use std::collections::BTreeMap;

use evb_core::{
    index::{BuilderIndex, SourceIndex},
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::{Direction, Node, NodeIndex, Queue, Topology};

fn node(parent: Option<NodeIndex>) -> Node {
    Node { name: String::new(), rate: None, buffer: None, parent }
}

#[test]
fn a_lane_goes_up_to_the_common_switch_and_down_again() {
    let mut topology = Topology::default();
    let hall = topology.add(node(None));
    let [left, right] = [hall; 2].map(|hall| topology.add(node(Some(hall))));
    let source = topology.add_source(Some(left));
    let [near, beside, far] = [Some(left), Some(right), None].map(|node| topology.add_builder(node));
    let (up, down) =
        (|node| Queue { node, direction: Direction::Up }, |node| Queue { node, direction: Direction::Down });
    assert_eq!(topology.path(source, near), []);
    assert_eq!(topology.path(source, beside), [up(left), down(right)]);
    assert_eq!(topology.path(source, far), [up(left), up(hall)]);
    let crossings = topology.crossings();
    assert_eq!(crossings.queues().collect::<Vec<_>>(), [up(hall), up(left), down(right)]);
    assert_eq!(crossings.builders(up(left)).collect::<Vec<_>>(), [far, beside]);
    assert!(crossings.is_crossed_by_all_lanes(up(hall)) && crossings.is_crossed_by_all_lanes(down(right)));
}

#[test]
fn the_narrowest_queue_bounds_the_events() {
    let mut topology = Topology::default();
    let trunk = topology.add(node(None));
    (0..4).for_each(|_| {
        topology.add_source(None);
        topology.add_builder(Some(trunk));
    });
    topology.add_builder(None);
    // Four of five events go to builders behind the trunk.
    let loads = topology.crossings().loads(&[Bytes::new(250); 4], &[1; 5]);
    assert_eq!(loads.len(), 1);
    assert!((loads[0].bound(Rate::from_bytes_per_second(8000)) - 10.0).abs() < 1e-9);
}

#[test]
fn thousands_of_sources_and_builders_take_milliseconds() {
    let mut topology = Topology::default();
    let mut trunks: Vec<NodeIndex> = Vec::new();
    for index in 0..1000 {
        let parent = (index > 0).then(|| trunks[index / 3]);
        trunks.push(topology.add(node(parent)));
    }
    (0..4096).for_each(|index| {
        topology.add_source(Some(trunks[index % 1000]));
    });
    (0..1024).for_each(|index| {
        topology.add_builder(Some(trunks[index * 7 % 1000]));
    });
    let mut shortest = core::time::Duration::MAX;
    for _ in 0..5 {
        #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test measures time")]
        let began = std::time::Instant::now();
        let loads = topology.crossings().loads(&[Bytes::new(1000); 4096], &[1; 1024]);
        assert!(loads.len() > 1000);
        shortest = shortest.min(began.elapsed());
    }
    // A walk over all pairs takes seconds in a test build.
    assert!(shortest.as_millis() < 100, "{shortest:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Compares all crossings and loads with a walk along the path of every lane.
    #[test]
    fn crossings_are_those_of_every_lane(
        parents in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        sources in proptest::collection::vec((any::<prop::sample::Index>(), 0_u64..1_000_000), 0..12),
        builders in proptest::collection::vec((any::<prop::sample::Index>(), 0_u64..10), 0..12),
    ) {
        let mut topology = Topology::default();
        let mut places = vec![None];
        for parent in parents {
            let parent = *parent.get(&places);
            places.push(Some(topology.add(node(parent))));
        }
        for (place, _) in &sources {
            topology.add_source(*place.get(&places));
        }
        for (place, _) in &builders {
            topology.add_builder(*place.get(&places));
        }
        let sizes: Vec<Bytes> = sources.iter().map(|(_, size)| Bytes::new(*size)).collect();
        let weights: Vec<u64> = builders.iter().map(|(_, weight)| *weight).collect();
        let total = weights.iter().sum::<u64>().max(1) as f64;
        let mut lanes: BTreeMap<Queue, Vec<(SourceIndex, BuilderIndex)>> = BTreeMap::new();
        let mut bytes: BTreeMap<Queue, f64> = BTreeMap::new();
        for source in SourceIndex::all(sources.len()) {
            for builder in BuilderIndex::all(builders.len()) {
                for queue in topology.path(source, builder) {
                    lanes.entry(queue).or_default().push((source, builder));
                    *bytes.entry(queue).or_default() +=
                        sizes[source].count() as f64 * weights[builder] as f64 / total;
                }
            }
        }
        let crossings = topology.crossings();
        prop_assert_eq!(crossings.queues().collect::<Vec<_>>(), lanes.keys().copied().collect::<Vec<_>>());
        for load in crossings.loads(&sizes, &weights) {
            let queue = load.queue;
            let mut crossing: Vec<_> = crossings
                .sources(queue)
                .flat_map(|source| crossings.builders(queue).map(move |builder| (source, builder)))
                .collect();
            crossing.sort();
            prop_assert_eq!(&crossing, &lanes[&queue]);
            prop_assert_eq!(crossings.lanes(queue), crossing.len() as u64);
            prop_assert!((load.bytes() - bytes[&queue]).abs() <= bytes[&queue] * 1e-9, "{queue:?}");
            let of_them = |builder| crossing.iter().filter(|lane| lane.1 == builder).count();
            let all = crossings.builders(queue).all(|builder| of_them(builder) == sources.len());
            prop_assert_eq!(crossings.is_crossed_by_all_lanes(queue), all);
        }
    }
}
