//! Whole captures, built byte by byte.

pub(super) mod build;

use std::path::Path;

use evb_core::framing::{Extent, FrameField, Kept, LastPacket, LengthCounts, Mark, PacketLayout};
use proptest::prelude::*;

use self::build::*;
use super::*;

pub(super) const LIMIT: Bytes = Bytes::kib(64);

/// Frames with a magic, a length of the payload and a counter.
pub(super) fn layout() -> FrameLayout {
    let length = FrameField::new(2, 2);
    let mut layout = FrameLayout::new(8, Extent::Stated { length, unit: 1, counted: LengthCounts::Payload });
    layout.magic = Some(Mark::new(0, [0xeb, 0x90]));
    layout.counter = Some(FrameField::new(4, 4));
    layout
}

/// Frames without a magic: their length and their payload.
pub(super) fn plain_layout() -> FrameLayout {
    let length = FrameField::new(0, 2);
    FrameLayout::new(2, Extent::Stated { length, unit: 1, counted: LengthCounts::Payload })
}

pub(super) fn flows(filter: FlowFilter, layout: &FrameLayout) -> Flows {
    Flows::of_layout(filter, layout, LIMIT, OnLoss::Drop).unwrap()
}

pub(super) fn open(path: PathBuf, filter: FlowFilter) -> Result<Capture, CaptureError> {
    Capture::open([path], filter, &layout(), LIMIT, OnLoss::Drop)
}

pub(super) fn frame(counter: u32, length: usize) -> Vec<u8> {
    [&[0xeb, 0x90][..], &(length as u16).to_be_bytes(), &counter.to_be_bytes(), &vec![counter as u8; length]]
        .concat()
}

/// Returns the counters of the frames in files, what broke, and the counts.
fn decoded_all(files: &[&[u8]], filter: FlowFilter) -> (Vec<u64>, Vec<String>, CaptureCounts) {
    let dir = tempfile::tempdir().unwrap();
    let paths = files.iter().enumerate().map(|(number, bytes)| {
        let path = dir.path().join(number.to_string());
        fs::write(&path, bytes).unwrap();
        path
    });
    counters(Capture::of(paths.collect(), filter, flows(filter, &layout())))
}

fn counters(mut capture: Capture) -> (Vec<u64>, Vec<String>, CaptureCounts) {
    let (mut counters, mut broken) = (Vec::new(), Vec::new());
    loop {
        match capture.next_frame() {
            Ok(Some(frame)) => counters.push(frame.fragment.event.number()),
            Ok(None) => break,
            Err(error) => broken.push(error.to_string()),
        }
    }
    assert!(capture.next_frame().unwrap().is_none(), "the end stays the end");
    (counters, broken, capture.counts())
}

/// Returns what a file with these bytes has; if it is no capture, nothing.
fn of_bytes(bytes: &[u8]) -> (Vec<u64>, Vec<String>, CaptureCounts) {
    match Capture::of_bytes(bytes.to_vec(), FlowFilter::default(), &layout(), LIMIT) {
        Ok(capture) => counters(capture),
        Err(error) => (vec![], vec![error.to_string()], CaptureCounts::default()),
    }
}

fn decoded(file: &[u8]) -> (Vec<u64>, CaptureCounts) {
    let (counters, broken, counts) = decoded_all(&[file], FlowFilter::default());
    assert!(broken.is_empty(), "{broken:?}");
    (counters, counts)
}

/// Returns a connection with three frames in seven segments, of which the test changes the order.
fn segments() -> Vec<Vec<u8>> {
    let bytes = [frame(1, 100), frame(2, 300), frame(3, 50)].concat();
    let mut packets = vec![tcp(999, SYN, b"")];
    let mut sequence = 1000;
    for piece in bytes.chunks(80) {
        packets.push(tcp(sequence, 0, piece));
        sequence += piece.len() as u32;
    }
    packets.push(tcp(sequence, FIN, b""));
    packets.iter().map(|segment| ethernet(&ipv4(TCP, segment))).collect()
}

#[test]
fn both_formats_in_all_orders_of_bytes_have_the_same_packets() {
    let packets: Vec<Vec<u8>> = (1..=3).map(|number| ethernet(&ipv4(UDP, &udp(&frame(number, 9))))).collect();
    for file in [
        pcap(Order::Little, 0xa1b2_c3d4, 1, &packets),
        pcap(Order::Little, 0xa1b2_3c4d, 1, &packets),
        pcap(Order::Big, 0xa1b2_c3d4, 1, &packets),
        pcap(Order::Big, 0xa1b2_3c4d, 1, &packets),
        pcapng(Order::Little, 1, &packets),
        pcapng(Order::Big, 1, &packets),
    ] {
        let (counters, counts) = decoded(&file);
        assert_eq!(counters, [1, 2, 3]);
        assert_eq!((counts.packets, counts.used, counts.others, counts.is_lossless()), (3, 3, 0, true));
    }
}

#[test]
fn files_follow_one_another_and_a_connection_may_span_them() {
    let packets = segments();
    let first = pcap(Order::Little, 0xa1b2_c3d4, 1, &packets[..4]);
    let second = pcapng(Order::Big, 1, &packets[4..]);
    let (counters, broken, counts) = decoded_all(&[&first, &second], FlowFilter::default());
    assert_eq!((counters, broken.len(), counts.is_lossless()), (vec![1, 2, 3], 0, true), "{counts}");
    // A damaged file costs the frames in it, and no more.
    let (counters, broken, counts) = decoded_all(&[&first[..300], &second], FlowFilter::default());
    assert!(broken[0].contains("ends within the packet at byte"), "{broken:?}");
    assert!(counts.missing_bytes > 0 && !counts.is_lossless(), "{counts}");
    assert_eq!(counters, [3]);
    let (_, broken, _) = decoded_all(&[b"nothing", &second], FlowFilter::default());
    assert!(broken[0].contains("neither a pcap nor a pcapng file"), "{broken:?}");
    let (_, broken, _) = decoded_all(&[], FlowFilter::default());
    assert!(broken.is_empty());
}

#[test]
fn a_filter_leaves_the_other_direction_alone_and_names_it() {
    let mut packets = segments();
    packets.push(ethernet(&ipv4_between([CLIENT, BOARD], TCP, &tcp_ports([5000, 24], 1, SYN, b"hello"))));
    packets.push(ethernet(b"\x45 is no IP packet"));
    let file = pcap(Order::Little, 0xa1b2_c3d4, 1, &packets);
    let filter = FlowFilter { from: "10.0.0.1:24".parse().unwrap(), ..FlowFilter::default() };
    let (counters, _, counts) = decoded_all(&[&file], filter);
    assert_eq!((counters, counts.losses.is_none()), (vec![1, 2, 3], true));
    assert_eq!((counts.packets, counts.used, counts.others), (10, 8, 1));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, &file).unwrap();
    let mut capture = open(path, filter).unwrap();
    while capture.next_frame().unwrap().is_some() {}
    let flows: Vec<String> =
        capture.flows().map(|(flow, count)| format!("{flow}: {} {}", count.packets, count.is_used)).collect();
    assert_eq!(
        flows,
        ["TCP from 10.0.0.1:24 to 10.0.0.2:5000: 8 true", "TCP from 10.0.0.2:5000 to 10.0.0.1:24: 1 false"]
    );
}

#[test]
fn what_is_no_capture_is_refused_at_once() {
    let path = Path::new("/nowhere/run.pcap").to_owned();
    let refused = open(path, FlowFilter::default()).unwrap_err().to_string();
    assert!(refused.contains("cannot read /nowhere/run.pcap"), "{refused}");
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"\xd4\xc3", b"\x1f\x8b\x08\x00 compressed"] {
        let path = dir.path().join("file");
        fs::write(&path, bytes).unwrap();
        let refused = open(path, FlowFilter::default()).unwrap_err().to_string();
        assert!(refused.contains("neither a pcap nor a pcapng file"), "{refused}");
    }
}

/// A capture with everything that is decoded.
fn rich() -> Vec<u8> {
    let large = ipv4_fragments(7, &udp(&frame(9, 900)), 400);
    let mut packets = segments();
    packets.swap(2, 3);
    packets.extend(large.iter().map(|packet| ethernet(packet)));
    packets.push(ethernet(&ipv6(UDP, &udp(&frame(10, 10)))));
    packets.push(vlan(&ipv4(UDP, &udp(&frame(11, 10)))));
    pcapng(Order::Little, 1, &packets)
}

#[test]
fn a_file_may_end_anywhere() {
    for file in [rich(), pcap(Order::Big, 0xa1b2_3c4d, 1, &segments())] {
        let (all, _, counts) = of_bytes(&file);
        assert!(counts.is_lossless(), "{counts}");
        for length in 0..file.len() {
            let (counters, broken, _) = of_bytes(&file[..length]);
            assert!(broken.len() <= 1, "{broken:?}");
            assert!(counters.iter().all(|counter| all.contains(counter)), "{length} B: {counters:?}");
        }
    }
}

/// The frames of connections that pause come when they are whole, and not with the next packet.
#[test]
fn a_pause_confirms_a_frame() {
    let first = ethernet(&ipv4(TCP, &tcp(1000, 0, &frame(1, 10))));
    let other = ethernet(&ipv4(UDP, &udp(&frame(2, 10))));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for (micros, expected) in [(1999, [2, 1]), (2000, [1, 2]), (900_000, [1, 2])] {
        let file = pcap_at(Order::Little, 0xa1b2_c3d4, 1, &[(0, first.clone()), (micros, other.clone())]);
        fs::write(&path, file).unwrap();
        let mut capture = open(path.clone(), FlowFilter::default()).unwrap();
        let frames: Vec<CapturedFrame> = std::iter::from_fn(|| capture.next_frame().unwrap()).collect();
        let counters: Vec<u64> = frames.iter().map(|frame| frame.fragment.event.number()).collect();
        assert_eq!(counters, expected, "{micros} µs");
        if micros >= 2000 {
            assert_eq!(frames[0].time, Duration::from_secs(SECOND.into()) + Duration::from_millis(2));
            assert_eq!(frames[1].time - frames[0].time, Duration::from_micros(u64::from(micros) - 2000));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_damage_panics_or_loops(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for mut file in [rich(), pcap(Order::Little, 0xa1b2_c3d4, 113, &[sll(&ipv4(TCP, &tcp(9, SYN, &frame(1, 20))))])] {
            for (at, value) in &flips {
                let at = at.index(file.len());
                file[at] = *value;
            }
            let (counters, broken, counts) = of_bytes(&file);
            prop_assert!(counters.len() <= 8 && broken.len() <= 1);
            prop_assert!(counts.packets <= 20);
        }
    }
}

/// The packets of a fragment may come in any order, and late ones are given up in capture time.
#[test]
fn packets_of_fragments_are_put_together() {
    let mut layout = FrameLayout::new(3, Extent::Datagram);
    layout.keep = Kept::Payload;
    layout.counter = Some(FrameField::new(0, 1));
    let (number, count) = (FrameField::new(1, 1), FrameField::new(2, 1));
    layout.packets = Some(PacketLayout::Numbered { number, first: 0, end: LastPacket::Count(count) });
    let packet = |event: u8, number: u8| ethernet(&ipv4(UDP, &udp(&[event, number, 2, event, number])));
    let packets = [
        (0, packet(1, 1)),
        (1, packet(1, 0)),
        (2, packet(2, 0)),
        (3, packet(3, 0)),
        (4, packet(3, 1)),
        (5, ethernet(&ipv4(TCP, &tcp(1, SYN, b"of another board")))),
        (500_000, packet(4, 1)),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, pcap_at(Order::Little, 0xa1b2_c3d4, 1, &packets)).unwrap();
    let mut capture =
        Capture::open([path], FlowFilter::default(), &layout, LIMIT, OnLoss::KeepShort).unwrap();
    let frames: Vec<CapturedFrame> = std::iter::from_fn(|| capture.next_frame().unwrap()).collect();
    let found: Vec<_> =
        frames.iter().map(|frame| (frame.fragment.event.number(), frame.fragment.payload.to_vec())).collect();
    assert_eq!(found, [(1, vec![1, 0, 1, 1]), (2, vec![2, 0]), (3, vec![3, 0, 3, 1]), (4, vec![4, 1])]);
    let counts = capture.counts();
    assert_eq!((counts.losses.lost_packets, counts.used, counts.packets), (2, 6, 7));
    let after = frames[1].time - frames[0].time;
    assert!(after >= Duration::from_millis(100) && after <= Duration::from_millis(500), "{after:?}");
}
