use evb_core::units::Rate;
use evb_net::host::Unavailable;

use super::{Verdict, bad, better, finding, good, made_up::facts, verdict};
use crate::ethtool::{Feature, Line, Rings};

const OFF: Feature = Feature { on: false, fixed: false };

#[test]
fn a_link_must_be_up() {
    let mut facts = facts();
    facts.devices[0].link.carrier = Some(false);
    assert_eq!(verdict(&facts, "link"), (Verdict::Bad, None));
    facts.devices[0].link.up = false;
    assert_eq!(verdict(&facts, "link"), bad("ip link set eth0 up"));
}

#[test]
fn a_line_must_be_as_fast_as_the_configuration_says() {
    let mut facts = facts();
    let line = |megabits: u64, full_duplex| {
        Ok(Line { rate: Some(Rate::from_bits_per_second(megabits * 1_000_000)), full_duplex })
    };
    facts.devices[0].line = line(10_000, Some(true));
    assert_eq!(verdict(&facts, "speed"), good());
    facts.devices[0].line = line(999, Some(true));
    assert_eq!(verdict(&facts, "speed"), (Verdict::Bad, None));
    facts.devices[0].line = line(1000, Some(false));
    assert_eq!(verdict(&facts, "speed"), bad("ethtool -s eth0 duplex full autoneg on"));
    facts.devices[0].line = Ok(Line { rate: None, full_duplex: None });
    let unknown = finding(&facts, "speed");
    assert_eq!((unknown.verdict, unknown.unavailable), (Verdict::Unknown, true));
    assert_eq!(
        unknown.value,
        "not available, which stops no run: its driver reports no speed: see that the link is up, and write its rate as link_rate in [network]"
    );
    facts.demand = None;
    facts.devices[0].line = line(100, Some(true));
    assert_eq!(verdict(&facts, "speed"), good());
}

#[test]
fn nobody_keeps_the_speed_of_a_veth() {
    let mut facts = facts();
    facts.devices[0].link.kind = Some("veth".into());
    facts.devices[0].line =
        Ok(Line { rate: Some(Rate::from_bits_per_second(1_000_000)), full_duplex: Some(false) });
    assert_eq!(verdict(&facts, "speed"), (Verdict::Unknown, None));
}

#[test]
fn packets_must_fit_into_the_device() {
    let mut facts = facts();
    facts.devices[0].link.mtu = Some(9000);
    assert_eq!(verdict(&facts, "MTU"), good());
    facts.devices[0].link.mtu = Some(1499);
    assert_eq!(verdict(&facts, "MTU"), bad("ip link set eth0 mtu 1500"));
    facts.demand.as_mut().unwrap().by_datagrams = false;
    assert_eq!(verdict(&facts, "MTU"), better("ip link set eth0 mtu 1500"), "TCP sends smaller packets");
    facts.demand = None;
    assert_eq!(verdict(&facts, "MTU"), good());
}

#[test]
fn offloads_can_be_switched_on_unless_they_are_fixed() {
    let mut facts = facts();
    let offloads = facts.devices[0].offloads.as_mut().unwrap();
    (offloads.tso, offloads.udp) = (OFF, None);
    assert_eq!(verdict(&facts, "offloads"), good(), "the kernel segments trains nearly as well");
    facts.devices[0].offloads.as_mut().unwrap().gro = OFF;
    assert_eq!(verdict(&facts, "offloads"), better("ethtool -K eth0 gro on"));
    facts.devices[0].offloads.as_mut().unwrap().gso = OFF;
    assert_eq!(verdict(&facts, "offloads"), better("ethtool -K eth0 gso on gro on"));
    let fixed = Feature { on: false, fixed: true };
    let offloads = facts.devices[0].offloads.as_mut().unwrap();
    (offloads.gso, offloads.gro) = (fixed, fixed);
    assert_eq!(verdict(&facts, "offloads"), (Verdict::Better, None));
}

#[test]
fn interrupts_must_not_take_the_round_trip() {
    let mut facts = facts();
    // At 1 Gbit/s, 117964 B take 943 µs, and each of the two interrupt delays may take an eighth of
    // this time.
    let set = |facts: &mut super::Facts, micros, packets, adaptive| {
        let coalescing = facts.devices[0].coalescing.as_mut().unwrap();
        (coalescing.receive_micros, coalescing.receive_packets) = (micros, packets);
        coalescing.adaptive_receive = adaptive;
    };
    set(&mut facts, 117, 64, false);
    assert_eq!(verdict(&facts, "coalescing"), good());
    set(&mut facts, 119, 64, false);
    let command = "ethtool -C eth0 adaptive-rx off rx-usecs 10";
    assert_eq!(verdict(&facts, "coalescing"), better(command));
    set(&mut facts, 119, 1, false);
    assert_eq!(verdict(&facts, "coalescing"), good(), "the first packet interrupts");
    set(&mut facts, 3, 64, true);
    assert_eq!(
        verdict(&facts, "coalescing"),
        better(command),
        "the delay that an adaptive driver chooses is unknown"
    );
    facts.demand = None;
    set(&mut facts, 21, 64, false);
    assert_eq!(verdict(&facts, "coalescing"), better(command));
}

#[test]
fn a_ring_must_hold_what_may_come_at_once() {
    let mut facts = facts();
    let rings = |receive| Ok(Rings { receive, receive_most: 4096, send: 256, send_most: 4096 });
    // 79 packets of 1500 B exceed the budget of 117964 B.
    facts.devices[0].rings = rings(79);
    assert_eq!(verdict(&facts, "rings"), good());
    facts.devices[0].rings = rings(78);
    assert_eq!(verdict(&facts, "rings"), better("ethtool -G eth0 rx 4096"));
    facts.devices[0].rings = rings(4096);
    facts.demand.as_mut().unwrap().port_buffer = None;
    assert_eq!(verdict(&facts, "rings"), good());
    facts.devices[0].rings = rings(2048);
    assert_eq!(
        verdict(&facts, "rings"),
        better("ethtool -G eth0 rx 4096"),
        "without a known port buffer the ring must be as large as possible"
    );
}

#[test]
fn pauses_are_not_needed() {
    let mut facts = facts();
    facts.devices[0].pause.as_mut().unwrap().obeys = true;
    facts.devices[0].pause_counters = Ok(vec![("rx_pause".into(), 17)]);
    let found = finding(&facts, "pause frames");
    assert_eq!(found.value, "obeys them: on, sends them: off, as negotiated, rx_pause 17");
    assert_eq!((found.verdict, found.command), better("ethtool -A eth0 autoneg off rx off tx off"));
}

#[test]
fn the_loopback_is_no_hardware() {
    let mut facts = facts();
    let device = &mut facts.devices[0];
    device.link.loopback = true;
    device.rings = Err(Unavailable::new("not supported by this device's driver"));
    device.qdiscs = Ok(vec![super::made_up::qdisc("noqueue", evb_net::host::qdisc::QdiscOptions::NotRead)]);
    assert_eq!(
        finding(&facts, "rings").value,
        "not available, which stops no run: the loopback is no hardware: nothing needs to be done"
    );
    assert_eq!(verdict(&facts, "qdisc"), good());
    facts.devices[0].link.loopback = false;
    assert_eq!(verdict(&facts, "qdisc"), better("tc qdisc replace dev eth0 root fq"));
}
