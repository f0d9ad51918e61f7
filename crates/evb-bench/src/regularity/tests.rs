use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use crate::trigger::times::{Times, TimesKind};
use clap::Parser as _;
use evb_core::{
    time::Instant,
    units::{Bytes, Frequency},
};

use super::{
    RegularityArguments, Study, draw,
    judged::{agree, departure_variation, judge},
    measure,
    message::{self, MessageSize},
    outcome::{RunOutcome, Spread, gaps_of},
    receiver::{Arrivals, Receiver},
    sender::ideal,
    text,
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    regularity: RegularityArguments,
}

fn arguments(line: &str) -> RegularityArguments {
    let words = ["regularity"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).expect("a command line").regularity
}

#[test]
fn a_message_is_one_packet_in_both_measures() {
    let size = MessageSize::new(Bytes::new(1000), false);
    assert_eq!((size.buffer().count(), size.line().count()), (1042, 1066));
    assert_eq!(MessageSize::new(Bytes::new(1000), true).buffer().count(), 1062);
    let mut room = [0; message::LEAST];
    message::label(&mut room, 7, 42);
    assert_eq!(message::read(&room), Some((7, 42)));
    assert!((0..16).all(|length| message::read(&room[..length]).is_none()), "the label is cut");
    room[0] ^= 1;
    assert_eq!(message::read(&room), None, "another magic");
}

#[test]
fn an_ideal_line_serves_in_order_and_one_after_the_other() {
    let ms = Duration::from_millis;
    // Triggers are at 0, 1, 2, 10; with a service time of 3, departures begin at 0, 3, 6, 10.
    assert_eq!(ideal(&[ms(1), ms(1), ms(8)], ms(3)), [ms(3), ms(3), ms(4)]);
}

#[test]
fn departures_of_poisson_triggers_vary_as_theory_says() {
    for load in [0.2, 0.5, 0.8, 0.9] {
        let rate = Frequency::from_hertz(1000.0).expect("a rate");
        let mut trigger = Times::new(TimesKind::Poisson { rate }, 3, Instant::ZERO);
        let mut last = Instant::ZERO;
        let gaps: Vec<Duration> = (0..200_000)
            .map(|_| {
                let at = trigger.pop_due(Instant::FAR_FUTURE).expect("a trigger has no last event");
                let gap = at.since(last);
                last = at;
                gap
            })
            .collect();
        let service = Duration::from_secs_f64(load / 1000.0);
        let found = gaps_of(&ideal(&gaps, service)).coefficient_of_variation().expect("many");
        let theory = departure_variation(load);
        assert!((found / theory - 1.0).abs() < 0.03, "load {load}: {found} for {theory}");
        assert!(agree(found, load) && !agree(theory * 1.11, load) && !agree(theory * 0.89, load));
    }
}

fn run(
    way: &'static str,
    trigger: &'static str,
    load: Option<f64>,
    share: f64,
    variation: f64,
) -> RunOutcome {
    RunOutcome {
        way,
        executor: "timerfd".into(),
        trigger,
        trigger_hz: Some(1000.0).filter(|_| trigger != "-"),
        receiver: 1,
        round: 1,
        load,
        load_drawn: load,
        sent: 10,
        received: 10,
        lost: 0,
        duplicates: 0,
        reordered: 0,
        foreign: 0,
        unstamped: 0,
        refused: 0,
        queue_peak: 1,
        idle_starts: 1,
        nominal_us: Some(1667.2),
        expected_gap_us: Some(1667.2),
        ahead_at_start: 0,
        got_bits_per_s: 5e6,
        gap_us: Spread::default(),
        within_5_percent: Some(share),
        variation: Some(variation),
        variation_ideal: Some(variation),
        variation_triggers: Some(1.0),
        late_us: Spread { p01: 1.0, p50: 20.0, p99: 50.0, max: 90.0 },
        cpu: Some(0.04),
        ticks: None,
        gaps: vec![1667.0, 1666.0, 1668.0],
    }
}

fn study(runs: Vec<RunOutcome>) -> Study {
    study_of(runs, false)
}

fn study_of(runs: Vec<RunOutcome>, atlas: bool) -> Study {
    let verdicts = judge(&runs);
    Study {
        bench: "regularity",
        study: None,
        setting: "a test".into(),
        tick_us: Some(4000.0),
        holds: verdicts.hold() && !runs.is_empty(),
        panels: super::atlas::panels(&runs).into_iter().filter(|_| atlas).collect(),
        runs,
        overload: verdicts.overload,
        passing: verdicts.passing,
        ticks: verdicts.ticks,
        underload: verdicts.underload,
        remarks: vec!["txtime is left out".into()],
    }
}

#[test]
fn the_best_round_counts_and_is_held_against_the_bare_loop() {
    let over = |share| run("shaped", "poisson", Some(1.67), share, 0.1);
    let bare = |share| run("bare", "-", None, share, 0.1);
    let verdict = |runs: Vec<RunOutcome>| judge(&runs).overload[0].clone();
    let good = verdict(vec![bare(0.99), over(0.90), bare(0.97), over(0.985), bare(0.98), over(0.979)]);
    assert!(good.regular && good.no_worse == Some(true), "{good:?}");
    assert_eq!((good.shaped, good.bare), (vec![0.90, 0.985, 0.979], vec![0.99, 0.97, 0.98]));
    assert!(good.difference.is_some_and(|difference| (difference + 0.001).abs() < 1e-12));
    // A good best round does not outweigh that shaped runs are less regular than the bare loop in
    // the median.
    let worse = verdict(vec![bare(1.0), over(0.985), bare(1.0), over(1.0), bare(0.99), over(0.98)]);
    assert!(worse.regular && worse.no_worse == Some(false), "{worse:?}");
    let irregular = verdict(vec![bare(0.97), over(0.979)]);
    assert!(!irregular.regular && irregular.no_worse == Some(true), "{irregular:?}");
    assert_eq!(verdict(vec![over(0.99)]).no_worse, None);
}

#[test]
fn underload_is_held_against_theory() {
    let under = |variation| run("shaped", "poisson", Some(0.8), 0.0, variation);
    let good = judge(&[under(0.9), under(0.62)]).underload;
    assert!(good[0].agrees && (good[0].theory - 0.6).abs() < 1e-12, "{good:?}");
    assert!(!judge(&[under(0.67)]).underload[0].agrees);
    assert!(!study(vec![run("shaped", "poisson", Some(0.8), 0.0, 0.67)]).holds);
    assert!(!study(Vec::new()).holds, "a study without runs does not hold");
}

#[test]
fn table_and_figure_say_what_was_found() {
    let study = study(vec![
        run("unshaped", "poisson", None, 0.0, 1.0),
        run("bare", "-", None, 0.99, 0.1),
        run("shaped", "poisson", Some(1.67), 0.9912, 0.1),
        run("shaped", "poisson", Some(0.8), 0.0, 0.61),
    ]);
    assert!(study.holds);
    let page = text::text(&study);
    for part in [
        "99.12 %",
        "no worse",
        "+1.7 % from theory",
        "note: txtime is left out",
        "40 messages sent in all: 0 lost",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let svg = draw::figure(&study).svg().expect("drawn");
    for part in [
        "nominal 1.667 ms",
        "HZ no longer matters",
        "ticks every 4.0 ms",
        "timerfd 50.0 µs",
        "before",
        "after",
    ] {
        assert!(svg.contains(part), "{part:?} is not in the figure");
    }
}

#[test]
fn a_run_over_loopback_keeps_to_the_rate_and_accounts_for_every_message() {
    let line = "--executors timerfd --rounds 1 --messages 80 --underload-messages 50 --loads 0.5 --ordinary-priority";
    let study = measure(&arguments(line)).expect("measured");
    let ways: Vec<&str> = study.runs.iter().map(|run| run.way).collect();
    assert_eq!(ways, ["unshaped", "unshaped", "bare", "shaped", "shaped", "shaped"]);
    for run in &study.runs {
        let messages = if run.load == Some(0.5) { 50 } else { 80 };
        assert_eq!((run.sent, run.received, run.lost, run.duplicates), (messages, messages, 0, 0), "{run:?}");
        assert_eq!((run.unstamped, run.gaps.len() as u64), (0, messages - 1), "{run:?}");
        if run.way == "shaped" {
            // On a machine with late timers, messages still do not exceed the rate, except for the
            // two messages that the bucket lets catch up.
            let nominal = run.nominal_us.expect("shaped") * (messages - 1) as f64;
            let took: f64 = run.gaps.iter().sum();
            assert!(took >= nominal - 3.0 * run.nominal_us.expect("shaped"), "{took} for {nominal}");
        }
    }
    assert!((study.overload[0].shaped.len(), study.underload.len()) == (1, 1));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (line, reason) in [
        ("--rate 8Mbit/s", "at least 1.2"),
        ("--rate 20Mbit/s --trigger-rates 1kHz,100Hz", "at least 1.2"),
        ("--rate 8Mbit/s --triggers periodic", "at least 1.2"),
        ("--rate 8Mbit/s --study atlas", "at least 1.2"),
        ("--rate 1kbit/s", "raise --rate"),
        ("--depth 100B", "less than a message"),
        ("--executors tick:0 --loads 0.5", "no executor `tick:0`"),
        ("--executors tick:x --loads 0.5", "no executor `tick:x`"),
        ("--study atlas --executors tick:100", "one of evb's executors"),
        ("--message 9kB", "one packet"),
        ("--message 4B", "one packet"),
        ("--loads 1.0", "below 1"),
        ("--messages 1", "2 to"),
        ("--executors magic --loads 0.5", "no executor `magic`"),
    ] {
        let refused = measure(&arguments(line)).expect_err(line).to_string();
        assert!(refused.contains(reason), "{line}: {refused}");
    }
}

#[test]
fn the_receiver_counts_strangers_and_survives_them() {
    let receiver = Receiver::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("bound");
    let at = receiver.address().expect("bound");
    let serving = std::thread::spawn(move || (receiver.serve(), receiver.serve().is_ok()));
    let mut peer = TcpStream::connect(at).expect("reached");
    peer.write_all(b"what is this?\n").expect("sent");
    drop(peer);
    let mut peer = TcpStream::connect(at).expect("reached");
    peer.write_all(b"{\"run\":5,\"messages\":2,\"patience_ms\":300}\n").expect("sent");
    let mut reader = BufReader::new(peer.try_clone().expect("a clone"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    let port =
        serde_json::from_str::<serde_json::Value>(&line).expect("JSON")["port"].as_u64().expect("a port");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut room = [0; message::LEAST];
    for run in [9, 5] {
        message::label(&mut room, run, 1);
        socket.send_to(&room, ("127.0.0.1", port as u16)).expect("sent");
    }
    socket.send_to(b"x", ("127.0.0.1", port as u16)).expect("sent");
    line.clear();
    reader.read_line(&mut line).expect("an answer");
    let arrivals: Arrivals = serde_json::from_str(&line).expect("arrivals");
    assert_eq!((arrivals.numbers.as_slice(), arrivals.foreign), ([1].as_slice(), 2));
    drop((peer, reader));
    let (first, second) = serving.join().expect("served");
    assert!(first.is_err() && second);
}

/// Gaps of the given executor as a run over loopback shows them: clumps with 100 ticks a second,
/// two or three ticks with 1500.
fn gaps_of_executor(executor: &str) -> Vec<f64> {
    let cycle: &[f64] = match executor {
        "tick:100" => &[9_940.0, 12.0, 13.0, 12.0, 12.0, 11.0],
        "tick:1500" => &[1_340.0, 1_990.0],
        _ => &[1_667.0, 1_660.0, 1_675.0],
    };
    cycle.iter().copied().cycle().take(600).collect()
}

fn atlas_run(way: &'static str, executor: &str, trigger: &'static str, hertz: f64, share: f64) -> RunOutcome {
    let load = (way == "shaped").then_some(if hertz < 500.0 { 0.17 } else { 1.67 });
    let gaps = gaps_of_executor(executor);
    let hz = executor.strip_prefix("tick:").and_then(|hz| hz.parse().ok());
    let of = |hz| super::TickSigns::of(&gaps, super::ticks::Ticks::new(hz).expect("ticks"), Duration::ZERO);
    RunOutcome {
        executor: executor.into(),
        trigger_hz: Some(hertz),
        ticks: hz.map(of),
        gaps: gaps.clone(),
        ..run(way, trigger, load, share, 0.1)
    }
}

fn atlas_runs() -> Vec<RunOutcome> {
    vec![
        atlas_run("unshaped", "at once", "periodic", 100.0, 1.0),
        atlas_run("shaped", "timerfd", "periodic", 100.0, 1.0),
        atlas_run("shaped", "tick:100", "periodic", 1000.0, 0.0),
        atlas_run("shaped", "tick:1500", "periodic", 1000.0, 0.01),
        atlas_run("shaped", "timerfd", "periodic", 1000.0, 0.995),
        atlas_run("unshaped", "at once", "gaussian", 1000.0, 0.1),
        atlas_run("shaped", "tick:1500", "gaussian", 1000.0, 0.01),
        atlas_run("shaped", "timerfd", "gaussian", 1000.0, 0.99),
    ]
}

#[test]
fn the_atlas_study_expects_ticks_to_fail_and_evb_to_pass() {
    let good = study_of(atlas_runs(), true);
    assert!(good.holds, "{good:#?}");
    assert_eq!((good.overload.len(), good.passing.len(), good.ticks.len()), (2, 1, 3));
    assert!(good.ticks.iter().all(|verdict| verdict.fails_regularity && verdict.behaves));
    assert!(good.ticks[0].clumped_at_ticks && good.ticks[0].clumps_expected && good.ticks[1].on_ticks);
    let hundred = super::ticks::Ticks::new(100).expect("ticks");
    let even = super::TickSigns::of(&[1667.0; 600], hundred, Duration::ZERO);
    // Each of these runs is not as expected: regular ticks, ticks without clumps, an irregular
    // executor of evb's, periodic triggers that do not pass unchanged.
    for (place, run) in [
        (2, atlas_run("shaped", "tick:100", "periodic", 1000.0, 0.99)),
        (2, RunOutcome { ticks: Some(even), ..atlas_run("shaped", "tick:100", "periodic", 1000.0, 0.0) }),
        (4, atlas_run("shaped", "timerfd", "periodic", 1000.0, 0.97)),
        (1, atlas_run("shaped", "timerfd", "periodic", 100.0, 0.97)),
    ] {
        let mut runs = atlas_runs();
        runs[place] = run;
        let broken = study_of(runs, true);
        assert!(!broken.holds, "run {place}: {broken:#?}");
    }
}

#[test]
fn the_atlas_study_shows_six_histograms_and_says_what_is_expected() {
    let study = study_of(atlas_runs(), true);
    let names: Vec<Vec<&str>> = study
        .panels
        .iter()
        .map(|panel| panel.series.iter().map(|series| series.name.as_str()).collect())
        .collect();
    let expected: [&[&str]; 6] = [
        &["not shaped"],
        &["timerfd"],
        &["tick:100", "timerfd"],
        &["tick:1500", "timerfd"],
        &["not shaped"],
        &["tick:1500", "timerfd"],
    ];
    assert_eq!(names, expected);
    let page = text::text(&study);
    for part in [
        "clumps of 6.0 messages every 10.000 ms",
        "fails the 98 %, as is expected of ticks",
        "of the gaps are multiples of 666.7 µs within 66.7 µs",
        "below the rate: 100.00 % of the gaps stay as they are",
        "All verdicts are as expected.",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let svg = draw::figure(&study).svg().expect("drawn");
    let places: Vec<usize> = (1..=6)
        .map(|number| svg.find(&format!("{number}: ")).unwrap_or_else(|| panic!("no histogram {number}")))
        .collect();
    assert!(places.is_sorted(), "the histograms are in the order of the paper");
}

#[test]
fn tokens_of_the_start_are_counted() {
    use super::outcome::ahead;
    assert_eq!(ahead(&[1000.0, 1000.0, 1667.0, 1000.0], 1667.2), 2);
    assert_eq!(ahead(&[1660.0, 10.0], 1667.2), 0);
}

#[test]
fn every_one_of_three_receivers_gets_and_judges_all_messages() {
    let line = "--executors timerfd,tick:100 --triggers periodic --receivers 3 --rounds 1 --messages 60 \
                --ordinary-priority --full-at-start";
    let mut early = Vec::new();
    // A machine that stands still at the first message makes the whole train look shorter.
    for _ in 0..3 {
        let study = measure(&arguments(line)).expect("measured");
        // One unshaped run, a bare loop, and a run of each executor, with three outcomes each.
        assert_eq!(study.runs.len(), 4 * 3);
        for run in &study.runs {
            assert_eq!((run.sent, run.received, run.lost, run.foreign), (60, 60, 0, 0), "{run:?}");
        }
        let receivers = |numbers: Vec<u32>| assert_eq!(numbers, [1, 2, 3]);
        receivers(study.overload.iter().map(|verdict| verdict.receiver).collect());
        receivers(study.ticks.iter().map(|verdict| verdict.receiver).collect());
        // Even if every timer is late, no more tokens come than the rate and a full bucket allow.
        let shaped = study.runs.iter().filter(|run| run.way == "shaped");
        let took = shaped.map(|run| (run.gaps.iter().sum::<f64>(), run.nominal_us.expect("shaped")));
        early = took.filter(|(took, nominal)| *took < nominal * (59.0 - 8.0)).collect();
        if early.is_empty() {
            return;
        }
    }
    panic!("trains were too short three times, in µs beside the time of a message: {early:?}");
}

#[test]
fn a_receiver_that_cannot_be_reached_is_the_operators_matter() {
    let closed = format!("127.0.0.1:{}", evb_needs::free_ports(1)[0]);
    let refused = measure(&arguments(&format!("--send-to {closed} --rounds 1"))).expect_err("unreachable");
    assert!(matches!(&refused, super::BenchError::Operator(_)), "{refused:?}");
    assert!(refused.to_string().contains("start one there with --listen"), "{refused}");
}
