//! `etf`: departure times on `CLOCK_TAI`; late datagrams are dropped, and reported.

use std::{io::IoSlice, net::SocketAddr, os::fd::AsFd as _, time::Duration};

use evb_net::{
    class::TrafficClass,
    clock::now,
    pacing::{DatagramSender, Etf, Offload, SenderCounts, Software, Transport, Trial, choose, prove},
};

use crate::machine::{Miss, ensure, held, in_time};
use crate::place::{OURS, Place, THEIRS, run, skip};

/// Command that sets up `mqprio`; packets of priority 3 go to its second queue, which gets an
/// `etf`.
const MQPRIO: &str = "tc qdisc replace dev cable0 handle 100: root mqprio num_tc 2 \
                      map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0";
const PRIORITY: u32 = 3;

fn etf(delta: Duration) -> Result<(), evb_needs::Missing> {
    run(&format!("tc qdisc replace dev cable0 parent 100:2 etf clockid CLOCK_TAI delta {}", delta.as_nanos()))
}

/// Creates a virtual cable with an `etf` that hands packets to the device `delta` before their
/// departure times.
fn laid(test: &str, delta: Duration) -> Option<Place> {
    let mut place = Place::enter(test)?;
    let made = place.lay_cable(2).and_then(|()| run(MQPRIO)).and_then(|()| etf(delta));
    match made {
        Ok(()) => Some(place),
        Err(missing) => {
            skip(test, &missing);
            None
        }
    }
}

fn trial() -> Trial {
    Trial { priority: Some(PRIORITY), ..Trial::new(Transport::Udp, OURS, THEIRS) }
}

fn sender() -> DatagramSender {
    let (local, peer): (SocketAddr, SocketAddr) = ((OURS, 0).into(), (THEIRS, 9).into());
    let sender = DatagramSender::connect(local, peer, &Etf, None, None).unwrap();
    TrafficClass { dscp: None, priority: Some(PRIORITY) }.apply(sender.as_fd()).unwrap();
    sender
}

/// Sends ten datagrams, each `ahead` nanoseconds before its departure time (after it if negative),
/// and returns the kernel's reports.
fn reports(ahead: i64) -> SenderCounts {
    let mut sender = sender();
    for _ in 0..10 {
        sender.send(&[IoSlice::new(&[0; 64])], None, Some(now().shifted(ahead))).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(40));
    sender.collect().unwrap()
}

#[test]
fn etf_keeps_departure_times_and_is_taken_only_when_asked_for() {
    const TEST: &str = "etf_keeps_departure_times_and_is_taken_only_when_asked_for";
    let Some(_place) = laid(TEST, Duration::from_millis(1)) else { return };
    in_time(TEST, || {
        let proof = prove(Offload::Etf, &trial());
        println!("etf: {proof}");
        held(&proof)?;
        let choice = choose(Some(Offload::Etf), Software::timer(), &[trial()])
            .map_err(|refused| Miss::Wrong(refused.to_string()))?;
        ensure(choice.executor.offload() == Offload::Etf, || choice.reason)
    });
    let choice = choose(None, Software::timer(), &[trial()]).unwrap();
    assert_eq!(choice.executor.offload(), Offload::Software, "{}", choice.reason);
}

#[test]
fn what_comes_after_its_time_is_refused_and_reported() {
    const TEST: &str = "what_comes_after_its_time_is_refused_and_reported";
    let Some(_place) = laid(TEST, Duration::from_millis(10)) else { return };
    let counts = reports(-1_000_000);
    println!("handed over too late: {counts:?}");
    assert_eq!((counts.sent, counts.invalid, counts.missed), (10, 10, 0));
    // A host that stalls for more than the `delta` of `etf` loses some datagrams.
    in_time(TEST, || {
        let counts = reports(30_000_000);
        println!("handed over in time: {counts:?}");
        ensure((counts.sent, counts.invalid, counts.missed) == (10, 0, 0), || format!("{counts:?}"))
    });
}

#[test]
fn what_waits_past_its_time_is_dropped_and_reported() {
    const TEST: &str = "what_waits_past_its_time_is_dropped_and_reported";
    // With a `delta` of zero, `etf` always wakes after the departure time.
    let Some(_place) = laid(TEST, Duration::ZERO) else { return };
    // If the host stalls before it hands a datagram over, `etf` refuses the datagram instead of
    // dropping it later.
    in_time(TEST, || {
        let counts = reports(5_000_000);
        println!("held past their time: {counts:?}");
        ensure((counts.sent, counts.missed, counts.invalid) == (10, 10, 0), || format!("{counts:?}"))
    });
    let proof = prove(Offload::Etf, &trial());
    println!("etf that misses: {proof}");
    assert!(!proof.held && proof.why.contains("reported late"), "{proof}");
}

#[test]
fn without_etf_it_is_refused_with_the_commands() {
    const TEST: &str = "without_etf_it_is_refused_with_the_commands";
    let Some(mut place) = Place::enter(TEST) else { return };
    if let Err(missing) = place.lay_cable(2) {
        return skip(TEST, &missing);
    }
    let refused = choose(Some(Offload::Etf), Software::timer(), &[trial()]).unwrap_err();
    println!("without etf: {refused}");
    assert!(refused.to_string().contains("etf clockid CLOCK_TAI"), "{refused}");
}
