use std::{future::poll_fn, ops::Range, time::Duration};

use bytes::BytesMut;
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, Peer, SourceId},
    index::LaneIndex,
    source::{SourceCore, SourceCoreConfig},
    units::Bytes,
    wire::{
        control::{Decisions, Hello, Verdict, Welcome},
        preamble::ConnectionKind,
        record::{ANNOUNCEMENT, RECORD_HEADER, RecordHeader},
    },
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};

use super::SourceEnd;
use crate::{
    clock,
    handshake::{Channel, welcomed},
    security::{Opener, PresharedKey, Security},
};

/// Returns the source's end of a lane whose peers share a key, and the stream and the opener of the
/// builder's end.
async fn protected() -> (SourceEnd, TcpStream, Opener) {
    let key = Security::Psk(PresharedKey::new([6; 32]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let far = listener.accept().await.unwrap().0;
    let kind = ConnectionKind::Lane;
    let hello = Hello::new(Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(4)));
    let accepting = async {
        let (mut channel, _) = Channel::accept(far, kind, &key).await.unwrap();
        channel.reply(kind, &welcomed(Welcome::default())).await.unwrap();
        channel
    };
    let (source, builder) = tokio::join!(Channel::connect(near, kind, &hello, &key), accepting);
    let (stream, session) = builder.into_parts();
    let opener = Opener::new(&session.expect("they share a key").keys().stream_in);
    (SourceEnd::new(source.unwrap().0), stream, opener)
}

fn core() -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(3),
        max_fragment: Bytes::mib(64),
        orphan_timeout: Duration::from_secs(100),
        heartbeat: Duration::from_secs(100),
        builders: vec![BuilderId::new(4)],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut core = SourceCore::new(config, clock::now());
    core.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    core
}

/// Pushes `count` fragments of `size` bytes, of events from `first` on, and announces them.
fn push(core: &mut SourceCore, end: &mut SourceEnd, first: u64, count: u32, size: usize) {
    let now = clock::now();
    let mut decisions = Decisions::starting(EventId::new(first));
    decisions.extend(count, Verdict::Assigned(BuilderId::new(4)));
    core.handle_decisions(&decisions).unwrap();
    for event in (first..first + u64::from(count)).map(EventId::new) {
        core.push(Fragment::new(event, Timestamp::default(), vec![7; size]), now).unwrap();
    }
    // The core announces the fragments in batches, as time passes.
    for turn in 0..100 {
        core.announce(
            LaneIndex::new(0),
            now + Duration::from_millis(turn * 100),
            &mut end.writer.announcements,
        );
    }
}

/// Grants lane bytes up to `upto`, and queues all granted bytes for sending.
fn grant(core: &mut SourceCore, end: &mut SourceEnd, upto: u64) {
    core.handle_grant(LaneIndex::new(0), upto).unwrap();
    while let Some(taken) = core.take(LaneIndex::new(0), u64::MAX) {
        end.writer.send(taken.range);
    }
}

/// Reads records until data up to `until` has arrived. Returns the number of announced fragments,
/// and the ranges of the data records.
async fn records(stream: &mut TcpStream, opener: &mut Opener, until: u64) -> (usize, Vec<Range<u64>>) {
    let (mut content, mut announced, mut data) = (BytesMut::new(), 0, Vec::<Range<u64>>::new());
    loop {
        while opener.open(&mut content).unwrap() {}
        while let Some((header, _)) = content.split_first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*header).expect("records follow one another");
            let body = match header {
                RecordHeader::Data { length, .. } => length as usize,
                _ => header.body(),
            };
            if content.len() < RECORD_HEADER + body {
                break;
            }
            match header {
                RecordHeader::Data { length, offset } => data.push(offset..offset + u64::from(length)),
                _ => announced += body / ANNOUNCEMENT,
            }
            let _ = content.split_to(RECORD_HEADER + body);
        }
        if data.last().is_some_and(|last| last.end >= until) && content.is_empty() {
            return (announced, data);
        }
        stream.read_buf(&mut opener.sealed).await.unwrap();
    }
}

fn is_whole(data: &[Range<u64>], size: u64) -> bool {
    data.first().is_some_and(|first| first.start == 0)
        && data.windows(2).all(|pair| pair[0].end == pair[1].start)
        && data.last().is_some_and(|last| last.end == size)
}

/// Flushes the source's end while the builder's end reads data up to `size`.
async fn carried(
    core: &SourceCore,
    end: &mut SourceEnd,
    far: (&mut TcpStream, &mut Opener),
    size: u64,
) -> (usize, Vec<Range<u64>>) {
    let flushing = poll_fn(|cx| end.poll_flush(cx, core, LaneIndex::new(0)));
    let both = async { tokio::join!(flushing, records(far.0, far.1, size)) };
    let (flushed, read) = tokio::time::timeout(Duration::from_secs(20), both).await.expect("it comes");
    flushed.unwrap();
    read
}

#[tokio::test]
async fn announcements_wait_for_the_end_of_a_record_that_is_under_way() {
    let (mut end, mut stream, mut opener) = protected().await;
    let mut core = core();
    // The first data record is larger than the kernel's buffers, so that it is still being written
    // when the next fragment is announced.
    push(&mut core, &mut end, 1, 1, 32 << 20);
    let size = core.sendable(LaneIndex::new(0)).max((32 << 20) + 16);
    grant(&mut core, &mut end, size);
    let stuck =
        poll_fn(|cx| std::task::Poll::Ready(end.poll_flush(cx, &core, LaneIndex::new(0)).is_pending()));
    assert!(stuck.await);
    push(&mut core, &mut end, 2, 1, 1000);
    let (announced, data) = carried(&core, &mut end, (&mut stream, &mut opener), size).await;
    assert!(is_whole(&data, size), "{data:?}");
    assert!(announced <= 2, "{announced}");
}

#[tokio::test]
async fn a_record_waits_for_the_end_of_announcements_that_are_many() {
    let (mut end, mut stream, mut opener) = protected().await;
    let mut core = core();
    push(&mut core, &mut end, 1, 5000, 10);
    let waiting = end.writer.announcements.len();
    assert!(waiting > 16 << 10, "more than a parcel takes of them: {waiting}");
    let size = 1000 * (10 + 16);
    grant(&mut core, &mut end, size);
    let (announced, data) = carried(&core, &mut end, (&mut stream, &mut opener), size).await;
    assert!(announced >= 1000, "{announced}");
    assert!(is_whole(&data, size), "{data:?}");
}
