use core::time::Duration;

use evb_core::{rng::Rng, time::Instant, units::Bytes};

use super::Programs;
use crate::hosts::{Delays, ProcessorTime, Program};

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + us(micros)
}

/// Returns programs that wake up after 10 µs, and take 3 µs of processor time for a wake-up and 2
/// µs for a system call.
fn programs(hosts: usize, cores: Option<usize>) -> Programs {
    let processor = ProcessorTime { wake_up: us(3), call: us(2), mebibyte: us(1024) };
    let program = Program { wake_up: Delays::uniform(us(10), us(10)), processor };
    Programs::new(vec![program; hosts], cores, Rng::new(1))
}

#[test]
fn a_program_runs_a_delay_after_its_bytes_and_pays_for_what_it_does() {
    let mut programs = programs(1, None);
    assert_eq!(programs.wake_at(0, at(5), at(5)), Some(at(15)));
    assert_eq!(programs.wake_at(0, at(6), at(6)), None, "the program wakes up earlier anyway");
    assert_eq!(programs.start(), None);
    programs.handle_wake(0, at(15));
    assert_eq!(programs.start(), Some(0));
    assert_eq!(programs.spend(1, Bytes::kib(4)), us(3 + 2 + 2 + 4));
    assert_eq!(programs.finish(), Some((0, us(11))));
    assert_eq!(programs.handle_done(0, us(11), at(26)), None);
    assert_eq!(programs.spend(1, Bytes::kib(4)), Duration::ZERO, "no program is running");
}

/// Checks that a program reads input that arrives during its run in a next run without a wake-up,
/// and sleeps until later input arrives.
#[test]
fn a_busy_program_does_not_sleep() {
    let mut programs = programs(1, None);
    programs.wake_at(0, at(0), at(0));
    programs.handle_wake(0, at(10));
    assert_eq!(programs.start(), Some(0));
    assert_eq!(programs.finish(), Some((0, us(5))));
    assert_eq!(programs.wake_at(0, at(12), at(12)), None);
    assert_eq!(programs.handle_done(0, us(5), at(15)), None);
    assert_eq!(programs.start(), Some(0));
    assert_eq!(programs.wake_at(0, at(100), at(15)), None);
    assert_eq!(programs.finish(), Some((0, us(2))), "the run takes one system call and no wake-up");
    assert_eq!(programs.handle_done(0, us(2), at(17)), Some(at(110)));
}

#[test]
fn programs_share_cores_in_the_order_in_which_they_come() {
    let mut programs = programs(3, Some(1));
    for host in [2, 0, 1] {
        programs.wake_at(host, at(0), at(0));
        programs.handle_wake(host, at(10));
    }
    for (host, ends) in [(2, 15), (0, 20), (1, 25)] {
        assert_eq!(programs.start(), Some(host));
        assert_eq!(programs.finish(), Some((host, us(5))));
        assert_eq!(programs.start(), None, "there is only one core");
        programs.handle_done(host, us(5), at(ends));
    }
}

/// Checks that with recorded delays, many packets wake up a program no faster than one packet; with
/// a delay for each packet, they do.
#[test]
fn a_recorded_wake_up_is_drawn_once() {
    let mean = |wake_up: &Delays| {
        let sleeps = (0..2000).map(|seed| {
            let program = Program { wake_up: wake_up.clone(), processor: ProcessorTime::default() };
            let mut programs = Programs::new(vec![program], None, Rng::new(seed));
            (0..20).filter_map(|_| programs.wake_at(0, at(0), at(0))).min().expect("a wake-up")
        });
        sleeps.map(|at| at.as_nanos()).sum::<u64>() / 2000
    };
    let recorded = mean(&Delays::recorded(&[(0, 10_000), (1000, 30_000)]));
    let uniform = mean(&Delays::uniform(us(10), us(30)));
    assert!(recorded.abs_diff(20_000) < 500, "{recorded} ns");
    assert!(uniform < 11_500, "{uniform} ns");
}
