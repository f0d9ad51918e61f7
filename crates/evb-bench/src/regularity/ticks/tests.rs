use std::{collections::VecDeque, time::Duration};

use crate::trigger::times::{Times, TimesKind};
use evb_core::{
    time::Instant,
    units::{Bytes, Frequency, Rate},
};

use super::{Gate, Ticks, depth};

const SIZE: Bytes = Bytes::new(1042);

fn rate() -> Rate {
    "5 Mbit/s".parse().expect("a rate")
}

fn ticks(hertz: u32) -> Ticks {
    Ticks::new(hertz).expect("a frequency")
}

#[test]
fn ticks_are_multiples_of_the_period() {
    let at = Instant::from_nanos;
    let hundred = ticks(100);
    assert_eq!(hundred.last(at(19_999_999)), at(10_000_000));
    assert_eq!(
        (hundred.last(at(20_000_000)), hundred.next(at(20_000_000))),
        (at(20_000_000), at(20_000_000))
    );
    assert_eq!(hundred.next(at(20_000_001)), at(30_000_000));
    // Two ticks of 1500 Hz are 1333333.3… ns, and the tick comes when that time is over.
    let fast = ticks(1500);
    assert_eq!((fast.next(at(666_668)), fast.last(at(1_333_334))), (at(1_333_334), at(1_333_334)));
    assert_eq!(fast.last(at(1_333_333)), at(666_667));
    assert_eq!(fast.next(at(666_667)), at(666_667));
    // The n-th tick does not drift.
    assert_eq!(fast.next(at(9_999_999_999_999_999)), at(10_000_000_000_000_000));
    assert_eq!((Ticks::new(0), Ticks::new(1_000_001)), (None, None));
}

#[test]
fn the_bucket_of_ticks_holds_the_tokens_of_a_tick() {
    assert_eq!(depth(rate(), SIZE, None), Bytes::new(2084));
    assert_eq!(depth(rate(), SIZE, Some(ticks(100))), Bytes::new(6250 + 1042));
    assert_eq!(depth(rate(), SIZE, Some(ticks(1500))), Bytes::new(2084));
}

/// Returns the departures of messages behind a gate on a simulated clock whose timers are exact.
fn departures(kind: TimesKind, mut gate: Gate, messages: usize) -> Vec<Instant> {
    let start = Instant::from_nanos(1_000_003_000);
    let mut trigger = Times::new(kind, 1, start);
    let (mut now, mut queue, mut idle, mut left) = (start, VecDeque::new(), true, Vec::new());
    while left.len() < messages {
        while let Some(at) = trigger.pop_due(now) {
            queue.push_back(at);
        }
        let Some(came) = queue.front().copied() else {
            (idle, now) = (true, trigger.next_due());
            continue;
        };
        if std::mem::take(&mut idle) {
            gate.wake(came);
        }
        match gate.opens(SIZE, now) {
            Some(at) => {
                assert!(at > now, "a gate that is closed now opens later");
                now = at;
            }
            None => {
                queue.pop_front();
                gate.spend(SIZE, now);
                left.push(now);
            }
        }
    }
    left
}

fn periodic(hertz: f64) -> TimesKind {
    TimesKind::Periodic { rate: Frequency::from_hertz(hertz).expect("a rate") }
}

fn gate(hertz: Option<u32>, full: bool) -> Gate {
    let ticks = hertz.map(ticks);
    Gate::new(rate(), depth(rate(), SIZE, ticks), ticks, full)
}

#[test]
fn with_a_hundred_ticks_a_second_messages_leave_in_clumps_of_six() {
    let left = departures(periodic(1000.0), gate(Some(100), false), 3000);
    // The triggers bring ten messages in each tick, and the tokens of a tick are enough for 5.998.
    // At first, messages find tokens that are left over.
    let steady = &left[30..];
    assert!(steady.iter().all(|at| at.as_nanos() % 10_000_000 == 0), "messages leave at ticks only");
    let clumps = steady.chunk_by(|a, b| a == b).map(<[Instant]>::len).collect::<Vec<_>>();
    let inner = &clumps[1..clumps.len() - 1];
    assert!(inner.iter().all(|count| [5, 6].contains(count)), "{inner:?}");
    let mean = inner.iter().sum::<usize>() as f64 / inner.len() as f64;
    assert!((mean - 5.998).abs() < 0.01, "{mean}");
}

#[test]
fn with_1500_ticks_a_second_gaps_are_two_or_three_ticks() {
    let left = departures(periodic(1000.0), gate(Some(1500), false), 3000);
    let gaps = left[30..].windows(2).map(|pair| pair[1].since(pair[0]).as_nanos());
    let counts = gaps.fold([0_u32; 2], |mut counts, gap| {
        match gap {
            1_333_333..=1_333_334 => counts[0] += 1,
            1_999_999..=2_000_001 => counts[1] += 1,
            other => panic!("a gap of {other} ns"),
        }
        counts
    });
    // 2.5008 ticks on average.
    assert!(counts[0].abs_diff(counts[1]) < 20, "{counts:?}");
}

#[test]
fn without_ticks_all_gaps_are_nominal() {
    let left = departures(periodic(1000.0), gate(None, false), 300);
    let nominal = Duration::from_nanos(1_667_200);
    assert!(left.windows(2).all(|pair| pair[1].since(pair[0]).abs_diff(nominal).as_nanos() <= 1));
}

#[test]
fn below_the_rate_triggers_pass_unchanged() {
    for ticks in [None, Some(100), Some(1500)] {
        let left = departures(periodic(100.0), gate(ticks, true), 100);
        assert!(left.windows(2).all(|pair| pair[1].since(pair[0]) == Duration::from_millis(10)), "{ticks:?}");
    }
}

#[test]
fn a_bucket_that_is_full_at_the_start_lets_its_depth_leave_at_once() {
    let burst = TimesKind::Burst { rate: Frequency::from_hertz(0.1).expect("a rate"), count: 10 };
    let at_once = |full| {
        let gate = Gate::new(rate(), SIZE * 4, None, full);
        let left = departures(burst, gate, 10);
        left.iter().filter(|at| **at == left[0]).count()
    };
    assert_eq!((at_once(true), at_once(false)), (4, 1));
    // Tokens also gather while nothing waits.
    let left = departures(burst, Gate::new(rate(), SIZE * 4, None, true), 20);
    assert_eq!(left[10..].iter().filter(|at| **at == left[10]).count(), 4);
}
