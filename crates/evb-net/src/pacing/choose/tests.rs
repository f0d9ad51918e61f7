use std::{cell::RefCell, time::Duration};

use evb_core::units::Rate;

use super::choose_by;
use crate::pacing::{Offload, Proof, Software, Transport, Trial};

fn trial(transport: Transport, rate: Option<u64>) -> Trial {
    let rate = rate.map(Rate::from_bits_per_second);
    Trial { rate, ..Trial::loopback(transport) }
}

fn proof(offload: Offload, held: bool) -> Proof {
    Proof {
        offload,
        device: Some("eth7".into()),
        held,
        undecided: false,
        median_error: Some(0.001),
        p99: Some(Duration::from_micros(250)),
        why: "seen".into(),
        remedy: (!held).then(|| "tc qdisc replace".into()),
    }
}

#[test]
fn auto_takes_departure_times_where_they_are_proved() {
    let choice = choose_by(None, Software::timer(), &[trial(Transport::Udp, None)], &|offload, _| {
        proof(offload, true)
    })
    .unwrap();
    assert_eq!(choice.executor.offload(), Offload::Txtime);
    assert!(choice.reason.contains("txtime works on eth7"), "{}", choice.reason);
    assert_eq!(choice.executor.precision(), Duration::from_micros(250), "as measured");
    assert!(choice.executor.clock().is_some());
}

#[test]
fn auto_falls_back_to_software_and_says_why() {
    let choice = choose_by(None, Software::timer(), &[trial(Transport::Udp, None)], &|offload, _| {
        proof(offload, offload == Offload::Software)
    })
    .unwrap();
    assert_eq!(choice.executor.offload(), Offload::Software);
    assert!(choice.reason.contains("txtime does not work on eth7"), "{}", choice.reason);
    assert_eq!(
        choice.proofs.iter().map(|proof| proof.offload).collect::<Vec<_>>(),
        [Offload::Txtime, Offload::Software]
    );
    assert!(
        choice.reason.starts_with("this process sends each packet at its time by a timer; "),
        "{}",
        choice.reason
    );
    assert_eq!(choice.executor.precision(), Duration::from_micros(250), "as measured");
}

#[test]
fn software_that_could_not_be_tested_says_what_to_look_at() {
    let trials = [trial(Transport::Udp, None)];
    let choice = choose_by(Some(Offload::Software), Software::timer(), &trials, &|offload, _| Proof {
        why: "no test packet leaves".into(),
        remedy: Some("check the network".into()),
        ..proof(offload, false)
    })
    .unwrap();
    let reason =
        "this process sends each packet at its time by a timer; no test packet leaves; check the network";
    assert_eq!(choice.reason, reason);
}

#[test]
fn auto_never_tries_the_one_that_drops() {
    let tried = RefCell::new(Vec::new());
    for transport in [Transport::Tcp, Transport::Udp] {
        let _ = choose_by(None, Software::timer(), &[trial(transport, Some(1_000_000))], &|offload, _| {
            tried.borrow_mut().push(offload);
            proof(offload, false)
        });
    }
    assert!(!tried.borrow().contains(&Offload::Etf));
}

#[test]
fn a_requested_one_that_does_not_work_is_refused_with_the_remedy() {
    let error =
        choose_by(Some(Offload::Etf), Software::timer(), &[trial(Transport::Udp, None)], &|offload, _| {
            proof(offload, false)
        })
        .unwrap_err();
    assert_eq!(error.offload, Offload::Etf);
    assert!(error.to_string().contains("to make it work: tc qdisc replace"), "{error}");
}

#[test]
fn a_requested_one_must_work_on_every_device() {
    let mut elsewhere = trial(Transport::Udp, None);
    elsewhere.priority = Some(3);
    let trials = [trial(Transport::Udp, None), elsewhere];
    let refused = choose_by(Some(Offload::Txtime), Software::timer(), &trials, &|offload, trial| {
        proof(offload, trial.priority.is_none())
    });
    assert!(refused.is_err());
}

#[test]
fn one_device_is_proved_once() {
    let tried = RefCell::new(0);
    let trials = [trial(Transport::Udp, None); 32];
    let choice = choose_by(Some(Offload::Txtime), Software::timer(), &trials, &|offload, _| {
        *tried.borrow_mut() += 1;
        proof(offload, true)
    });
    assert_eq!((tried.into_inner(), choice.is_ok()), (1, true));
}

#[test]
fn software_asked_for_is_software_and_spins_if_told() {
    let trials = [trial(Transport::Tcp, Some(10_000_000))];
    let choice = choose_by(Some(Offload::Software), Software::spinning(), &trials, &|offload, _| {
        assert_eq!(offload, Offload::Software, "nothing else was asked for");
        proof(offload, true)
    })
    .unwrap();
    assert_eq!(choice.executor.offload(), Offload::Software);
    assert!(choice.reason.contains("spinning"));
    assert_eq!(choice.executor.precision(), Duration::from_micros(250), "as measured");
}

#[test]
fn a_paced_tcp_socket_that_bursts_is_not_better_than_a_timer() {
    // At 1 Gbit/s, a train of one millisecond has 122 kB, which exceeds the longest acceptable
    // train (`TAME`) with every kernel setting.
    let trials = [trial(Transport::Tcp, Some(1_000_000_000))];
    let choice = choose_by(None, Software::timer(), &trials, &|offload, _| proof(offload, true)).unwrap();
    assert_eq!(choice.executor.offload(), Offload::Software);
    assert!(choice.reason.contains("tcp_tso_rtt_log"), "{}", choice.reason);
}
