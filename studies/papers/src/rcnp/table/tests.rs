use super::*;

#[test]
fn every_transport_has_a_chart_with_all_numbers_of_events() {
    let row = |transport, slots, size: u64| Row {
        name: "x".to_owned(),
        transport,
        slots,
        at_once: 1,
        size,
        rate: 3000.0 * f64::from(slots),
        most: 1e9 / size as f64,
        busy: 1.0,
        drops: 0,
        latency_us: 300.0,
    };
    let transports = [Transport::Tcp, Transport::Udp].into_iter();
    let each = transports.flat_map(|transport| [1, 8].map(|slots| (transport, slots)));
    let rows: Vec<Row> =
        each.flat_map(|(transport, slots)| [16, 64_000].map(|size| row(transport, slots, size))).collect();
    let svg = figure(&rows, 0.04).svg().unwrap();
    for word in ["TCP", "UDP", "1 outstanding", "8 outstanding, one request", "40.00 ms"] {
        assert!(svg.contains(word), "{word}");
    }
    assert_eq!(rows[7].json()["transport"], "udp");
}
