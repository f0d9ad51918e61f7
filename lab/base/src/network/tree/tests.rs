use super::*;

const NARROW: Link = Link { rate: 500, buffer: 2000 };
const WIDE: Link = Link { rate: 1000, buffer: 2000 };
const SHAPE: Shape = Shape { sources: 8, builders: 4, rate: 250, port_buffer: 3000, ..Shape::PLAIN };

#[test]
fn every_host_is_at_one_switch() {
    let home = |tree, host: &str| {
        let trunks = Shape { tree, ..SHAPE }.trunks();
        let homes = trunks.iter().filter(|trunk| trunk.is_home_of(host));
        homes.map(|trunk| trunk.name).collect::<Vec<_>>()
    };
    assert!(home(Tree::Single, "b1").is_empty());
    let three = Tree::Three { middle: NARROW, far: NARROW };
    assert_eq!((home(three, "b2"), home(three, "b3")), (vec!["middle"], vec!["far"]));
    let row = Tree::Row { middle: NARROW, outer: WIDE };
    assert_eq!((home(row, "b4"), home(row, "s8")), (vec!["builders"], vec!["sources"]));
    let cascade = Tree::Cascade(NARROW);
    assert_eq!((home(cascade, "b1"), home(cascade, "s8")), (vec!["builders"], vec!["sources"]));
    let merge = Tree::Merge { first: 4, each: WIDE };
    assert_eq!((home(merge, "s4"), home(merge, "s5")), (vec!["first"], vec!["second"]));
    for tree in [Tree::Single, Tree::Two(NARROW), three, row, cascade, merge] {
        assert!(home(tree, "sup").is_empty(), "{tree:?}");
    }
    assert!(home(Tree::Two(NARROW), "b5").is_empty() && home(Tree::Two(NARROW), "s1").is_empty());
}

#[test]
fn the_first_full_queue_limits_the_network() {
    let carries = |tree| Shape { tree, ..SHAPE }.carries();
    assert_eq!(carries(Tree::Single), 1000.0);
    assert_eq!(carries(Tree::Two(NARROW)), 500.0);
    // Half of the traffic goes on from the middle switch to the far one.
    assert_eq!(carries(Tree::Three { middle: NARROW, far: NARROW }), 500.0);
    let thin = Link { rate: 200, ..NARROW };
    assert_eq!(carries(Tree::Three { middle: NARROW, far: thin }), 400.0);
    assert_eq!(carries(Tree::Row { middle: NARROW, outer: WIDE }), 500.0);
    // Each of the two trunks carries all traffic.
    assert_eq!(carries(Tree::Cascade(NARROW)), 500.0);
    // Each of the two trunks carries half of the traffic.
    assert_eq!(carries(Tree::Merge { first: 4, each: thin }), 400.0);
    // A trunk with three quarters of the sources is full first.
    assert_eq!(carries(Tree::Merge { first: 6, each: Link { rate: 600, ..NARROW } }), 800.0);
    assert_eq!(Shape { sources: 2, ..SHAPE }.carries(), 500.0, "the links of two sources");
}

#[test]
fn trunks_in_turn_divide_a_port() {
    assert_eq!(Shape { tree: Tree::Merge { first: 4, each: WIDE }, ..SHAPE }.port_part(), 1000);
    assert_eq!(Shape { tree: Tree::Two(WIDE), ..SHAPE }.port_part(), 3000);
}

#[test]
fn the_ends_of_trunks_are_counted_by_name() {
    let trunks = Shape { tree: Tree::Two(NARROW), ..SHAPE }.trunks();
    let json = r#"[{"kind":"tbf","dev":"t0-down","bytes":9,"drops":2},{"kind":"tbf","dev":"t0-up","bytes":1,"drops":0},
                   {"kind":"htb","dev":"p-b1","bytes":7,"drops":1},{"kind":"bfifo","dev":"p-b1","bytes":7,"drops":1}]"#;
    let ports = super::super::port_counts(json, &trunks).unwrap();
    let counts: Vec<_> = ports.iter().map(|(name, port)| (name.as_str(), port.drops, port.bytes)).collect();
    assert_eq!(counts, [("b1", 1, 7), ("trunk core down", 2, 9), ("trunk core up", 0, 1)]);
    for stranger in ["t1-up", "t0", "e0"] {
        let json = format!(r#"[{{"kind":"tbf","dev":"{stranger}","bytes":1,"drops":0}}]"#);
        assert!(super::super::port_counts(&json, &trunks).is_err(), "{stranger}");
    }
}

#[test]
fn impossible_trunks_are_refused() {
    let check = |shape| check(shape, 96 * 1024);
    let two = |rate, buffer| Shape { tree: Tree::Two(Link { rate, buffer }), ..SHAPE };
    assert!(check(two(500, 2000)).is_ok());
    assert!(check(two(0, 2000)).is_err() && check(two(500, 1000)).is_err());
    let trains = |tree| Shape { trains: true, port_buffer: 1 << 20, tree, ..SHAPE };
    assert!(check(trains(Tree::Two(NARROW))).is_err(), "the buffer is too small for trains");
    assert!(check(trains(Tree::Merge { first: 4, each: Link { rate: 1, buffer: 1 << 20 } })).is_err());
}

#[test]
fn a_shape_names_its_trunks() {
    let tree = Tree::Merge { first: 4, each: Link { rate: 622_000_000, buffer: 512 * 1024 } };
    let text = Shape { tree, ..SHAPE }.to_string();
    assert!(
        text.ends_with(", trunk first 622 Mbit/s, 512 KiB, trunk second 622 Mbit/s, 512 KiB, trunks in turn"),
        "{text}"
    );
}
