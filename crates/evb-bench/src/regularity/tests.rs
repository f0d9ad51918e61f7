use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use clap::Parser as _;
use evb_core::{
    time::Instant,
    trigger::{Trigger, TriggerKind},
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
    room[0] ^= 1;
    assert_eq!((message::read(&room), message::read(&room[..9])), (None, None));
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
        let mut trigger = Trigger::new(TriggerKind::Poisson { rate }, 3, Instant::ZERO);
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
        got_bits_per_s: 5e6,
        gap_us: Spread::default(),
        within_5_percent: Some(share),
        variation: Some(variation),
        variation_ideal: Some(variation),
        variation_triggers: Some(1.0),
        late_us: Spread { p01: 1.0, p50: 20.0, p99: 50.0, max: 90.0 },
        cpu: Some(0.04),
        gaps: vec![1667.0, 1666.0, 1668.0],
    }
}

fn study(runs: Vec<RunOutcome>) -> Study {
    let (overload, underload) = judge(&runs);
    Study {
        bench: "regularity",
        setting: "a test".into(),
        tick_us: Some(4000.0),
        runs,
        overload,
        underload,
        remarks: vec!["txtime is left out".into()],
    }
}

#[test]
fn the_best_round_counts_and_is_held_against_the_bare_loop() {
    let over = |share| run("shaped", "poisson", Some(1.67), share, 0.1);
    let bare = |share| run("bare", "-", None, share, 0.1);
    let verdict = |runs: Vec<RunOutcome>| judge(&runs).0[0].clone();
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
    let (_, good) = judge(&[under(0.9), under(0.62)]);
    assert!(good[0].agrees && (good[0].theory - 0.6).abs() < 1e-12, "{good:?}");
    assert!(!judge(&[under(0.67)]).1[0].agrees);
    assert!(!study(vec![run("shaped", "poisson", Some(0.8), 0.0, 0.67)]).holds());
    assert!(!study(Vec::new()).holds(), "a study without runs does not hold");
}

#[test]
fn table_and_figure_say_what_was_found() {
    let study = study(vec![
        run("unshaped", "poisson", None, 0.0, 1.0),
        run("bare", "-", None, 0.99, 0.1),
        run("shaped", "poisson", Some(1.67), 0.9912, 0.1),
        run("shaped", "poisson", Some(0.8), 0.0, 0.61),
    ]);
    assert!(study.holds());
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
