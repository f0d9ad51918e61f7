use super::{
    super::network::{Link, Tree},
    *,
};

const SHAPE: Shape =
    Shape { sources: 8, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };

#[test]
fn the_configuration_is_toml_with_every_role() {
    for mode in [Mode::Credit, Mode::Sequential, Mode::Window(14_000), Mode::None] {
        let system = System::new(mode, 64_000).trigger(Trigger::Periodic(146.99)).slots(3).warn();
        let table: toml::Table = system.config(SHAPE, 2.5).unwrap().parse().unwrap();
        assert_eq!(table["source"].as_array().unwrap().len(), 8);
        assert_eq!(table["builder"][0]["listen"].as_str(), Some("10.77.2.1:7101"));
        assert_eq!(table["supervisor"]["trigger"]["rate"].as_str(), Some("146.990 Hz"));
        assert_eq!(table["run"]["duration"].as_str(), Some("2.5 s"));
        assert_eq!(table["network"]["admission"].as_str(), Some("warn"));
        assert_eq!(table["network"]["port_buffer"].as_str(), Some("131072 B"));
    }
}

#[test]
fn what_headers_leave_of_a_port() {
    // A frame of 1514 bytes has an Ethernet header of 14 bytes, and then 52 bytes of IP and TCP
    // headers, or 28 bytes of IP and UDP headers and 40 bytes of evb's datagram header.
    let capacity = |transport, fragment| (port_capacity(SHAPE, transport, fragment) / 1e4).round() / 100.0;
    assert_eq!(capacity(Transport::Tcp, 64_000), 956.17);
    assert_eq!(capacity(Transport::Udp, 64_000), 945.6);
    assert_eq!(capacity(Transport::Udp, 1455), 935.55);
    // On a real Ethernet line, a frame of 1514 bytes takes the time of 1538 bytes, because of
    // preamble, checksum and gap.
    let line = Shape { rate: 1_000_000_000 * 1514 / 1538, ..SHAPE };
    let behind = port_capacity(line, Transport::Udp, u64::MAX) / 1e9;
    assert!((behind - 1432.0 / 1538.0).abs() < 1e-6, "{behind}");
}

#[test]
fn a_budget_stands_in_for_the_port() {
    let system = System::new(Mode::Credit, 64_000).over(Transport::Udp).budget(600_000).checked();
    let table: toml::Table = system.config(SHAPE, 1.0).unwrap().parse().unwrap();
    assert_eq!(table["network"]["transport"].as_str(), Some("udp"));
    assert_eq!(table["shaping"]["budget"].as_str(), Some("600000 B"));
    assert!(table["network"].get("port_buffer").is_none());
    assert_eq!(table["source"][7]["input"]["check"].as_str(), Some("full"));
}

#[test]
fn wire_time_counts_every_frame() {
    // A fragment of 64 000 bytes takes 45 frames with 66 bytes of headers each; eight sources send
    // one fragment each, at 8 ns per byte.
    let system = System::new(Mode::Credit, 64_000);
    assert!((system.wire_time(SHAPE) - 8.0 * 66_970.0 * 8e-9).abs() < 1e-9);
}

#[test]
fn all_windows_fit_into_the_port() {
    for sources in [1, 8, 32] {
        let shape = Shape { sources, ..SHAPE };
        let window = safe_window(shape) as f64;
        let segment = segment(Transport::Tcp, shape);
        let frames = window + (window / segment).ceil() * (shape.frame() - segment);
        assert!(frames * f64::from(sources) <= shape.port_buffer as f64, "{sources}");
    }
}

#[test]
fn trunks_are_written_down_or_left_out() {
    let link = |mbit: u64| Link { rate: mbit * 1_000_000, buffer: 131_072 };
    let text = |system: System, tree| system.config(Shape { tree, builders: 4, ..SHAPE }, 1.0).unwrap();
    let trunks = |tree| -> Vec<toml::Value> {
        let table: toml::Table = text(System::new(Mode::Credit, 16_000), tree).parse().unwrap();
        table["network"]["trunk"].as_array().unwrap().clone()
    };
    let row = Tree::Row { middle: link(500), outer: link(1000) };
    let names = |trunk: &toml::Value| {
        let members = trunk["members"].as_array().unwrap().iter().filter_map(toml::Value::as_str);
        (trunk["name"].as_str().unwrap().to_owned(), members.collect::<Vec<_>>().join(" and "))
    };
    let found: Vec<_> = trunks(row).iter().map(names).collect();
    let expected = [("middle", "builders"), ("builders", "builders 1-4"), ("sources", "sources 1-8")];
    assert_eq!(found, expected.map(|(name, members)| (name.to_owned(), members.to_owned())));
    let two = Tree::Two(link(500));
    assert_eq!(trunks(two)[0]["rate"].as_str(), Some("500 Mbit/s"));
    assert!(!text(System::new(Mode::Credit, 16_000).without_trunks(), two).contains("trunk"));
    let merge = Tree::Merge { first: 4, each: link(622) };
    assert!(text(System::new(Mode::Credit, 16_000), merge).contains("port_buffer = \"43690 B\""));
}

#[test]
fn triggers_may_come_by_multicast() {
    let system = System::new(Mode::Credit, 1000).trigger(Trigger::Multicast);
    let table: toml::Table = system.config(SHAPE, 2.5).unwrap().parse().unwrap();
    let trigger = &table["supervisor"]["trigger"];
    assert_eq!(trigger["group"].as_str(), Some(GROUP));
    assert_eq!(trigger["interface"].as_str(), Some("10.77.3.1"));
    let input = &table["source"][1]["input"];
    assert_eq!((input["on"].as_str(), input["interface"].as_str()), (Some("multicast"), Some("10.77.1.2")));
    assert_eq!(input["trigger_group"].as_str(), Some(GROUP));
}

#[test]
fn third_level_and_network_settings_are_written_to_the_configuration() {
    let level = ThirdLevel { keep_every: 20, folder: "/run".into() };
    let system = System::new(Mode::None, 1000).third_level(level).networked("receive_buffer = \"8192 B\"");
    let table: toml::Table = system.config(Shape { builders: 2, ..SHAPE }, 2.5).unwrap().parse().unwrap();
    let builder = &table["builder"][1];
    assert_eq!(builder["filter"]["keep_every"].as_integer(), Some(20));
    assert_eq!(builder["sink"]["path"].as_str(), Some("/run/disk-2"));
    assert_eq!(table["network"]["receive_buffer"].as_str(), Some("8192 B"));
}
