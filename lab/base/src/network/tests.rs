use super::*;

#[test]
fn addresses_follow_names() {
    assert_eq!(address("sup").unwrap(), "10.77.3.1");
    assert_eq!(address("s12").unwrap(), "10.77.1.12");
    assert_eq!(address("b3").unwrap(), "10.77.2.3");
    for wrong in ["", "s", "x1", "s300", "sx"] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_filter_drops_below_its_threshold() {
    assert_eq!(random_drop(100.0), "4,32 0 0 4294963256,53 1 0 4294967295,6 0 0 2,6 0 0 0");
    assert!(random_drop(0.1).contains("53 1 0 4294967,"));
}

#[test]
fn only_the_ports_count() {
    let json = r#"[{"kind":"tbf","dev":"p-b1","bytes":3028,"drops":7},{"kind":"clsact","dev":"p-b1","bytes":1,"drops":9},
                   {"kind":"noqueue","dev":"br0","bytes":0,"drops":0}]"#;
    let ports = port_counts(json, &[]).unwrap();
    assert_eq!(ports, BTreeMap::from([("b1".to_owned(), PortCount { drops: 7, bytes: 3028 })]));
    assert!(port_counts(r#"[{"kind":"tbf","dev":"p-b1"}]"#, &[]).is_err());
    assert!(port_counts("Error", &[]).is_err());
}
