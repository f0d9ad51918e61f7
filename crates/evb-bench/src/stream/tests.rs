use clap::Parser as _;
use evb_core::units::Bytes;

use super::{
    StreamArguments, StreamPoint, StreamTable,
    coalescing::{Coalescer, Times},
    measure,
    plan::cases,
    sender::Run,
    wire::{Counted, Order, label},
};
use crate::{
    ends::{SocketWishes, Transport},
    interval::Interval,
    machine,
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    stream: StreamArguments,
}

fn arguments(line: &[&str]) -> StreamArguments {
    Line::try_parse_from(["stream"].iter().chain(line)).expect("a command line").stream
}

#[test]
fn an_order_has_limits() {
    let wishes = SocketWishes::default();
    let order = Order { run: 1, transport: Transport::Tcp, warm_up_ms: 200, window_ms: 1000, wishes };
    assert!(order.is_possible());
    let with = |wishes| Order { wishes, ..order }.is_possible();
    assert!(with(SocketWishes { buffer: Some(8192), mss: Some(536) }));
    assert!(!with(SocketWishes { buffer: Some(0), mss: None }));
    assert!(!with(SocketWishes { buffer: Some(u32::MAX), mss: None }));
    assert!(!with(SocketWishes { buffer: None, mss: Some(1) }));
    assert!(!Order { window_ms: u64::MAX, ..order }.is_possible());
    assert!(!Order { window_ms: 3_600_000, ..order }.is_possible());
    for line in ["{}", "[1,2]", "{\"run\":-1}", "null", "{\"run\":1,\"transport\":\"sctp\"}", "\"", ""] {
        assert!(serde_json::from_str::<Order>(line).is_err(), "{line}");
    }
    assert_ne!(label(1), label(2));
}

#[test]
fn sweeps_are_combined_and_datagrams_limited() {
    let line = ["--records", "16 B,64 KiB", "--nodelay", "true,false", "--socket-buffers", "8 KiB,64 KiB"];
    let (all, remarks) = cases(&arguments(&line));
    // TCP has two settings of Nagle and two of buffers, UDP two of buffers; each has two records.
    assert_eq!(all.len(), 12);
    assert_eq!(all[0].series, "tcp, no delay, buffers 8 KiB");
    assert!(all.iter().any(|case| case.series == "tcp, Nagle, buffers 64 KiB"));
    let largest = all.iter().filter(|case| case.transport == Transport::Udp).map(|case| case.record).max();
    assert_eq!(largest, Some(Bytes::new(65_507)));
    assert!(remarks.iter().any(|remark| remark.contains("65507")), "{remarks:?}");
    let (plain, _) = cases(&arguments(&["--records", "1 KiB"]));
    assert_eq!(plain.iter().map(|case| case.series.as_str()).collect::<Vec<_>>(), ["tcp", "udp"]);
}

#[test]
fn both_transports_carry_records_over_loopback() {
    let line = ["--records", "1 KiB,16 KiB", "--seconds", "0.1", "--warm-up", "20 ms", "--repeats", "3"];
    let table = measure(&arguments(&line)).expect("measured");
    assert_eq!(table.points.len(), 4);
    for point in &table.points {
        assert!(point.rate_bits_per_s.mean > 1e6, "{point:#?}");
        assert_eq!(point.rate_bits_per_s.samples.len(), 3);
        assert_eq!(point.foreign, 0);
        match point.transport {
            Transport::Tcp => {
                assert_eq!((point.lost, point.datagrams_sent), (None, 0));
                assert!(point.mss_bytes.is_some_and(|mss| mss > 1000), "{point:#?}");
            }
            Transport::Udp => {
                assert!(point.datagrams_sent >= point.datagrams_received && point.datagrams_received > 0);
                assert!(point.lost.is_some_and(|lost| (0.0..1.0).contains(&lost)), "{point:#?}");
            }
        }
    }
    let svg = table.figure().svg().expect("drawn");
    assert!(svg.contains("Record size") && svg.contains("udp"));
}

#[test]
fn swept_settings_reach_the_sockets() {
    let settings = ["--transport", "tcp", "--mss", "536", "--socket-buffers", "16 KiB", "--nodelay", "false"];
    let quick = ["--records", "4 KiB", "--seconds", "0.05", "--warm-up", "1 ms", "--repeats", "3"];
    let table = measure(&arguments(&[&settings[..], &quick].concat())).expect("measured");
    let point = &table.points[0];
    assert_eq!((point.send_buffer_bytes, point.receive_buffer_bytes), (16 * 1024, 16 * 1024));
    assert!(point.mss_bytes.is_some_and(|mss| (500..=536).contains(&mss)), "{point:#?}");
    assert_eq!(point.nodelay, Some(false));
}

fn made_up(record: u64, converged: bool) -> StreamPoint {
    let case = &cases(&arguments(&["--transport", "udp", "--records", "1 KiB"])).0[0];
    let rate = Interval {
        mean: 9.5e6,
        half_width: 1e6,
        converged: Some(converged),
        samples: vec![9e6, 10e6, 9.5e6],
    };
    let counted = Counted { bytes: 1_250_000, nanos: 1_000_000_000, datagrams: 950, ..Counted::default() };
    let run =
        Run { counted, sent: 1000, send_buffer: Bytes::kib(8), receive_buffer: Bytes::kib(8), mss: None };
    assert_eq!(run.bits_per_s(), 10e6);
    StreamPoint { record_bytes: record, ..StreamPoint::new(case, rate, &[run]) }
}

#[test]
fn loss_and_wide_intervals_are_told() {
    let mut table = StreamTable::new("setting".into(), Vec::new());
    table.add(made_up(1024, true));
    table.add(made_up(2048, false));
    let (text, svg) = (table.text(), table.figure().svg().expect("drawn"));
    for part in ["9.50", "± 10.5 %", "5.00 %", "(wide)", "1 of 2 points did not become as narrow"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(svg.contains("1 of 2 points"));
    // The axis shows the error bars' ends, 8.5 and 10.5 Mbit/s.
    let asked = StreamPoint { asked_buffer_bytes: Some(65_536), ..made_up(1024, true) };
    let mut table = StreamTable::new("setting".into(), Vec::new());
    table.add(asked);
    assert!(table.text().contains("the kernel granted 8 KiB to send"), "{}", table.text());
    assert!(table.figure().svg().expect("drawn").contains("Socket buffers"));
}

#[test]
fn loopback_has_no_coalescing_to_sweep() {
    assert_eq!("996/1000".parse(), Ok(Times { send_micros: 996, receive_micros: 1000 }));
    assert!("996".parse::<Times>().is_err() && "a/b".parse::<Times>().is_err());
    let error = Coalescer::of(machine::device(None)).expect_err("refused").to_string();
    assert!(error.contains("the device lo has no interrupt coalescing"), "{error}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refusal = |line: &[&str]| measure(&arguments(line)).expect_err("refused").to_string();
    assert!(refusal(&["--records", "0 B"]).contains("not 0 B"));
    assert!(refusal(&["--records", "1 GiB"]).contains("1 GiB"));
    assert!(refusal(&["--records", "8 B"]).contains("--transport tcp"));
    assert!(refusal(&["--seconds", "0"]).contains("--seconds"));
    assert!(refusal(&["--seconds", "NaN"]).contains("--seconds"));
    assert!(refusal(&["--mss", "40"]).contains("--mss"));
    assert!(refusal(&["--socket-buffers", "1 B"]).contains("--socket-buffers"));
    assert!(refusal(&["--repeats", "1"]).contains("--repeats"));
    assert!(refusal(&["--coalescing", "1/2"]).contains("lo has no interrupt coalescing"));
    assert!(Line::try_parse_from(["stream", "--transport", "sctp"]).is_err());
}
