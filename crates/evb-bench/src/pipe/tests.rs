use clap::Parser as _;

use super::{PipeArguments, PipeStudy, Verdict, check, draw, judged::judge, measure, text};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    pipe: PipeArguments,
}

fn arguments(line: &[&str]) -> PipeArguments {
    Line::try_parse_from(["pipe"].iter().chain(line)).expect("a command line").pipe
}

fn small() -> PipeStudy {
    let line = ["--seconds", "12", "--runs", "3", "--gaps", "8,1023", "--clusters", "1 ms"];
    let line = [&line[..], &["--executors", "timerfd,txtime"]].concat();
    measure(&arguments(&line)).expect("simulated")
}

#[test]
fn the_study_shows_the_papers_order() {
    let study = small();
    let failed: Vec<&Verdict> = study.verdicts.iter().filter(|verdict| !verdict.holds).collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", text::text(&study));
    assert_eq!(study.points.len(), 4 + 2 + 1 + 2);
    assert!(study.series.iter().all(|series| series.sent.len() == 2000 && series.received.len() == 2000));
    let (page, svg) = (text::text(&study), draw::figure(&study).svg().expect("drawn"));
    for part in ["fast host", "gap 1023 B", "clusters 1ms", "pace by txtime", "ok  "] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(svg.contains("Goodput by host and transmit queue") && svg.contains("Packets/ms"));
    // A study in which the fast host is the better one fails.
    let mut wrong = study.clone();
    for point in &mut wrong.points {
        if point.case == "fast host" {
            point.median_bits_per_s = 500_000_000;
            point.min_bits_per_s = point.max_bits_per_s;
            point.peak_sent_per_ms = 50;
        }
        point.peak_received_per_ms += 10;
    }
    wrong.queue_of_window_line_bytes *= 2;
    assert!(judge(&wrong).iter().all(|verdict| !verdict.holds || verdict.what.contains("peak sent")));
}

#[test]
fn equal_seeds_give_equal_studies() {
    let line = ["--seconds", "2", "--runs", "1", "--gaps", "8", "--transmit-queues", "100"];
    let both = [(); 2].map(|()| measure(&arguments(&line)).expect("simulated"));
    assert_eq!(both[0], both[1]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (line, part) in [
        (["--rtt", "0 ms"], "--rtt is above 0"),
        (["--rtt", "11 s"], "--rtt is above 0"),
        (["--bottleneck", "1 kbit/s"], "--bottleneck is"),
        (["--bottleneck", "20 Gbit/s"], "lower --bottleneck or --rtt"),
        (["--fast-rate", "500 Mbit/s"], "not above the bottleneck"),
        (["--equal-rate", "1 Gbit/s"], "the bottleneck, not 1 Gbit/s"),
        (["--router-buffer", "100 B"], "--router-buffer holds"),
        (["--transmit-queues", "0"], "--transmit-queues"),
        (["--gaps", "70000"], "--gaps"),
        (["--clusters", "1 s"], "--clusters"),
        (["--seconds", "1"], "--seconds"),
        (["--seconds", "NaN"], "--seconds"),
        (["--runs", "0"], "--runs"),
        (["--cross-load", "0.9"], "--cross-load"),
    ] {
        let refused = check(&arguments(&line)).expect_err("refused");
        assert!(refused.contains(part), "{line:?}: {refused}");
    }
    assert_eq!(check(&arguments(&[])), Ok(()));
    assert!(Line::try_parse_from(["pipe", "--executors", "magic"]).is_err());
}
