use core::time::Duration;

use bytes::{Bytes as Datagram, BytesMut};
use evb_core::{
    id::{BuilderId, Epoch, SourceId},
    wire::datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
};

use super::super::{Network, NetworkModel, tests::two_hosts};

/// Returns a datagram with a hundred lane bytes from `offset` on.
fn datagram(offset: u64) -> BytesMut {
    let association = Association {
        epoch: Epoch::new(1),
        source: SourceId::new(1),
        builder: BuilderId::new(1),
        connection: 1,
    };
    let kind = DatagramKind::Data;
    let header = DatagramHeader { kind, request: 0, association, sequence: 1, heard: 0, offset };
    let body = [0; 100];
    let mut whole = BytesMut::with_capacity(DATAGRAM_HEADER + body.len());
    whole.extend_from_slice(&header.seal([&body[..]]));
    whole.extend_from_slice(&body);
    whole
}

/// Sends `count` datagrams of a hundred lane bytes each from host 0 to host 1, and returns those
/// that arrived, in the order of arrival.
fn arrivals(model: NetworkModel, count: u64) -> (Network, Vec<Datagram>) {
    let mut network = two_hosts(model, 1);
    let (from, to) = network.connect_sockets(0, 1);
    for number in 0..count {
        network.send(from, datagram(number * 100).freeze());
    }
    let mut arrived = Vec::new();
    while network.advance().is_some() {
        arrived.extend(std::iter::from_fn(|| network.receive(to)));
    }
    (network, arrived)
}

fn offset(datagram: &Datagram) -> u64 {
    u64::from_le_bytes(datagram[32..40].try_into().expect("eight"))
}

#[test]
fn datagrams_arrive_once_and_in_order_where_nothing_happens_to_them() {
    let (mut network, arrived) = arrivals(NetworkModel::default(), 500);
    let offsets: Vec<_> = arrived.iter().map(offset).collect();
    assert_eq!(offsets, (0..500).map(|number| number * 100).collect::<Vec<_>>());
    // The line carries 500 frames of 140 + 28 + 14 + 24 bytes at 1 Gbit/s. Store-and-forward adds
    // the time of one frame; then follow the latency of two links and the wake-up of the program.
    let line = Duration::from_nanos(206 * 8);
    let least = line * 501 + Duration::from_micros(4 + 15);
    let took = Duration::from_nanos(network.now().as_nanos());
    assert!((least..least + Duration::from_micros(16)).contains(&took), "{took:?}, {least:?}");
    assert_eq!((network.datagram_counters().sent, network.datagram_counters().data), (500, 500));
}

/// Checks that faults are as frequent as configured: their binomial counts must be within five
/// sigma of the expected numbers.
#[test]
fn what_is_asked_happens_to_datagrams() {
    let model = NetworkModel {
        port_buffer: evb_core::units::Bytes::MAX,
        duplication: 0.1,
        reordering: 0.2,
        reordering_delay: Duration::from_micros(100),
        corruption: 0.05,
        ..NetworkModel::default()
    };
    let (mut network, arrived) = arrivals(model, 10_000);
    let counts = *network.datagram_counters();
    assert_eq!(arrived.len() as u64, 10_000 + counts.duplicated);
    assert!((850..1150).contains(&counts.duplicated), "{counts:?}");
    assert!((1980..2420).contains(&counts.delayed), "{counts:?}");
    assert!((435..665).contains(&counts.damaged), "{counts:?}");
    let damaged = arrived.iter().filter(|datagram| DatagramHeader::open(datagram).is_err()).count() as u64;
    assert_eq!(counts.damaged, damaged);
    let overtaken = arrived.windows(2).filter(|pair| offset(&pair[0]) > offset(&pair[1])).count();
    assert!(overtaken > 500, "{overtaken} overtaken");
}

#[test]
fn losses_are_timed_until_their_bytes_arrive() {
    let mut network = two_hosts(NetworkModel { loss: 1.0, ..NetworkModel::default() }, 1);
    let (from, to) = network.connect_sockets(0, 1);
    let (datagram, larger) = (datagram(700).freeze(), datagram(650).freeze());
    let lost = evb_core::time::Instant::from_nanos(1000);
    network.datagrams.handle_lost(to, &datagram, lost);
    network.datagrams.handle_arrival(from, larger.clone(), lost + Duration::from_micros(1));
    assert!(network.recoveries().is_empty(), "the bytes arrived on another lane");
    network.datagrams.handle_arrival(to, larger, lost + Duration::from_micros(2));
    network.datagrams.handle_arrival(to, datagram, lost + Duration::from_micros(3));
    assert_eq!(network.recoveries(), [2000]);
}
