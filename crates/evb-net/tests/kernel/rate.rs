//! Rates that the kernel keeps: the rates of sockets and of token buckets.

use evb_core::units::Rate;
use evb_net::pacing::{Offload, Software, Transport, Trial, choose, prove};

use crate::machine::{ensure, held, in_time};
use crate::place::{OURS, Place, THEIRS, run, skip};

fn loopback(transport: Transport) -> Trial {
    Trial::new(transport, [127, 0, 0, 1], [127, 0, 0, 1])
}

fn cable(rate: u64) -> Trial {
    let rate = Some(Rate::from_bits_per_second(rate));
    Trial { rate, ..Trial::new(Transport::Udp, OURS, THEIRS) }
}

#[test]
fn a_tcp_socket_keeps_its_rate_without_fq() {
    const TEST: &str = "a_tcp_socket_keeps_its_rate_without_fq";
    let Some(_place) = Place::enter(TEST) else { return };
    in_time(TEST, || {
        let proof = prove(Offload::PacingRate, &loopback(Transport::Tcp));
        println!("TCP without fq: {proof}");
        held(&proof)
    });
}

#[test]
fn a_tcp_socket_keeps_its_rate_below_fq() {
    const TEST: &str = "a_tcp_socket_keeps_its_rate_below_fq";
    let Some(_place) = Place::enter(TEST) else { return };
    if let Err(missing) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let proof = prove(Offload::PacingRate, &loopback(Transport::Tcp));
        println!("TCP below fq: {proof}");
        held(&proof)
    });
}

#[test]
fn a_udp_socket_keeps_its_rate_below_fq_alone() {
    const TEST: &str = "a_udp_socket_keeps_its_rate_below_fq_alone";
    let Some(_place) = Place::enter(TEST) else { return };
    let without = prove(Offload::PacingRate, &loopback(Transport::Udp));
    println!("UDP without fq: {without}");
    assert!(!without.held, "{without}");
    if let Err(missing) = run("tc qdisc replace dev lo root fq") {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let with = prove(Offload::PacingRate, &loopback(Transport::Udp));
        println!("UDP below fq: {with}");
        held(&with)
    });
}

#[test]
fn a_token_bucket_is_known_by_its_rate() {
    const TEST: &str = "a_token_bucket_is_known_by_its_rate";
    let Some(mut place) = Place::enter(TEST) else { return };
    let made = place
        .lay_cable(1)
        .and_then(|()| run("tc qdisc replace dev cable0 root tbf rate 20mbit burst 8k limit 400k"));
    if let Err(missing) = made {
        return skip(TEST, &missing);
    }
    in_time(TEST, || {
        let right = prove(Offload::Tbf, &cable(20_000_000));
        println!("tbf: {right}");
        held(&right)?;
        let wrong = prove(Offload::Tbf, &cable(10_000_000));
        ensure(!wrong.held, || wrong.to_string())?;
        let choice = choose(None, Software::timer(), &[cable(20_000_000)]).unwrap();
        ensure(choice.executor.offload() == Offload::Tbf, || choice.reason)
    });
    run("tc qdisc delete dev cable0 root").unwrap();
    let gone = prove(Offload::Tbf, &cable(20_000_000));
    assert!(!gone.held, "{gone}");
}

/// Sets up token buckets as `evbd provision` does: one class for each destination and port, and a
/// class for all other packets.
#[test]
fn a_class_for_one_port_is_known_by_its_rate_there_alone() {
    const TEST: &str = "a_class_for_one_port_is_known_by_its_rate_there_alone";
    const PORT: u16 = 7101;
    let Some(mut place) = Place::enter(TEST) else { return };
    let lay = |rate: &str, burst: &str| {
        run("tc qdisc replace dev cable0 root handle e7b: htb default 5")?;
        run(
            "tc class replace dev cable0 parent e7b: classid e7b:1 htb rate 1gbit ceil 1gbit burst 40k cburst 40k",
        )?;
        run(&format!(
            "tc class replace dev cable0 parent e7b:1 classid e7b:100 htb rate {rate} ceil {rate} burst {burst} cburst {burst}"
        ))?;
        run(
            "tc class replace dev cable0 parent e7b:1 classid e7b:5 htb rate 10mbit ceil 1gbit burst 40k cburst 40k",
        )?;
        run(&format!(
            "tc filter replace dev cable0 parent e7b: protocol ip prio 10 u32 match ip dst {THEIRS}/32 \
             match ip dport {PORT} 0xffff flowid e7b:100"
        ))
    };
    if let Err(missing) = place.lay_cable(1).and_then(|()| run("tc qdisc add dev cable0 root htb")) {
        return skip(TEST, &missing);
    }
    run("tc qdisc delete dev cable0 root").unwrap();
    for (rate, words, burst) in
        [(20, "20mbit", "6k"), (100, "100mbit", "6k"), (300, "300mbit", "10k"), (900, "900mbit", "24k")]
    {
        lay(words, burst).unwrap();
        let there = Trial { port: Some(PORT), ..cable(rate * 1_000_000) };
        in_time(TEST, || {
            let proof = prove(Offload::Tbf, &there);
            println!("htb {words}: {proof}");
            if proof.undecided && rate >= 100 {
                // A machine that cannot send at such a rate must report that it is too slow.
                return ensure(proof.why.contains("too slow to tell"), || proof.to_string());
            }
            held(&proof)?;
            let elsewhere = prove(Offload::Tbf, &Trial { port: Some(PORT + 1), ..there });
            ensure(!elsewhere.held, || elsewhere.to_string())
        });
        run("tc qdisc delete dev cable0 root").unwrap();
    }
}
