use evb_core::{flow::FlowFilter, fragment::Fragment};
use tokio::{sync::mpsc, time::timeout};

use super::*;
use crate::{
    input::{
        capture::tests::{build::*, frame, open},
        taker::tests::Channel,
    },
    source::{BeforeStart, ToldRun},
};

const LONG: Duration = Duration::from_secs(30);

/// Replays datagrams at these microseconds. Returns the frames, and the state of the front ends.
fn replayed(times: &[u32], speed: ReplaySpeed) -> (mpsc::Receiver<Fragment>, FrontEnds) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.pcap");
    let packet = |(number, time): (u32, &u32)| (*time, ethernet(&ipv4(UDP, &udp(&frame(number, 9)))));
    let packets: Vec<_> = (0..).zip(times).map(packet).collect();
    std::fs::write(&path, pcap_at(Order::Little, 0xa1b2_c3d4, 1, &packets)).unwrap();
    let mut capture = open(path, FlowFilter::default()).unwrap();
    // The file stays open when the directory is gone.
    assert!(matches!(capture.step(), Ok(CaptureStep::Packet)));
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    let replay = CaptureReplay::new(capture, speed, front_ends.clone());
    let (sender, taken) = mpsc::channel(1);
    tokio::spawn(replay.serve_to(Channel(sender)));
    (taken, front_ends)
}

async fn next(taken: &mut mpsc::Receiver<Fragment>) -> u64 {
    timeout(LONG, taken.recv()).await.expect("in time").expect("replayed").event.number()
}

fn begin(front_ends: &FrontEnds) {
    front_ends.note_run(ToldRun { stage: RunStage::Running, ..ToldRun::default() });
}

#[tokio::test]
async fn a_replay_begins_with_the_run_and_ends_once() {
    let (mut taken, front_ends) = replayed(&[0, 1, 2, 999_999], ReplaySpeed::Max);
    let mut connected = front_ends.connected();
    timeout(LONG, connected.wait_for(|count| *count == 1)).await.unwrap().unwrap();
    assert!(timeout(Duration::from_millis(100), taken.recv()).await.is_err(), "the run has not begun");
    begin(&front_ends);
    // The source refuses event 0, which is counted.
    for event in 1..4 {
        assert_eq!(next(&mut taken).await, event);
    }
    timeout(LONG, connected.wait_for(|count| *count == 0)).await.unwrap().unwrap();
    assert_eq!(front_ends.counts().malformed, 1);
    assert!(timeout(Duration::from_millis(100), taken.recv()).await.is_err(), "it is not repeated");
}

#[tokio::test]
async fn the_speed_keeps_the_distances() {
    for (speed, least) in [(1.0, 240), (2.0, 120), (0.5, 480)] {
        let (mut taken, front_ends) = replayed(&[7, 500_000, 500_000, 740_000], ReplaySpeed::Times(speed));
        begin(&front_ends);
        assert_eq!(next(&mut taken).await, 1);
        let first = Instant::now();
        assert_eq!((next(&mut taken).await, next(&mut taken).await), (2, 3));
        let took = first.elapsed();
        // The first frame may have been late.
        assert!(took > Duration::from_millis(least * 9 / 10), "{took:?} at {speed}");
        assert!(took < Duration::from_millis(least) + LONG, "{took:?} at {speed}");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_stops_nothing() {
    let (mut taken, front_ends) = replayed(&[900_000, 900_000, 100, 900_001], ReplaySpeed::Times(1e-3));
    begin(&front_ends);
    assert_eq!((next(&mut taken).await, next(&mut taken).await, next(&mut taken).await), (1, 2, 3));
}
