use std::{thread, time::Duration};

use clap::Parser as _;
use evb_core::units::{Bytes, Frequency};
use evb_host::bandwidth::Kernel;

use super::{MemoryArguments, MemoryLoss, MemoryPoint, MemoryTable, measure, shaper};
use crate::interval::Interval;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    memory: MemoryArguments,
}

fn arguments(line: &[&str]) -> MemoryArguments {
    Line::try_parse_from(["memory"].iter().chain(line)).expect("a command line").memory
}

#[test]
fn the_shaper_wakes_up_as_often_as_asked() {
    let rate = Frequency::from_hertz(1000.0).expect("a frequency");
    let core = evb_host::cores::cores().allowed.expect("known").into_iter().next().expect("a core");
    let beside = shaper::beside(rate, core, || thread::sleep(Duration::from_millis(300))).expect("measured");
    let found = beside.wakes as f64 / beside.time.as_secs_f64();
    // On a busy machine the shaper may lose time, but it never gains any, except for the burst.
    assert!(found < 1050.0 && found > 300.0, "{found} wake-ups per second");
}

#[test]
fn a_quick_run_has_all_results() {
    // The rounds last longer than the turn that the scheduler gives a thread: where the shaper may
    // not take precedence, it waits for its turn.
    let line = ["--sizes", "256 KiB", "--pairs", "2", "--round", "50 ms", "--wakes", "1 kHz"];
    let table = measure(&arguments(&line)).expect("measured");
    assert_eq!(table.points.len(), 2);
    for point in &table.points {
        assert_eq!((point.losses.len(), point.idle_bytes_per_s.samples.len()), (1, 2));
        assert_eq!(point.losses[0].loss.samples.len(), 2);
        assert!(point.idle_bytes_per_s.mean > 1e6, "{point:?}");
    }
    assert!(table.figure().svg().expect("drawn").contains("triad of 256 KiB"));
    let text = table.text();
    assert!(text.contains("copy 2 × the array, triad 3 ×"), "{text}");
}

#[test]
fn the_loss_is_shown_with_its_interval() {
    let interval =
        |mean: f64, half_width: f64| Interval { mean, half_width, converged: None, samples: vec![mean] };
    let loss = MemoryLoss {
        asked_wakes_per_s: 1500.0,
        wakes_per_s: 1499.6,
        bytes_per_s: 9.9e9,
        loss: interval(0.0085, 0.0021),
    };
    let mut table = MemoryTable::new(30, Duration::from_millis(100), 0.95, 0);
    table.points.push(MemoryPoint::new(Kernel::Copy, Bytes::new(4_000_000), interval(1e10, 1e8), vec![loss]));
    let text = table.text();
    for part in ["10000 ± 100", "1.5 kHz", "9900", "0.85 %", "± 0.21", "4 MB"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    table.points[0].losses.clear();
    assert!(table.text().contains("10000 ± 100"));
    assert!(!table.figure().svg().expect("drawn").contains("Beside a shaper"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |line: &[&str]| measure(&arguments(line)).expect_err("refused").to_string();
    assert!(refused(&["--sizes", "0 B"]).contains("--sizes"));
    assert!(refused(&["--sizes", "2 GiB"]).contains("--sizes"));
    assert!(refused(&["--wakes", "1 MHz"]).contains("--wakes"));
    assert!(refused(&["--pairs", "1"]).contains("--pairs"));
    assert!(refused(&["--round", "0 s"]).contains("--round"));
    assert!(refused(&["--confidence", "1"]).contains("--confidence"));
    let quick = ["--sizes", "64 KiB", "--pairs", "2", "--round", "1 ms"];
    assert!(refused(&[&quick[..], &["--core", "100000"]].concat()).contains("--core"));
}
