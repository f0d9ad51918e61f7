use evb_config::ShapingMode;
use evb_core::units::{Bytes, Rate};
use evb_net::host::{Unavailable, echo::Echo};

use super::{
    super::super::facts::Echoes,
    Verdict, bad, finding, good,
    made_up::{facts, late},
    verdict,
};

#[test]
fn full_packets_must_come_through() {
    let mut facts = facts();
    facts.paths[0].mtu = Ok(9000);
    assert_eq!(verdict(&facts, "path MTU"), good());
    facts.paths[0].full_size = Some(Ok(Echo::Silence));
    assert_eq!(verdict(&facts, "path MTU"), bad("ip link set eth0 mtu 1500"));
    facts.paths[0].full_size = Some(Err(Unavailable::new("no permission")));
    assert_eq!(verdict(&facts, "path MTU"), good(), "without a test the path counts as good");
}

#[test]
fn the_path_must_take_what_the_configuration_says() {
    let mut facts = facts();
    facts.paths[0].mtu = Ok(1400);
    assert_eq!(verdict(&facts, "path MTU"), (Verdict::Bad, None), "datagrams are lost");
    facts.demand.as_mut().unwrap().by_datagrams = false;
    assert_eq!(verdict(&facts, "path MTU"), (Verdict::Better, None), "TCP sends smaller packets");
    facts.paths[0].is_here = true;
    assert_eq!(verdict(&facts, "path MTU"), good());
}

#[test]
fn silence_proves_nothing() {
    let mut facts = facts();
    facts.paths[0].echoes = Ok(Echoes { sent: 3, times: None });
    facts.paths[0].full_size = None;
    assert_eq!(verdict(&facts, "path MTU"), (Verdict::Unknown, None));
    let silent = finding(&facts, "round trip");
    assert_eq!((silent.verdict, silent.unavailable), (Verdict::Unknown, true));
    // The ratio lacks the network's delay, so that the verdict cannot be good.
    let partial = finding(&facts, "R·C/L");
    assert_eq!((partial.verdict, partial.unavailable), (Verdict::Unknown, false));
    assert_eq!(partial.data["with_network"], false);
}

#[test]
fn a_lost_ping_is_a_lost_packet() {
    let mut facts = facts();
    facts.paths[0].echoes.as_mut().unwrap().sent = 21;
    assert_eq!(verdict(&facts, "round trip"), (Verdict::Better, None));
}

#[test]
fn a_peer_without_address_is_never_met() {
    let mut facts = facts();
    facts.unresolved = vec![("daq9".into(), "no such name".into())];
    assert_eq!(verdict(&facts, "peer"), bad("getent hosts daq9"));
}

#[test]
fn the_budget_must_fill_the_line_for_the_round_trip() {
    let mut facts = facts();
    // In the 100 µs of the ping and 10 µs of the exchange between threads, the line carries 13750
    // B.
    let ratio = |facts: &super::Facts| finding(facts, "R·C/L").data["ratio"].as_f64().unwrap();
    assert!((ratio(&facts) - 13_750.0 / 117_964.0).abs() < 1e-9);
    let mut set = |bytes| {
        facts.demand.as_mut().unwrap().under_way = Some(Bytes::new(bytes));
        verdict(&facts, "R·C/L")
    };
    assert_eq!(set(27_500), good());
    assert_eq!(set(27_499), (Verdict::Better, None));
    assert_eq!(set(13_751), (Verdict::Better, None));
    assert_eq!(set(13_750), (Verdict::Bad, None));
}

#[test]
fn the_farthest_peer_counts() {
    let mut facts = facts();
    let mut far = facts.paths[0].clone();
    far.address = [10, 0, 0, 3].into();
    far.echoes.as_mut().unwrap().times = Some(late(900, 1000));
    facts.paths.push(far);
    let found = super::judge(&facts).into_iter().find(|finding| finding.name == "R·C/L").unwrap();
    assert!(
        found.value.contains(
            "data come 910 µs after a builder asks a source for them (R), measured by ping to 10.0.0.3"
        ),
        "{}",
        found.value
    );
}

#[test]
fn on_one_host_the_turn_is_all() {
    let mut facts = facts();
    facts.paths[0].is_here = true;
    let found = finding(&facts, "R·C/L");
    assert_eq!((found.verdict, &found.data["round_trip_us"]), (Verdict::Good, &10.0.into()));
}

#[test]
fn where_nothing_waits_for_a_round_trip_there_is_no_ratio() {
    let mut facts = facts();
    let demand = facts.demand.as_mut().unwrap();
    (demand.mode, demand.under_way) = (ShapingMode::None, None);
    let found = finding(&facts, "R·C/L");
    assert_eq!(
        found.value,
        "not available, which stops no run: with mode = \"none\" no source waits for a builder to ask for data, so nothing needs to be done"
    );
    let demand = facts.demand.as_mut().unwrap();
    (demand.under_way, demand.link_rate) = (Some(Bytes::kib(64)), None::<Rate>);
    assert_eq!(
        finding(&facts, "R·C/L").value,
        "not available, which stops no run: the configuration states no link_rate; add it to [network]"
    );
}

#[test]
fn the_grant_path_is_a_turn_by_stage_and_the_network() {
    let mut facts = facts();
    let found = finding(&facts, "grant path");
    // The exchange of 10 µs has stages of 1, 3, 2 and 3 µs; the ping takes 100 µs.
    assert_eq!(
        (&found.data["first_byte"]["p50"], &found.data["derived_rest"]["p50"]),
        (&110.0.into(), &101.0.into())
    );
    assert_eq!(found.data["with_network"], true);
    for (stage, p50, p99) in [
        ("builder_write", 1.0, 4.0),
        ("source_wake_up", 3.0, 9.0),
        ("source_answer", 2.0, 5.0),
        ("builder_wake_up", 3.0, 8.0),
    ] {
        let of = &found.data[stage];
        assert_eq!((&of["p50"], &of["p99"]), (&p50.into(), &p99.into()), "{stage}");
    }
    assert_eq!(super::super::grant_path(&super::judge(&facts)), Some(&found.data));
    // The budget is one byte smaller than the number of bytes that the line carries in the 99th
    // percentile of the path.
    let p99 = found.data["first_byte"]["p99"].as_f64().unwrap();
    facts.demand.as_mut().unwrap().under_way = Some(Bytes::new((p99 * 125.0) as u64 - 1));
    assert_eq!(verdict(&facts, "grant path"), (Verdict::Better, None));

    facts.paths[0].echoes.as_mut().unwrap().times = None;
    let found = finding(&facts, "grant path");
    assert_eq!(
        (&found.data["first_byte"]["p50"], &found.data["with_network"]),
        (&10.0.into(), &false.into())
    );
    facts.paths[0].is_here = true;
    assert_eq!(
        finding(&facts, "grant path").data["with_network"],
        true,
        "on one host the path has no network part"
    );
}

#[test]
fn without_receive_times_there_is_no_grant_path() {
    let mut facts = facts();
    facts.turn.as_mut().unwrap().stages = Err(Unavailable::new("not on this system"));
    let found = finding(&facts, "grant path");
    assert_eq!(
        (found.value.as_str(), found.data.is_null()),
        ("not available, which stops no run: not on this system", true)
    );
    assert_eq!(super::super::grant_path(&super::judge(&facts)), None);
}
