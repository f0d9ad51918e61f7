use super::{EventCounts, Latency, OwingChange, PacingSummary, Percentiles, RunReport, Spread};
use crate::{
    id::{EventId, SourceId},
    time::Utc,
    wire::control::MAX_CHANGES,
};

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

/// Returns a change of a source with the time of the request in seconds.
fn change(source: u16, from: u64, seconds: u64) -> OwingChange {
    let change = OwingChange::exclude(SourceId::new(source), EventId::new(from), "no power");
    OwingChange { utc: Utc::from_nanos(seconds * 1_000_000_000), ..change }
}

/// One list was made before an operator changed his mind, and has what he planned first.
#[test]
fn lists_of_changes_are_joined_whatever_their_order() {
    let before_the_start = [change(7, 1, 0), change(7, 40, 0), change(3, 1, 0)];
    let planned = change(3, 100, 10);
    let instead = OwingChange { excluded: false, ..change(3, 60, 20) };
    let later = change(3, 100, 30);
    let held = [change(3, 1, 0), change(7, 1, 0), change(7, 40, 0), instead.clone(), later.clone()];
    let early: Vec<_> = before_the_start.iter().cloned().chain([planned]).collect();
    let late: Vec<_> = before_the_start.into_iter().chain([instead, later]).collect();
    assert_eq!(OwingChange::joined([early.clone(), late.clone()].concat()), held);
    assert_eq!(OwingChange::joined([late.clone(), early].concat()), held);
    assert_eq!(OwingChange::joined([late.clone(), late].concat()), held);
    let many = (1..=MAX_CHANGES as u64 + 5).map(|from| change(3, from, from)).collect();
    assert_eq!(OwingChange::joined(many).len(), MAX_CHANGES);
}

/// As in a file, which may be of a later version of evb, or forged.
#[test]
fn a_change_is_read_from_its_text_without_what_could_harm() {
    let excluded = OwingChange { utc: Utc::from_nanos(1_763_000_000_000_000_000), ..change(3, 60, 0) };
    let text = serde_json::to_string(&excluded).unwrap();
    assert_eq!(
        text,
        r#"{"source":3,"excluded":true,"from":60,"why":"no power","utc":"2025-11-13T02:13:20.000000000Z"}"#
    );
    assert_eq!(serde_json::from_str::<OwingChange>(&text).unwrap(), excluded);
    let why = format!("no\\u001b[2J\\n{}", "µ".repeat(200));
    let forged = format!(r#"{{"source": 3, "why": "{why}", "later": 5}}"#);
    let read: OwingChange = serde_json::from_str(&forged).unwrap();
    assert_eq!((read.why.len(), &read.why[..9]), (199, "no [2J µ"));
    assert_eq!((read.from, read.utc), (EventId::default(), Utc::UNKNOWN));
    assert!(serde_json::from_str::<OwingChange>(r#"{"source": 70000}"#).is_err());
}
