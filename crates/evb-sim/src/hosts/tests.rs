use core::time::Duration;

use evb_core::{rng::Rng, units::Bytes};

use super::{Delays, HostModel, ProcessorTime};

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn recorded() -> Delays {
    Delays::recorded(&[(0, 8000), (100, 51_000), (500, 93_000), (900, 188_000), (990, 658_000)])
}

fn drawn(delays: &Delays, count: usize) -> Vec<Duration> {
    let mut rng = Rng::new(3);
    let mut drawn: Vec<_> = (0..count).map(|_| delays.draw(&mut rng)).collect();
    drawn.sort_unstable();
    drawn
}

/// Checks that drawn delays have the recorded quantiles, and that no delay is longer than the last
/// quantile.
#[test]
fn what_is_drawn_is_what_was_recorded() {
    let drawn = drawn(&recorded(), 100_000);
    for (part, micros) in [(0.1, 51.0), (0.5, 93.0), (0.9, 188.0), (0.99, 658.0)] {
        let found = drawn[(part * drawn.len() as f64) as usize].as_secs_f64() * 1e6;
        assert!((found / micros - 1.0).abs() < 0.02, "{part}: {found} µs, recorded {micros}");
    }
    assert!(drawn[0] >= us(8) && drawn[0] < us(9), "{:?}", drawn[0]);
    assert_eq!(drawn[drawn.len() - 1], us(658));
}

#[test]
fn the_mean_is_that_of_what_is_drawn() {
    for delays in [recorded(), Delays::uniform(us(15), us(30)), Delays::NONE, recorded().scaled(0.5)] {
        let drawn = drawn(&delays, 100_000);
        let mean = drawn.iter().sum::<Duration>() / drawn.len() as u32;
        assert!(mean.abs_diff(delays.mean()) <= delays.mean() / 100, "{mean:?}, {:?}", delays.mean());
    }
}

#[test]
fn no_delay_is_none() {
    assert_eq!(drawn(&Delays::NONE, 10), [Duration::ZERO; 10]);
    assert_eq!((Delays::NONE.least(), Delays::NONE.most()), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn processor_time_is_of_calls_and_bytes() {
    let processor = ProcessorTime { wake_up: us(9), call: us(2), mebibyte: us(1024) };
    assert_eq!(processor.of(3, Bytes::kib(8)), us(6 + 8));
}

/// Checks that the time from a grant to its data has two wake-ups and six system calls.
#[test]
fn the_path_of_a_grant_is_that_of_both_programs() {
    let processor = ProcessorTime { wake_up: us(5), call: us(1), mebibyte: us(1) };
    let hosts = HostModel::alike(Delays::uniform(us(10), us(20)), processor);
    assert_eq!(hosts.grant_path(), us(2 * (15 + 5 + 3)));
}
