use lab_base::network::{Link, Tree};

use super::*;

const LINK: Link = Link { rate: 622_000_000, buffer: 512 * 1024 };

#[test]
fn the_twin_has_the_switches_of_the_lab() {
    let tree = Tree::Merge { first: 4, each: LINK };
    let shape =
        Shape { sources: 6, builders: 3, rate: 155_000_000, port_buffer: 384 * 1024, tree, ..Shape::PLAIN };
    let model = model(shape);
    assert_eq!((model.service, model.port_buffer), (Service::Turns, Bytes::kib(384) + BUCKET));
    // Frames of 1514 bytes take the time of 1538 bytes on a line.
    assert_eq!(model.link_rate.bits_per_second(), 155_000_000 * 1538 / 1514);
    let [first, second] = &model.trunks[..] else { panic!("{:?}", model.trunks) };
    assert_eq!((first.members.len(), &second.members[..]), (4, &[source(5), source(6)][..]));
    assert_eq!((first.buffer, first.above), (Bytes::kib(512) + BUCKET, None));
    let row = Shape { tree: Tree::Row { middle: LINK, outer: LINK }, ..shape };
    let above: Vec<_> = super::model(row).trunks.iter().map(|trunk| trunk.above).collect();
    assert_eq!(above, [None, Some(0), None]);
    assert_eq!(super::model(row).service, Service::Arrivals);
}

#[test]
fn raw_streams_of_the_twin_share_by_trunk() {
    let tree = Tree::Merge { first: 2, each: LINK };
    let shape =
        Shape { sources: 3, builders: 1, rate: 50_000_000, port_buffer: 96 * 1024, tree, ..Shape::PLAIN };
    let rates = streams(shape, 2).unwrap();
    assert!((rates[2] / (rates[0] + rates[1]) - 1.0).abs() < 0.05, "{rates:?}");
}

#[test]
fn pairs_are_in_the_order_of_the_sources() {
    let shape = Shape { sources: 2, builders: 2, ..Shape::PLAIN };
    assert_eq!(pairs(shape), [(1, 1), (1, 2), (2, 1), (2, 2)]);
}
