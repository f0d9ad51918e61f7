use std::{io, net::UdpSocket, time::Duration};

use clap::Parser as _;
use evb_core::units::Bytes;

use super::{
    RequestArguments, RequestPoint, cases,
    client::{Case, Client},
    measure,
    wire::{self, Order, Over, Ready, Served},
};
use crate::{
    ends::{self, Dialogue, Transport},
    interval::Interval,
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    request: RequestArguments,
}

fn arguments(line: &[&str]) -> RequestArguments {
    Line::try_parse_from(["request"].iter().chain(line)).expect("a command line").request
}

const QUICK: [&str; 6] = ["--seconds", "0.1", "--warm-up", "10 ms", "--repeats", "3"];

#[test]
fn requests_are_labelled_and_orders_limited() {
    let request = wire::request(7, 42);
    assert_eq!(wire::number(&request, 7), Some(42));
    assert_eq!((wire::number(&request, 8), wire::number(&request[..15], 7)), (None, None));
    assert_eq!((wire::number(&[], 7), wire::number(&[0; 16], 0)), (None, None));
    let order = |transport, length| Order { run: 1, transport, length }.is_possible();
    assert!(order(Transport::Tcp, 16) && order(Transport::Tcp, 1 << 24) && order(Transport::Udp, 65_507));
    assert!(!order(Transport::Tcp, 15) && !order(Transport::Tcp, u64::MAX) && !order(Transport::Udp, 65_508));
    for line in ["{}", "null", "{\"run\":-1,\"transport\":\"tcp\",\"length\":16}", "[]", "x"] {
        assert!(serde_json::from_str::<Order>(line).is_err(), "{line}");
    }
}

#[test]
fn requests_are_answered_over_both_transports() {
    let line = ["--lengths", "16 B,4 KiB", "--outstanding", "1,4"];
    let table = measure(&arguments(&[&line[..], &QUICK].concat())).expect("measured");
    assert_eq!(table.points.len(), 8);
    let mut lawful = 0;
    for point in &table.points {
        assert!(point.requests_per_s.mean > 100.0, "{point:#?}");
        let trip = point.round_trip_us.expect("answered");
        // Little's law: the rate is the number of outstanding requests over the round trip. The
        // client itself takes time between a response and the next request.
        let law = point.outstanding as f64 / trip * 1e6;
        lawful += usize::from(point.requests_per_s.mean < law * 1.3);
        assert_eq!(point.lost, 0, "{point:#?}");
    }
    // On a busy machine, a request may wait for longer than a measurement takes; its whole round
    // trip then counts, although the requests after it are not in the measurement.
    assert!(lawful > table.points.len() / 2, "{:#?}", table.points);
    assert!(table.figure().svg().expect("drawn").contains("udp, 4 outstanding"));
}

/// Answers only every third request.
fn serve_badly(dialogue: &mut Dialogue) -> io::Result<()> {
    while let Some(order) = dialogue.hear::<Order>(Duration::from_secs(5))? {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        dialogue.say(&Ready { port: socket.local_addr()?.port() })?;
        let mut request = [0; wire::REQUEST];
        let mut count = 0;
        while let Ok((_, from)) = socket.recv_from(&mut request) {
            count += 1;
            if count % 3 == 0 {
                let mut response = vec![0; order.length as usize];
                response[..wire::REQUEST].copy_from_slice(&request);
                socket.send_to(&response, from)?;
            }
        }
        let _: Over = dialogue.must_hear(Duration::from_secs(5))?;
        dialogue.say(&Served { requests: count })?;
    }
    Ok(())
}

#[test]
fn a_lost_request_is_counted_and_does_not_stop_the_others() {
    let arguments = arguments(&["--timeout", "5 ms", "--seconds", "0.2", "--warm-up", "1 ms"]);
    let case = Case { transport: Transport::Udp, outstanding: 1, length: Bytes::new(64) };
    let run = ends::measure(None, wire::BENCH, serve_badly, |dialogue| {
        Client::new(dialogue, &arguments).run(&case)
    });
    let run = run.expect("measured");
    let lost = run.lost as f64 / run.requests as f64;
    assert!(run.requests > 6 && (lost - 2.0 / 3.0).abs() < 0.15, "{run:?}");
    let rate = Interval { mean: 10.0, half_width: 5.0, converged: Some(false), samples: vec![10.0] };
    let point = RequestPoint::new(&case, rate, &[run]);
    assert_eq!((point.lost, point.bits_per_s), (run.lost, 5120.0));
    let mut table = super::RequestTable::new("setting".into(), Vec::new());
    table.points.push(point);
    let text = table.text();
    assert!(text.contains("had no response in time") && text.contains("(wide)"), "{text}");
}

#[test]
fn large_responses_over_udp_are_limited_and_remarked() {
    let all = arguments(&["--lengths", "1 KiB,64 KiB", "--outstanding", "1"]);
    let (cases, remarks) = cases(&all, Some(1472));
    assert_eq!(
        cases.iter().map(|case| case.length.count()).collect::<Vec<_>>(),
        [1024, 65_536, 1024, 65_507]
    );
    assert!(remarks.iter().any(|remark| remark.contains("IP fragments")), "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.contains("65507 B")), "{remarks:?}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refusal = |line: &[&str]| measure(&arguments(line)).expect_err("refused").to_string();
    assert!(refusal(&["--lengths", "0 B"]).contains("--lengths"));
    assert!(refusal(&["--lengths", "1 GiB"]).contains("--lengths"));
    assert!(refusal(&["--outstanding", "0"]).contains("--outstanding"));
    assert!(refusal(&["--timeout", "0 s"]).contains("--timeout"));
    assert!(refusal(&["--seconds=-1"]).contains("--seconds"));
    assert!(refusal(&["--warm-up", "1 h"]).contains("--warm-up"));
    assert!(Line::try_parse_from(["request", "--transport", "sctp"]).is_err());
}
