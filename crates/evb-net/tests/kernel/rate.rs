//! Rates that the kernel keeps: those of sockets, and those of token buckets.

use evb_core::units::Rate;
use evb_net::pacing::{Offload, Software, Transport, Trial, choose, prove};

use crate::place::{OURS, Place, THEIRS, run, skip};

fn loopback(transport: Transport) -> Trial {
    Trial { transport, from: [127, 0, 0, 1].into(), to: [127, 0, 0, 1].into(), priority: None, rate: None }
}

fn cable(rate: u64) -> Trial {
    Trial {
        transport: Transport::Udp,
        from: OURS.into(),
        to: THEIRS.into(),
        priority: None,
        rate: Some(Rate::from_bits_per_second(rate)),
    }
}

#[test]
fn a_tcp_socket_keeps_its_rate_without_fq() {
    let Some(_place) = Place::enter("a_tcp_socket_keeps_its_rate_without_fq") else { return };
    let proof = prove(Offload::PacingRate, &loopback(Transport::Tcp));
    println!("TCP without fq: {proof}");
    assert!(proof.held, "{proof}");
}

#[test]
fn a_tcp_socket_keeps_its_rate_below_fq() {
    const TEST: &str = "a_tcp_socket_keeps_its_rate_below_fq";
    let Some(_place) = Place::enter(TEST) else { return };
    if let Err(reason) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &reason);
    }
    let proof = prove(Offload::PacingRate, &loopback(Transport::Tcp));
    println!("TCP below fq: {proof}");
    assert!(proof.held, "{proof}");
}

#[test]
fn a_udp_socket_keeps_its_rate_below_fq_alone() {
    const TEST: &str = "a_udp_socket_keeps_its_rate_below_fq_alone";
    let Some(_place) = Place::enter(TEST) else { return };
    let without = prove(Offload::PacingRate, &loopback(Transport::Udp));
    println!("UDP without fq: {without}");
    assert!(!without.held, "{without}");
    if let Err(reason) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &reason);
    }
    let with = prove(Offload::PacingRate, &loopback(Transport::Udp));
    println!("UDP below fq: {with}");
    assert!(with.held, "{with}");
}

#[test]
fn a_token_bucket_is_known_by_its_rate() {
    const TEST: &str = "a_token_bucket_is_known_by_its_rate";
    let Some(mut place) = Place::enter(TEST) else { return };
    let made = place
        .lay_cable(1)
        .and_then(|()| run("tc qdisc replace dev cable0 root tbf rate 20mbit burst 8k limit 400k"));
    if let Err(reason) = made {
        return skip(TEST, &reason);
    }
    let right = prove(Offload::Tbf, &cable(20_000_000));
    println!("tbf: {right}");
    assert!(right.held, "{right}");
    let wrong = prove(Offload::Tbf, &cable(10_000_000));
    assert!(!wrong.held, "{wrong}");
    let choice = choose(None, Software::timer(), &[cable(20_000_000)]).unwrap();
    assert_eq!(choice.executor.offload(), Offload::Tbf, "{}", choice.reason);
    run("tc qdisc delete dev cable0 root").unwrap();
    let gone = prove(Offload::Tbf, &cable(20_000_000));
    assert!(!gone.held, "{gone}");
}
