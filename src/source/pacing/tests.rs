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
    let cost = PacketCost::tcp(1500, Bytes::new(256));
    let paces = config.paces(Some(pace(1, ByteMeasure::Line)), cost);
    assert_eq!(paces.plan(&[first, second]).lanes, [Some(general), Some(own)]);
}

#[test]
fn a_stream_counts_payload_and_datagrams_whole_frames() {
    let rate = |transport, cost, bytes, measure| socket_rate(transport, pace(bytes, measure), cost);
    let cost = PacketCost::tcp(1500, Bytes::new(256));
    // A full packet has 1448 bytes of TCP payload in a frame of 1514 bytes, and occupies 1538 bytes
    // on the line.
    for (bytes, measure) in [(1514, ByteMeasure::Buffer), (1538, ByteMeasure::Line)] {
        assert_eq!(rate(Transport::Tcp, cost, bytes, measure).bits_per_second(), 1_448_000_000);
    }
    let cost = PacketCost::udp(1500, Bytes::new(256));
    for (bytes, measure) in [(1514, ByteMeasure::Buffer), (1538, ByteMeasure::Line)] {
        assert_eq!(rate(Transport::Udp, cost, bytes, measure).bits_per_second(), 1_514_000_000);
    }
}
