use std::collections::BTreeMap;

use lab_base::system::Transport;

use super::{table::markdown, turn::Measured, *};

const CASE: Case = Case {
    shape: Shape { sources: 8, rate: 10_000_000_000, trains: true, ..Shape::PLAIN },
    fragment: AMONG_OTHERS,
    rate: None,
};

fn rounds(of: &[(f64, f64, u64)]) -> Rounds {
    let mut rounds = Rounds::new(CASE, vec![Program::Iperf, Program::Evb(Transport::Tcp)]);
    for (iperf, evb, drops) in of {
        let run = |goodput: f64, drops| Measured { goodput: goodput * 1e9, drops, ..Measured::default() };
        rounds.add(vec![run(*iperf, 4000), run(*evb, *drops)]);
    }
    rounds
}

#[test]
fn ratios_are_of_the_same_round() {
    // In the second round, the machine was half as fast for both programs.
    let all = rounds(&[(10.0, 9.0, 0), (5.0, 4.75, 0), (10.0, 8.0, 0)]);
    let ratio = all.ratio(&Program::Evb(Transport::Tcp), &Program::Iperf, |m| m.goodput).unwrap();
    assert!(
        (ratio.median - 0.9).abs() < 1e-9
            && (ratio.least - 0.8).abs() < 1e-9
            && (ratio.most - 0.95).abs() < 1e-9
    );
    assert!(all.ratio(&Program::Evb(Transport::Tcp), &Program::Zeromq, |m| m.goodput).is_none());
    let text = markdown(&[all]);
    assert!(text.contains("| evb tcp | 0 | 8.00 | 0.900 (0.800) | – | – | 0 |"), "{text}");
    assert!(text.contains("| iperf3 | 0 | 10.00 | – | – | – | 4000 4000 4000 |"), "{text}");
}

#[test]
fn a_drop_in_one_round_fails_a_case() {
    let failed = |of: &[(f64, f64, u64)]| {
        let mut report = Report::bare("test");
        judge(&rounds(of), &mut report);
        report.failed().len()
    };
    assert_eq!(failed(&[(9.0, 9.0, 0), (9.0, 9.0, 0)]), 0);
    assert_eq!(failed(&[(9.0, 9.0, 0), (9.0, 9.0, 1)]), 1);
    assert_eq!(failed(&[(9.0, 8.0, 0), (9.0, 8.0, 0)]), 1);
}

#[test]
fn the_other_sides_histogram_is_read_as_it_is_written() {
    // In the histogram, 31 ns have a bucket of their own; 1000 ns lie between 512 and 1023 ns,
    // where buckets are 16 ns wide.
    assert_eq!(zeromq::quantile(&BTreeMap::from([(31, 1)]), 0.5), 0.031);
    let bucket = 5 * 32 + (1000 / 16 - 32);
    assert_eq!(zeromq::quantile(&BTreeMap::from([(0, 98), (bucket, 2)]), 0.99), 1.007);
    assert_eq!(zeromq::quantile(&BTreeMap::from([(0, 98), (bucket, 2)]), 0.5), 0.0);
    assert!(zeromq::quantile(&BTreeMap::new(), 0.5).is_nan());
}

#[test]
fn hosts_are_read() {
    assert_eq!("32x1".parse::<Hosts>().unwrap(), Hosts { sources: 32, builders: 1 });
    for wrong in ["8", "x1", "0x1", "8x0", "300x1"] {
        assert!(wrong.parse::<Hosts>().is_err(), "{wrong}");
    }
}
