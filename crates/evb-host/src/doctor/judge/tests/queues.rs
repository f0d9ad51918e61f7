use std::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_net::{
    host::{
        Unavailable,
        qdisc::{Etf, Place, Qdisc, QdiscOptions},
    },
    pacing::{Offload, Transport},
};

use super::{
    Facts, Verdict, bad, better, finding, good,
    made_up::{facts, proved, qdisc},
    verdict,
};
use crate::doctor::facts::Proved;

const FQ: &str = "tc qdisc replace dev eth0 root fq";
const NONE: &str = "tc qdisc del dev eth0 root";

fn with(qdiscs: Vec<Qdisc>) -> Facts {
    let mut facts = facts();
    facts.devices[0].qdiscs = Ok(qdiscs);
    facts
}

fn plain(kind: &str) -> Qdisc {
    qdisc(kind, QdiscOptions::NotRead)
}

#[test]
fn only_fq_holds_packets_back() {
    for kind in ["pfifo_fast", "fq_codel", "noqueue"] {
        assert_eq!(verdict(&with(vec![plain(kind)]), "qdisc"), better(FQ), "{kind}");
    }
    let mut facts = with(vec![plain("pfifo_fast")]);
    facts.devices[0].fq_exists = Ok(false);
    assert_eq!(verdict(&facts, "qdisc"), (Verdict::Better, None), "no command can install fq on this kernel");
    facts.devices[0].fq_exists = Err(Unavailable::new("unknown"));
    assert_eq!(verdict(&facts, "qdisc"), better(FQ));
    facts.demand.as_mut().unwrap().is_paced = false;
    assert_eq!(verdict(&facts, "qdisc"), good(), "lanes without a pace do not need fq");
}

#[test]
fn all_queues_of_a_device_must_have_fq() {
    let below = |kind: &str, minor| Qdisc { place: Place::Below { major: 0x8001, minor }, ..plain(kind) };
    let two = |a, b| with(vec![plain("mq"), below(a, 1), below(b, 2)]);
    assert_eq!(verdict(&two("fq", "fq"), "qdisc"), good());
    let each = "sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev eth0 root mq";
    assert_eq!(verdict(&two("fq", "pfifo_fast"), "qdisc"), better(each));
    assert_eq!(finding(&two("fq", "fq"), "qdisc").value, "mq, below it 2 fq");
    assert_eq!(verdict(&with(vec![plain("mq")]), "qdisc"), better(each));
}

#[test]
fn etf_as_root_drops_all_else() {
    let etf = |skip_sock_check| {
        let options = Etf {
            clock: 11,
            delta: Duration::from_micros(200),
            offload: false,
            deadline_mode: false,
            skip_sock_check,
        };
        with(vec![qdisc("etf", QdiscOptions::Etf(options))])
    };
    assert_eq!(verdict(&etf(false), "qdisc"), bad(NONE));
    assert_eq!(verdict(&etf(true), "qdisc").0, Verdict::Better);
}

#[test]
fn a_bucket_must_pass_what_the_configuration_counts_on() {
    let tbf = |megabits: u64| {
        let rate = Rate::from_bits_per_second(megabits * 1_000_000);
        with(vec![qdisc("tbf", QdiscOptions::Tbf { rate, burst: Bytes::kib(16), limit: Bytes::kib(128) })])
    };
    assert_eq!(verdict(&tbf(1000), "qdisc"), good());
    assert_eq!(verdict(&tbf(999), "qdisc"), bad(NONE));
    let mut free = tbf(999);
    free.demand = None;
    assert_eq!(verdict(&free, "qdisc"), (Verdict::Unknown, None));
}

#[test]
fn what_decides_elsewhere_is_not_judged() {
    assert_eq!(verdict(&with(vec![plain("htb")]), "qdisc"), (Verdict::Unknown, None));
    assert_eq!(verdict(&with(vec![plain("netem")]), "qdisc"), better(NONE));
    assert!(finding(&with(Vec::new()), "qdisc").unavailable);
}

#[test]
fn txqueuelen_counts_where_it_is_used() {
    let mut facts = with(vec![plain("pfifo_fast")]);
    assert_eq!(verdict(&facts, "txqueuelen"), good());
    facts.devices[0].link.queue_length = Some(999);
    assert_eq!(verdict(&facts, "txqueuelen"), better("ip link set eth0 txqueuelen 1000"));
    facts.devices[0].qdiscs = Ok(vec![plain("fq")]);
    assert_eq!(verdict(&facts, "txqueuelen"), good());
}

#[test]
fn departure_times_must_have_come_true() {
    let mut facts = with(vec![plain("pfifo_fast")]);
    facts.devices[0].proofs = Ok(vec![proved(Offload::Software, true), proved(Offload::Txtime, false)]);
    assert_eq!(verdict(&facts, "offload"), better(FQ));
    assert_eq!(
        finding(&facts, "offload").value,
        "evb's timers keep times within 40.0 µs, txtime (UDP) does not work"
    );
    facts.devices[0].qdiscs = Ok(vec![plain("fq")]);
    assert_eq!(
        verdict(&facts, "offload"),
        (Verdict::Better, None),
        "fq is installed already, and the offload fails"
    );
    facts.devices[0].qdiscs = Ok(vec![plain("htb")]);
    assert_eq!(
        verdict(&facts, "offload"),
        (Verdict::Better, None),
        "a discipline that was installed on purpose stays"
    );
    facts.devices[0].proofs = Ok(vec![proved(Offload::Etf, true)]);
    assert_eq!(verdict(&facts, "offload"), good());
}

/// Facts of a host whose lanes have a pace and use the transport `lanes`. The offload `PacingRate`
/// works for the transport `tested`; `None`: it was not tested.
fn pacing_rate_host(lanes: Transport, tested: Option<Transport>) -> Facts {
    let mut facts = with(vec![plain("pfifo_fast")]);
    facts.demand.as_mut().unwrap().by_datagrams = lanes == Transport::Udp;
    if let Some(transport) = tested {
        facts.devices[0].proofs = Ok(vec![Proved { transport, ..proved(Offload::PacingRate, true) }]);
    }
    facts
}

#[test]
fn the_offload_that_the_configuration_asks_for_must_work_for_its_transport() {
    let asked = |lanes, tested| {
        let mut facts = pacing_rate_host(lanes, tested);
        facts.demand.as_mut().unwrap().offload = Some(Offload::PacingRate);
        verdict(&facts, "offload")
    };
    assert_eq!(asked(Transport::Udp, None), bad(FQ), "what was not tested does not count as working");
    assert_eq!(asked(Transport::Udp, Some(Transport::Udp)), good());
    assert_eq!(asked(Transport::Tcp, Some(Transport::Udp)), bad(FQ));
}

#[test]
fn without_a_requested_offload_that_of_the_kernel_should_work_for_the_transport() {
    let not_asked = |lanes, tested| verdict(&pacing_rate_host(lanes, Some(tested)), "offload");
    assert_eq!(not_asked(Transport::Tcp, Transport::Udp), better(FQ));
    assert_eq!(not_asked(Transport::Tcp, Transport::Tcp), good());
}

#[test]
fn a_token_bucket_must_be_provisioned() {
    let mut facts = with(vec![plain("htb")]);
    facts.demand.as_mut().unwrap().offload = Some(Offload::Tbf);
    facts.devices[0].proofs = Ok(vec![proved(Offload::Tbf, false)]);
    assert_eq!(verdict(&facts, "offload"), bad("evbd provision CONFIG apply --device eth0"));
    facts.devices[0].proofs = Ok(vec![proved(Offload::Tbf, true)]);
    assert_eq!(verdict(&facts, "offload"), good());
}

#[test]
fn unpaced_lanes_need_no_departure_times() {
    let mut facts = with(vec![plain("pfifo_fast")]);
    facts.devices[0].proofs = Ok(vec![proved(Offload::Txtime, false)]);
    facts.demand.as_mut().unwrap().is_paced = false;
    assert_eq!(verdict(&facts, "offload"), good());
}
