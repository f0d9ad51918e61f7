use evb_core::units::Bytes;
use evb_shaper::ByteMeasure;

use super::*;

fn pace(mbit: u64, measure: ByteMeasure) -> Pace {
    Pace { rate: Rate::from_bits_per_second(mbit * 1_000_000), burst: Bytes::kib(4), measure }
}

#[test]
fn a_builders_own_rate_goes_before_the_general_one() {
    let general = pace(10, ByteMeasure::Line);
    let own = pace(30, ByteMeasure::Line);
    let (first, second) = (BuilderId::new(1), BuilderId::new(2));
    let config = PacingConfig {
        lane: Some(general),
        builders: BTreeMap::from([(second, own)]),
        ..PacingConfig::default()
    };
    let plan = config.plan(
        &[first, second],
        Some(pace(1, ByteMeasure::Line)),
        PacketCost::tcp(1500, Bytes::new(256)),
    );
    assert_eq!(plan.lanes, [Some(general), Some(own)]);
}

#[test]
fn a_socket_counts_payload() {
    let cost = PacketCost::tcp(1500, Bytes::new(256));
    // 1448 of 1514 bytes of a frame, 1538 of the line.
    assert_eq!(socket_rate(pace(1514, ByteMeasure::Buffer), cost).bits_per_second(), 1_448_000_000);
    assert_eq!(socket_rate(pace(1538, ByteMeasure::Line), cost).bits_per_second(), 1_448_000_000);
}
