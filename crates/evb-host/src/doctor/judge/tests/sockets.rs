use evb_core::units::Bytes;

use super::{Verdict, bad, better, good, made_up::facts, verdict};
use crate::socket_buffers::Asked;

#[test]
fn a_receive_buffer_that_was_asked_for_must_be_got() {
    let mut facts = facts();
    facts.sockets.receive =
        Ok(Asked { asked: Bytes::mib(8), got: Bytes::mib(8).saturating_sub(Bytes::new(1)) });
    let command = "sysctl -w net.core.rmem_max=8388608";
    assert_eq!(verdict(&facts, "receive buffer"), bad(command));
    facts.demand.as_mut().unwrap().receive_buffer = None;
    assert_eq!(verdict(&facts, "receive buffer"), better(command), "a larger buffer would help datagrams");
    facts.demand.as_mut().unwrap().by_datagrams = false;
    assert_eq!(verdict(&facts, "receive buffer"), good(), "TCP does not need it");
    facts.demand = None;
    assert_eq!(verdict(&facts, "receive buffer"), better(command));
}

#[test]
fn a_send_buffer_likewise() {
    let mut facts = facts();
    facts.sockets.send = Ok(Asked { asked: Bytes::mib(8), got: Bytes::kib(208) });
    let command = "sysctl -w net.core.wmem_max=8388608";
    assert_eq!(verdict(&facts, "send buffer"), better(command));
    facts.demand.as_mut().unwrap().send_buffer = Some(Bytes::mib(8));
    assert_eq!(verdict(&facts, "send buffer"), bad(command));
}

#[test]
fn tcp_must_be_able_to_have_a_lanes_share_under_way() {
    let mut facts = facts();
    // A lane may have 32 KiB under way, so that TCP's buffers need 65 536 B.
    facts.sockets.tcp_receive = Ok([4096, 131_072, 65_536]);
    facts.sockets.tcp_send = Ok([4096, 16_384, 65_535]);
    assert_eq!(verdict(&facts, "TCP receive limit"), good());
    let command = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 65536\"";
    assert_eq!(verdict(&facts, "TCP send limit"), better(command));
}

#[test]
fn the_congestion_control_asked_for_is_to_be_had() {
    let mut facts = facts();
    facts.sockets.congestion.got = Ok("bbr".into());
    assert_eq!(
        verdict(&facts, "congestion control"),
        (Verdict::Better, None),
        "the congestion control is allowed already"
    );
    facts.sockets.congestion.allowed = Ok("reno".into());
    let allow = "sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic\"";
    assert_eq!(verdict(&facts, "congestion control"), better(allow));
    facts.demand.as_mut().unwrap().congestion_control = Some("cubic".into());
    assert_eq!(verdict(&facts, "congestion control"), bad(allow));
    facts.sockets.congestion.available = Ok("reno bbr".into());
    assert_eq!(verdict(&facts, "congestion control"), bad("modprobe tcp_cubic"));
    facts.sockets.congestion.asked = "bbr".into();
    assert_eq!(
        verdict(&facts, "congestion control"),
        (Verdict::Better, None),
        "BBR is in use and reaches a lower rate"
    );
}

#[test]
fn trains_to_near_hosts_matter_to_paced_tcp() {
    let mut facts = facts();
    facts.sockets.tso_rtt_log = Ok(9);
    assert_eq!(verdict(&facts, "tcp_tso_rtt_log"), good(), "these lanes are datagrams");
    facts.demand.as_mut().unwrap().by_datagrams = false;
    let command = "sysctl -w net.ipv4.tcp_tso_rtt_log=0";
    assert_eq!(verdict(&facts, "tcp_tso_rtt_log"), better(command));
    facts.demand.as_mut().unwrap().is_paced = false;
    assert_eq!(verdict(&facts, "tcp_tso_rtt_log"), good(), "these lanes are not paced");
    facts.demand = None;
    assert_eq!(verdict(&facts, "tcp_tso_rtt_log"), better(command));
}
