//! `fq` and `SO_TXTIME`: the regularity with which datagrams leave that were handed over with their
//! departure times.

use std::{io::IoSlice, net::SocketAddr, time::Duration};

use evb_core::{time::Instant, units::Bytes};
use evb_net::{
    clock::now,
    host::qdisc::qdiscs,
    pacing::{DatagramSender, GapReceiver, Gaps, MAX_AHEAD, SendError, Txtime},
};

use crate::machine::{Verdict, ensure, in_time, judge, not_judged};
use crate::place::{Place, run, skip};

/// Index of the loopback device, the same in every network namespace.
const LOOPBACK: u32 = 1;

/// A spacing of departures to try, with a flag that says if the kernel must keep the spacing.
struct Case {
    gap: Duration,
    count: usize,
    must: bool,
}

const fn case(micros: u64, count: usize, must: bool) -> Case {
    Case { gap: Duration::from_micros(micros), count, must }
}

/// Spacings to try. Below 500 µs, the host's own lateness dominates, so the result is only
/// reported.
const CASES: [Case; 7] = [
    case(10_000, 41, true),
    case(5_000, 61, true),
    case(2_000, 101, true),
    case(1_000, 151, true),
    case(500, 151, true),
    case(100, 151, false),
    case(50, 151, false),
];

/// Largest allowed error of the median gap, as a fraction of the requested gap; `WITHIN` is the
/// fraction of the gaps that must be within a tenth of the requested gap.
const MEDIAN: f64 = 0.01;
const WITHIN: f64 = 0.9;

/// Result of one attempt.
struct Seen {
    gaps: Gaps,
    lost: usize,
    /// Median lateness of the departures.
    late: Duration,
    early: usize,
}

impl Seen {
    fn good(&self, gap: Duration) -> bool {
        self.lost == 0
            && self.early == 0
            && self.gaps.median_error(gap).is_some_and(|error| error <= MEDIAN)
            && self.gaps.within(gap, 0.1) >= WITHIN
    }
}

fn measure(case: &Case) -> Seen {
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut receiver = GapReceiver::bind(local, Some(Bytes::mib(1))).unwrap();
    let peer = receiver.local_addr().unwrap();
    let mut sender = DatagramSender::connect(local, peer, &Txtime, None, Some(Bytes::mib(1))).unwrap();
    let first = now() + Duration::from_millis(5);
    let asked: Vec<Instant> = (0..case.count as u32).map(|index| first + case.gap * index).collect();
    for (number, at) in asked.iter().enumerate() {
        let number = (number as u64).to_le_bytes();
        let bytes = [IoSlice::new(&number), IoSlice::new(&[0; 56])];
        loop {
            match sender.send(&bytes, None, Some(*at)) {
                Ok(_) => break,
                Err(SendError::TooFarAhead { until }) => {
                    // The sender waits until half of the queued datagrams have left, to disturb the
                    // kernel only seldom.
                    let half = until + case.gap * (MAX_AHEAD as u32 / 2);
                    std::thread::sleep(half.since(now()));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    let last = asked[asked.len() - 1] + Duration::from_millis(50);
    std::thread::sleep(last.since(now()));
    let mut arrivals = Vec::new();
    let (mut late, mut early) = (Vec::new(), 0);
    while arrivals.len() < case.count
        && let Some(receipt) = receiver.receive(Duration::from_millis(20)).unwrap()
    {
        assert!(receipt.stamped);
        let number = u64::from_le_bytes(receiver.payload(&receipt)[..8].try_into().unwrap());
        let at = asked[number as usize];
        early += usize::from(receipt.at + Duration::from_micros(20) < at);
        late.push(receipt.at.since(at));
        arrivals.push(receipt.at);
    }
    late.sort_unstable();
    Seen {
        gaps: Gaps::between(&arrivals),
        lost: case.count - arrivals.len(),
        late: late.get(late.len() / 2).copied().unwrap_or_default(),
        early,
    }
}

/// Returns the last attempt, and the verdict on all attempts; a gap that must be kept is tried
/// repeatedly.
fn tried(case: &Case) -> (Seen, Verdict) {
    let mut last = None;
    let verdict = judge(case.gap, WITHIN, || {
        let seen = last.insert(measure(case));
        ensure(seen.good(case.gap) || !case.must, || {
            format!("{:.0} % within 10 %", seen.gaps.within(case.gap, 0.1) * 100.0)
        })
    });
    (last.unwrap_or_else(|| measure(case)), verdict)
}

fn drops() -> u32 {
    qdiscs(LOOPBACK).unwrap().iter().filter_map(|qdisc| qdisc.drops).sum()
}

#[test]
fn fq_keeps_departure_times() {
    const TEST: &str = "fq_keeps_departure_times";
    let Some(_place) = Place::enter(TEST) else { return };
    if let Err(missing) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &missing);
    }
    let as_json = std::env::var_os("EVB_KERNEL_JSON").is_some();
    println!(
        "{:>10} {:>12} {:>8} {:>11} {:>11} {:>5} {:>8}  verdict",
        "gap", "median", "error", "within 10 %", "late (p50)", "lost", "attempt"
    );
    let mut failed = Vec::new();
    for case in &CASES {
        let (seen, verdict) = tried(case);
        let (error, within) =
            (seen.gaps.median_error(case.gap).unwrap_or(1.0), seen.gaps.within(case.gap, 0.1));
        let median = seen.gaps.median().unwrap_or_default();
        let (attempt, word) = match &verdict {
            Verdict::Holds(attempt) if seen.good(case.gap) => (attempt.to_string(), "good"),
            Verdict::Holds(attempt) => (attempt.to_string(), "reported only"),
            Verdict::Fails(_) => ("all".to_owned(), "BAD"),
            Verdict::NotJudged(_) => ("all".to_owned(), "not judged"),
        };
        println!(
            "{:>10} {:>12} {:>6.2} % {:>9.1} % {:>11} {:>5} {:>8}  {word}",
            format!("{:?}", case.gap),
            format!("{median:?}"),
            error * 100.0,
            within * 100.0,
            format!("{:?}", seen.late),
            seen.lost,
            attempt
        );
        if as_json {
            println!(
                "{{\"test\":\"fq\",\"gap_ns\":{},\"median_ns\":{},\"within_tenth\":{within:.4},\"lost\":{},\"attempt\":\"{attempt}\"}}",
                case.gap.as_nanos(),
                median.as_nanos(),
                seen.lost
            );
        }
        match verdict {
            Verdict::Holds(_) => {}
            Verdict::Fails(_) => failed.push(case.gap),
            Verdict::NotJudged(why) => not_judged(TEST, &format!("{:?}: {why}", case.gap)),
        }
    }
    assert_eq!(failed, [], "gaps that were not kept");
    assert_eq!(drops(), 0, "nothing is lost to fq's flow_limit");
}

/// Checks that a loss would be observed: if the `flow_limit` is below the sender's assumption, `fq`
/// drops datagrams, and the counters show these drops.
#[test]
fn a_lower_flow_limit_is_seen_to_drop() {
    const TEST: &str = "a_lower_flow_limit_is_seen_to_drop";
    let Some(_place) = Place::enter(TEST) else { return };
    if let Err(missing) = run("tc qdisc replace dev lo root fq flow_limit 20") {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let before = drops();
        let seen = measure(&case(10_000, MAX_AHEAD, true));
        assert_eq!((drops() - before) as usize, seen.lost);
        ensure(seen.lost >= MAX_AHEAD - 25, || format!("only {} lost", seen.lost))
    });
}
