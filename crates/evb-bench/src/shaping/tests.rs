use std::time::Duration;

use clap::Parser as _;
use evb_config::read;
use evb_core::units::{Bytes, Rate};

use super::{
    ShapingArguments, ShapingPoint, ShapingTable, measure,
    system::{Keeper, Load, Shape, buffer_bits, configuration, fragment},
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    shaping: ShapingArguments,
}

fn arguments(line: &[&str]) -> ShapingArguments {
    Line::try_parse_from(["shaping"].iter().chain(line)).expect("a command line").shaping
}

#[test]
fn every_system_is_a_configuration_that_evbd_reads() {
    for shape in ["1x1", "1x3", "3×1"] {
        let shape: Shape = shape.parse().expect("a shape");
        for keeper in ["timerfd", "spin", "pacing-rate", "tbf"] {
            let keeper: Keeper = keeper.parse().expect("an executor");
            let rate = Rate::from_bits_per_second(30_000_000);
            let load = Load::Shaped { fragment: fragment(rate), keeper, rate };
            let text = configuration(shape, load, Duration::from_secs(1)).expect("loopback has free ports");
            let config = read(&text, "test").unwrap_or_else(|problems| panic!("{problems}")).config;
            assert_eq!(config.sources.len() * config.builders.len(), usize::from(shape.lanes()));
            assert!(config.builders.iter().all(|builder| builder.rate == Some(rate)));
        }
    }
    for bad in ["2x2", "0x1", "1", "1x", "1x65"] {
        assert!(bad.parse::<Shape>().is_err(), "{bad}");
    }
    assert!("magic".parse::<Keeper>().expect_err("refused").contains("timerfd"));
}

#[test]
fn a_fragment_takes_five_milliseconds_and_its_frames_are_reckoned() {
    let rate = Rate::from_bits_per_second(100_000_000);
    assert_eq!(fragment(rate), Bytes::new(62_500));
    assert_eq!(fragment(Rate::from_bits_per_second(1_000)), Bytes::new(1000));
    // 62 500 B of payload fill 43.16 packets of 1448 B, which are frames of 1514 B: 522 800 bits,
    // and a few more for evb's headers.
    let bits = buffer_bits(62_500.0, Bytes::new(62_500), Some((rate, Keeper::Timer)));
    let bare = 62_500.0 * 1514.0 / 1448.0 * 8.0;
    assert!(bits > bare && bits < bare * 1.015, "{bits} for {bare}");
    // The number of bits is proportional to the number of fragments.
    assert!(
        (buffer_bits(625_000.0, Bytes::new(62_500), Some((rate, Keeper::Timer))) / bits - 10.0).abs() < 1e-9
    );
    // A spinning executor sends single packets, each with its record header. A timer executor sends
    // nine packets at a time with one record header.
    let alone = buffer_bits(62_500.0, Bytes::new(62_500), Some((rate, Keeper::Spin)));
    let headers = 62_500.0 / 1448.0 * 16.0 * 8.0;
    assert!((alone / bits - 1.0 - headers * 8.0 / 9.0 / bare).abs() < 1e-3, "{alone} for {bits}");
}

fn made_up(off: f64) -> ShapingPoint {
    ShapingPoint {
        system: "1×1".into(),
        executor: "timerfd".into(),
        asked_bits_per_s: 10_000_000,
        got_bits_per_s: vec![10e6 * (1.0 + off)],
        off,
        cores: Some(0.02),
        cores_unshaped: Some(0.01),
        complete: 100,
        exit_code: 0,
    }
}

#[test]
fn the_median_run_counts_and_is_shown() {
    let mut table = ShapingTable::new(Duration::from_secs(1), 3);
    let failed = ShapingPoint { exit_code: 1, ..made_up(0.9) };
    let median = ShapingPoint::median(vec![failed, made_up(-0.001), made_up(0.0012)]).expect("three");
    assert_eq!((median.off, median.exit_code), (0.0012, 1));
    assert_eq!(ShapingPoint::median(Vec::new()), None);
    table.points.push(median);
    table.points.push(ShapingPoint { asked_bits_per_s: 100_000_000, ..made_up(-0.01) });
    table.remark("tbf is left out: no token bucket".into());
    let (text, svg) = (table.text(), table.figure().svg().expect("drawn"));
    for part in ["10.012 Mbit/s", "+0.12 %", "-1.00 %", "2.00", "note: tbf is left out"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(svg.contains("timerfd") && svg.contains("tbf is left out"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |line: &[&str]| measure(&arguments(line)).is_err();
    assert!(refused(&["--runs", "0"]) && refused(&["--duration", "10 ms"]));
}
