use super::*;

const FAST: Shape = Shape { rate: 10_000_000_000, trains: true, ..Shape::PLAIN };

#[test]
fn bucket_and_queue_are_the_stated_buffer() {
    for rate in [1_000_000_000, 2_500_000_000, 10_000_000_000, 25_000_000_000] {
        for kib in [96, 128, 256, 512] {
            let port = Link { rate, buffer: kib * 1024 };
            assert_eq!(bucket(FAST, port) + queue(FAST, port), port.buffer, "{port:?}");
            assert!(bucket(FAST, port) >= 48 * 1024 && queue(FAST, port) >= 48 * 1024, "{port:?}");
        }
    }
    let usual = Link { rate: 10_000_000_000, buffer: 128 * 1024 };
    assert_eq!(bucket(FAST, usual), 48 * 1024);
    assert_eq!((bucket(Shape::PLAIN, usual), queue(Shape::PLAIN, usual)), (16 * 1024, 128 * 1024));
}

#[test]
fn a_port_that_holds_no_trains_is_refused() {
    assert!(check(Shape { port_buffer: 95 * 1024, ..FAST }).is_err());
    assert!(check(Shape { port_buffer: 8 * 1024, ..Shape::PLAIN }).is_ok());
    assert!(check(Shape { mtu: 100, ..FAST }).is_err());
    assert!(check(Shape { mtu: 9000, ..FAST }).is_ok());
}

#[test]
fn only_what_buckets_have_sent_counts() {
    let json = r#"[{"kind":"tbf","dev":"p-b1","packets":12,"drops":1},{"kind":"clsact","packets":5},
                   {"kind":"tbf","dev":"t0-up","packets":9},{"kind":"tbf","dev":"p-s1","packets":30,"drops":0}]"#;
    assert_eq!(packets(json).unwrap(), 42);
    assert!(packets(r#"[{"kind":"tbf"}]"#).is_err());
}

#[test]
fn drops_are_packets_and_multicast_is_none() {
    let passage = |missing, trains| Passage { missing, trains };
    let dropped = |missing, trains| passage(missing, trains).dropped_since(passage(-5, 2));
    // The arguments are the counts after three trains of ten packets were dropped.
    assert_eq!(dropped(25, 5), 30);
    // The first count results from a multicast packet that the bridge sent to 33 hosts, the second
    // from one that it kept.
    assert_eq!((dropped(-37, 2), dropped(-4, 2)), (0, 0));
    assert_eq!(dropped(-37, 3), 1);
}
