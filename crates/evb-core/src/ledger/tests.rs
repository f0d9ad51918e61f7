use super::{EventCounts, Latency, PacingSummary, Percentiles, RunReport, Spread};

#[test]
fn percentiles_join_histograms() {
    let mut percentiles = Percentiles::default();
    assert_eq!(percentiles.latency(), Latency::default());
    percentiles.add(&[10, 500, 30, 490, 50], 0);
    percentiles.add(&[20, 400, 1_000, 9, 9_000, 1], 8_765);
    // 1400 values: 500 × 10, 400 × 20, 490 × 30, 9 × 1000, 1 × 9000.
    assert_eq!(percentiles.latency(), Latency { p50: 20, p99: 30, p999: 1_000, max: 8_765 });
    assert_eq!(percentiles.spread(), Spread { count: 1_400, p50: 20, p99: 30, max: 8_765 });
}

#[test]
fn a_lying_histogram_neither_panics_nor_wraps() {
    let mut percentiles = Percentiles::default();
    percentiles.add(&[1, u64::MAX, 2, u64::MAX, u64::MAX, 1], u64::MAX);
    assert_eq!(percentiles.latency().p50, 1);
}

#[test]
fn a_ledger_is_open_closed_or_wrong() {
    let mut counts =
        EventCounts { triggered: 10, inhibited: 1, complete: 5, incomplete: 2, ..EventCounts::default() };
    assert_eq!(counts.open(), Some(2));
    counts.rejected = 1;
    counts.lost = 1;
    assert_eq!(counts.open(), Some(0));
    counts.lost = 2;
    assert_eq!(counts.open(), None);
}

#[test]
fn the_summary_has_the_names_of_the_contract() {
    let json = serde_json::to_value(RunReport::default()).unwrap();
    for path in [
        "/run",
        "/duration_s",
        "/events/triggered",
        "/events/inhibited",
        "/events/assigned",
        "/events/complete",
        "/events/incomplete",
        "/events/lost",
        "/events/written",
        "/bytes/payload",
        "/rates/events_per_s",
        "/rates/payload_bytes_per_s",
        "/build_latency_us/p50",
        "/build_latency_us/p99",
        "/build_latency_us/p999",
        "/build_latency_us/max",
        "/dead_time_fraction",
        "/busy_fraction",
        "/network/tcp_retransmits",
        "/network/resends",
        "/network/duplicates",
        "/network/late",
        "/network/crc_errors",
        "/network/datagrams/recovery_us/p99",
        "/network/datagrams/round_trip_us/p50",
        "/paths",
        "/sources",
        "/builders",
    ] {
        assert!(json.pointer(path).is_some(), "{path}");
    }
}

#[test]
fn the_worse_of_two_paces_has_the_larger_value_of_each_field() {
    let early = PacingSummary {
        departures: 7,
        late_p50_us: 1.0,
        late_p99_us: 20.0,
        late_max_us: 30.0,
        forfeited_s: 4.0,
    };
    let late = PacingSummary {
        departures: 5,
        late_p50_us: 2.0,
        late_p99_us: 10.0,
        late_max_us: 40.0,
        forfeited_s: 3.0,
    };
    let worse = PacingSummary {
        departures: 7,
        late_p50_us: 2.0,
        late_p99_us: 20.0,
        late_max_us: 40.0,
        forfeited_s: 4.0,
    };
    assert_eq!((early.worse(late), late.worse(early)), (worse, worse));
}
