//! An offload is claimed where it works, and not where it does not.

use std::{net::IpAddr, time::Duration};

use evb_net::{
    clock::now,
    pacing::{Offload, Proof, Software, Transport, Trial, choose, prove},
};

use crate::machine::{Miss, ensure, held, in_time};
use crate::place::{OURS, Place, THEIRS, run, skip};

fn trial(from: impl Into<IpAddr>, to: impl Into<IpAddr>) -> Trial {
    Trial::new(Transport::Udp, from, to)
}

fn loopback() -> Trial {
    trial([127, 0, 0, 1], [127, 0, 0, 1])
}

/// Checks that the proof has seen datagrams leave before their departure times.
fn not_held(proof: &Proof) -> Result<(), Miss> {
    assert!(!proof.held, "{proof}");
    ensure(proof.why.contains("left before their time"), || proof.to_string())
}

#[test]
fn without_fq_departure_times_are_not_claimed() {
    const TEST: &str = "without_fq_departure_times_are_not_claimed";
    let Some(_place) = Place::enter(TEST) else { return };
    in_time(TEST, || {
        let began = now();
        let choice = choose(None, Software::timer(), &[loopback()]).unwrap();
        let took = now().since(began);
        println!("without fq: {} in {took:?}", choice.reason);
        assert_eq!(choice.executor.offload(), Offload::Software);
        ensure(choice.reason.contains("txtime does not work on lo"), || choice.reason)?;
        ensure(took < Duration::from_secs(1), || format!("it took {took:?}"))
    });
    let refused = choose(Some(Offload::Txtime), Software::timer(), &[loopback()]).unwrap_err();
    assert!(refused.to_string().contains("tc qdisc replace dev lo root fq"), "{refused}");
}

#[test]
fn with_fq_they_are_and_no_longer_when_it_is_gone() {
    const TEST: &str = "with_fq_they_are_and_no_longer_when_it_is_gone";
    let Some(_place) = Place::enter(TEST) else { return };
    if let Err(missing) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let choice = choose(None, Software::timer(), &[loopback()]).unwrap();
        println!("with fq: {}", choice.reason);
        ensure(choice.executor.offload() == Offload::Txtime, || choice.reason)
    });
    run("tc qdisc delete dev lo root").unwrap();
    in_time(TEST, || {
        let choice = choose(None, Software::timer(), &[loopback()]).unwrap();
        assert_eq!(choice.executor.offload(), Offload::Software, "{}", choice.reason);
        ensure(choice.reason.contains("left before their time"), || choice.reason)
    });
}

#[test]
fn over_ipv6_it_is_the_same() {
    const TEST: &str = "over_ipv6_it_is_the_same";
    let Some(_place) = Place::enter(TEST) else { return };
    let here = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    if let Err(missing) = evb_needs::ipv6() {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        not_held(&prove(Offload::Txtime, &trial(here, here)))?;
        held(&prove(Offload::PacingRate, &Trial { transport: Transport::Tcp, ..trial(here, here) }))
    });
    if let Err(missing) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &missing);
    }
    for offload in [Offload::Txtime, Offload::PacingRate] {
        in_time(TEST, || {
            let proof = prove(offload, &trial(here, here));
            println!("IPv6 below fq: {proof}");
            held(&proof)
        });
    }
}

#[test]
fn a_discipline_that_does_not_know_departure_times_is_not_believed() {
    const TEST: &str = "a_discipline_that_does_not_know_departure_times_is_not_believed";
    let Some(mut place) = Place::enter(TEST) else { return };
    if let Err(missing) = place.lay_cable(1).and_then(|()| run("tc qdisc replace dev cable0 root pfifo")) {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let proof = prove(Offload::Txtime, &trial(OURS, THEIRS));
        println!("pfifo: {proof}");
        assert_eq!(proof.device.as_deref(), Some("cable0"));
        assert_eq!(
            proof.remedy.as_deref(),
            Some(
                "tc qdisc replace dev cable0 root fq, as root (if the kernel does not know fq: modprobe sch_fq)"
            )
        );
        not_held(&proof)
    });
}

#[test]
fn towards_another_host_the_kernel_tells_when_they_left() {
    const TEST: &str = "towards_another_host_the_kernel_tells_when_they_left";
    let Some(mut place) = Place::enter(TEST) else { return };
    if let Err(missing) = place.lay_cable(1).and_then(|()| run("tc qdisc replace dev cable0 root fq")) {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let proof = prove(Offload::Txtime, &trial(OURS, THEIRS));
        println!("fq on a cable: {proof}");
        assert!(proof.why.contains("watched in the kernel"), "{proof}");
        held(&proof)
    });
}

#[test]
fn fq_on_some_of_the_queues_is_not_enough() {
    const TEST: &str = "fq_on_some_of_the_queues_is_not_enough";
    let Some(mut place) = Place::enter(TEST) else { return };
    let made = place
        .lay_cable(2)
        .and_then(|()| run("tc qdisc replace dev cable0 root handle 1: mq"))
        .and_then(|()| run("tc qdisc replace dev cable0 parent 1:1 fq"));
    if let Err(missing) = made {
        return skip(TEST, &missing);
    }
    let some = prove(Offload::Txtime, &trial(OURS, THEIRS));
    println!("fq on one of two queues: {some}");
    assert!(!some.held && some.why.contains("others have pfifo_fast"), "{some}");
    assert!(some.remedy.is_some_and(|remedy| remedy.contains("root mq")));
    run("tc qdisc replace dev cable0 parent 1:2 fq").unwrap();
    in_time(TEST, || {
        let all = prove(Offload::Txtime, &trial(OURS, THEIRS));
        println!("fq on both: {all}");
        held(&all)
    });
}
