//! Sources that stop and wake again (SIGSTOP, SIGCONT) in a system of processes.

mod fleet;

use std::{collections::BTreeMap, thread::sleep, time::Duration};

use evb_core::id::{RunNumber, SourceId};
use evb_file::{EventFile, existing_files};
use fleet::{Fleet, Plan, assert_closed, number, problems};
use serde_json::Value;

/// The sources of each event in the files of all builders, by event id.
fn events(fleet: &Fleet) -> BTreeMap<u64, (Vec<u16>, Vec<SourceId>)> {
    let mut events = BTreeMap::new();
    for path in existing_files(&fleet.out(), RunNumber::new(1)).expect("files") {
        for event in EventFile::open(&path).expect("a file of ours").events() {
            let event = event.expect("an intact event");
            let here = event.fragments().map(|fragment| fragment.source.number()).collect();
            let twice = events.insert(event.id.number(), (here, event.missing_sources().collect()));
            assert!(twice.is_none(), "event {} is there twice", event.id);
        }
    }
    events
}

#[test]
fn a_frozen_source_is_named_and_comes_back() {
    let plan = Plan { run: "duration = \"6 s\"\nnumber = 1", files: true, ..Plan::default() };
    let mut fleet = plan.start();
    sleep(Duration::from_millis(1200));
    fleet.signal("source:2", "STOP");
    sleep(Duration::from_secs(3));
    fleet.signal("source:2", "CONT");
    fleet.all_end(1, Duration::from_secs(20));

    let summary = fleet.summary("supervisor");
    fleet.assert_closed(&summary);
    let (assigned, lost) = (number(&summary, "/events/assigned"), number(&summary, "/events/lost"));
    assert!(assigned > 6.0 * 500.0 * 0.7 && lost == 0.0, "{:#}", summary["events"]);
    let source = &summary["sources"][1];
    assert!((1.0..4.0).contains(&number(source, "/down_s")), "{source:#}");
    let down = number(source, "/missing_by_cause/down");
    assert!(down > 500.0, "only {down} events were built at full rate without it");
    // The supervisor takes the source for down before the deadline of the events that were under
    // way when it froze.
    assert_eq!(down, number(source, "/missing"), "{source:#}");
    for other in [0, 2] {
        let other = &summary["sources"][other];
        assert!(number(other, "/missing") == 0.0 && number(other, "/down_s") == 0.0, "{other:#}");
    }
    assert!(problems(&summary).contains("source 2 is missing in"), "{}", problems(&summary));
    assert!(problems(&summary).contains("and was down for"), "{}", problems(&summary));

    let events = events(&fleet);
    assert_eq!(events.len() as f64, assigned);
    let has_all = |(here, _): &(Vec<u16>, Vec<SourceId>)| here[..] == [1, 2, 3];
    let first = events.iter().find(|(_, event)| !has_all(event)).map(|(id, _)| *id).expect("some miss it");
    let last =
        events.iter().rev().find(|(_, event)| !has_all(event)).map(|(id, _)| *id).expect("some miss it");
    assert!(events.values().all(|(here, _)| here.contains(&1) && here.contains(&3)));
    let named = events.values().filter(|(_, missing)| missing[..] == [SourceId::new(2)]).count();
    assert_eq!(named as f64, number(source, "/missing"), "every event without it names it");
    let (before, after) = (events.range(..first).count(), events.range(last + 1..).count());
    assert!(before > 100 && after > 300, "{before} complete before, {after} after, of {}", events.len());
}

/// A budget of 256 KiB is four chunks, so the lanes of four frozen sources could occupy all of it.
#[test]
fn frozen_sources_do_not_hold_the_budget() {
    let plan = Plan {
        sources: 6,
        run: "duration = \"5 s\"",
        supervisor: "trigger = { kind = \"as-fast-as-possible\" }",
        shaping: "mode = \"credit\"\nbudget = \"256 KiB\"\nchunk = \"64 KiB\"",
        size: "200 kB",
        ..Plan::default()
    };
    let mut fleet = plan.start();
    sleep(Duration::from_secs(1));
    let frozen: Vec<String> = (1..=5).map(|id| format!("source:{id}")).collect();
    frozen.iter().for_each(|source| fleet.signal(source, "STOP"));
    sleep(Duration::from_millis(2500));
    frozen.iter().for_each(|source| fleet.signal(source, "CONT"));
    fleet.all_end(1, Duration::from_secs(25));

    let summary = fleet.summary("supervisor");
    assert_closed(&summary);
    assert!(number(&summary, "/events/lost") == 0.0, "{:#}", summary["events"]);
    for source in 0..5 {
        let source = &summary["sources"][source];
        let down = number(source, "/missing_by_cause/down");
        assert!(down > 200.0, "{down} events went on without five frozen sources: {source:#}");
        assert!(number(source, "/reconnects") >= 1.0, "{source:#}");
        assert!(number(source, "/fragments") > 50.0 && number(source, "/uncommitted") == 0.0, "{source:#}");
    }
    assert!(number(&summary["sources"][5], "/missing") == 0.0);
}

/// Returns the summary of a run in which the processes of these roles (all, if there are none)
/// stand still for each of the given times.
fn stand_still(transport: &str, roles: &[&str], times: &[Duration]) -> Value {
    let shaping = match transport {
        "udp" => "mode = \"credit\"\n[network]\ntransport = \"udp\"",
        _ => "mode = \"credit\"",
    };
    let plan = Plan {
        supervisor: "trigger = { kind = \"periodic\", rate = \"200 Hz\" }\ndeadline = \"1 s\"",
        run: "number = 1",
        shaping,
        files: true,
        ..Plan::default()
    };
    let mut fleet = plan.start();
    sleep(Duration::from_millis(1500));
    for time in times {
        fleet.signal_all(roles, "STOP");
        sleep(*time);
        fleet.signal_all(roles, "CONT");
        sleep(Duration::from_millis(1500));
    }
    fleet.signal("supervisor", "TERM");
    fleet.wait("supervisor", Duration::from_secs(30));
    let summary = fleet.summary("supervisor");
    fleet.assert_closed(&summary);
    summary
}

/// Returns random times, the same ones in each run of the test.
fn times(count: usize) -> Vec<Duration> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_millis(1000 + state % 19_000)
    };
    (0..count).map(|_| next()).collect()
}

/// A machine that is suspended or moved stops all processes at once. Nobody is called silent for
/// it, and no event is closed without its fragments. `EVB_STANDSTILLS=40` stands still for random
/// times from 1 to 20 s, in place of two short ones.
#[test]
fn a_standstill_of_the_whole_system_costs_no_fragment() {
    let times = match std::env::var("EVB_STANDSTILLS") {
        Ok(count) => times(count.parse().expect("a number")),
        Err(_) => [1300, 2500, 1700, 3100].map(Duration::from_millis).to_vec(),
    };
    let (over_tcp, over_udp) = times.split_at(times.len() / 2);
    for (transport, times) in [("tcp", over_tcp), ("udp", over_udp)] {
        for some in times.chunks(4) {
            let summary = stand_still(transport, &[], some);
            let of = |key: &str| number(&summary, &format!("/events/{key}"));
            let seen = (of("incomplete"), of("lost"), problems(&summary));
            assert_eq!(seen, (0.0, 0.0, "[]".to_owned()), "{transport}, {some:?}: {:#}", summary["events"]);
            for source in 0..3 {
                assert_eq!(number(&summary["sources"][source], "/down_s"), 0.0, "{transport}, {some:?}");
            }
        }
    }
}

/// One host of three stands still, with a source and a builder, or with the supervisor. Only its
/// own source may be missing; nobody on another host is called silent.
#[test]
fn a_standstill_of_one_host_is_not_the_fault_of_others() {
    let hosts: [&[&str]; 3] =
        [&["supervisor", "source:1"], &["source:2", "builder:1"], &["source:3", "builder:2"]];
    for (own, roles) in hosts.iter().enumerate() {
        let summary = stand_still("tcp", roles, &[Duration::from_secs(3)]);
        for source in (0..3).filter(|source| *source != own) {
            let other = &summary["sources"][source];
            // Peers of a supervisor that stands still connect again when it is back.
            let seen = (number(other, "/down_s") < 0.2, number(other, "/missing"));
            assert_eq!(seen, (true, 0.0), "{roles:?}: {other:#}\n{}", problems(&summary));
        }
        assert_eq!(number(&summary, "/events/lost"), 0.0, "{roles:?}: {:#}", summary["events"]);
    }
}
