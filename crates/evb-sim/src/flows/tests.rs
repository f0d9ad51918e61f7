use core::time::Duration;

use evb_core::id::{BuilderId, Peer, SourceId};

use super::{Flow, RawFlows};
use crate::network::NetworkModel;

fn flow(from: u16, to: u16) -> Flow {
    Flow { from: Peer::Source(SourceId::new(from)), to: Peer::Builder(BuilderId::new(to)) }
}

/// Checks that a single stream gets what a link of 1 Gbit/s carries, 94.15 % of its rate, and that
/// streams to one port share it.
#[test]
fn flows_fill_a_port() {
    for flows in [vec![flow(1, 1)], vec![flow(1, 1), flow(2, 1), flow(3, 1)]] {
        let (warm_up, span) = (Duration::from_millis(500), Duration::from_secs(2));
        let raw = RawFlows { network: NetworkModel::default(), flows, warm_up, span, seed: 1 };
        let report = raw.run().expect("a network");
        let sum: u64 = report.rates.iter().map(|rate| rate.bits_per_second()).sum();
        assert!((930_000_000..942_000_000).contains(&sum), "{report:?}");
        assert_eq!(report, raw.run().expect("a network"), "equal seeds give equal reports");
    }
}
