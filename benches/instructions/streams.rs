//! Both directions of a lane over a stream.

use std::{
    future::poll_fn,
    io::{Read as _, Write as _},
    net::TcpListener,
    task::{Context, Poll, Waker},
};

use bytes::BytesMut;
use evb_core::{
    builder::BuilderCore,
    id::Peer,
    index::LaneIndex,
    lane::Taken,
    source::SourceCore,
    wire::{
        control::{Hello, Welcome},
        preamble::ConnectionKind,
        record::RecordHeader,
    },
};
use evb_net::{
    clock,
    handshake::{Channel, welcomed},
    lane::{BuilderEnd, ReadBuffers, SourceEnd},
    security::{PresharedKey, Sealer, Security},
};
use evb_shaper::Policy;
use tokio::{net::TcpStream, runtime::Runtime};

use super::machines::{ASSOCIATION, builder_core, lane_bytes, payload, settle, source_core};

/// Number of lane bytes that are written and read at once.
const STEP: usize = 63_000;

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns both ends of a TCP connection, registered at the runtime.
pub(super) fn pair(runtime: &Runtime) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (two, _) = listener.accept().unwrap();
    let _guard = runtime.enter();
    let watched = |stream: std::net::TcpStream| {
        stream.set_nonblocking(true).unwrap();
        TcpStream::from_std(stream).unwrap()
    };
    (watched(one), watched(two))
}

/// Returns the source's and the builder's channel of a connection, with a shared key if
/// `is_protected`.
pub(super) fn channels(runtime: &Runtime, is_protected: bool) -> (Channel, Channel) {
    let (near, far) = pair(runtime);
    if !is_protected {
        return (near.into(), far.into());
    }
    let (kind, key) = (ConnectionKind::Lane, Security::Psk(PresharedKey::new([1; 32])));
    let hello = Hello::new(Peer::Source(ASSOCIATION.source), Peer::Builder(ASSOCIATION.builder));
    runtime.block_on(async {
        let accepting = async {
            let (mut channel, _) = Channel::accept(far, kind, &key).await.unwrap();
            channel.reply(kind, &welcomed(Welcome::default())).await.unwrap();
            channel
        };
        let (near, far) = tokio::join!(Channel::connect(near, kind, &hello, &key), accepting);
        (near.unwrap().0, far)
    })
}

/// The path of data from the grant to the system call.
pub(super) struct Sending {
    core: SourceCore,
    end: SourceEnd,
    builder: std::net::TcpStream,
    drained: Vec<u8>,
    runtime: Runtime,
}

impl Sending {
    pub(super) fn of(length: usize) -> Self {
        Self::new(length, false)
    }

    pub(super) fn protected(length: usize) -> Self {
        Self::new(length, true)
    }

    fn new(length: usize, is_protected: bool) -> Self {
        let runtime = runtime();
        let (channel, builder) = channels(&runtime, is_protected);
        let builder = builder.into_parts().0.into_std().unwrap();
        let end = SourceEnd::new(channel);
        Self { core: source_core(length, false), end, builder, drained: vec![0; 2 * STEP], runtime }
    }

    pub(super) fn run(&mut self) {
        let Self { core, end, builder, drained, runtime } = self;
        runtime.block_on(poll_fn(|cx| {
            loop {
                match end.poll_flush(cx, core, LaneIndex::new(0)) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(outcome) => outcome.unwrap(),
                }
                // The builder's socket is drained, so that the source's socket always has room.
                while builder.read(drained).is_ok_and(|read| read == drained.len()) {}
                let Some(Taken { range, .. }) = core.take(LaneIndex::new(0), STEP as u64) else {
                    return Poll::Ready(());
                };
                end.writer.send(range);
            }
        }));
    }
}

/// The path of data from the system call to built events, grants and commits included.
pub(super) struct Receiving {
    core: BuilderCore<Policy>,
    end: BuilderEnd,
    buffers: ReadBuffers,
    source: std::net::TcpStream,
    /// The lane's bytes as records.
    records: Vec<Vec<u8>>,
    count: usize,
    runtime: Runtime,
}

impl Receiving {
    pub(super) fn of(length: usize) -> Self {
        Self::new(length, false)
    }

    pub(super) fn protected(length: usize) -> Self {
        Self::new(length, true)
    }

    fn new(length: usize, is_protected: bool) -> Self {
        let runtime = runtime();
        let (source, channel) = channels(&runtime, is_protected);
        let (source, session) = source.into_parts();
        let source = source.into_std().unwrap();
        let mut sealer = session.map(|session| Sealer::new(&session.keys().stream_out));
        let lane = lane_bytes(length);
        let record = |(index, bytes): (usize, &[u8])| {
            let (length, offset) = (bytes.len() as u32, (index * STEP) as u64);
            let record = [&RecordHeader::Data { length, offset }.encode()[..], bytes].concat();
            let Some(sealer) = &mut sealer else { return record };
            let mut parcel = BytesMut::new();
            sealer.seal(&mut BytesMut::from(&record[..]), &mut parcel);
            parcel.to_vec()
        };
        let records = lane.chunks(STEP).enumerate().map(record).collect();
        let (_, count) = payload(length);
        let (end, buffers) = (BuilderEnd::new(channel), ReadBuffers::default());
        Self { core: builder_core(length, false), end, buffers, source, records, count, runtime }
    }

    pub(super) fn run(&mut self) {
        let Self { core, end, buffers, source, records, count, runtime } = self;
        let mut built = 0;
        for record in records {
            source.write_all(record).unwrap();
        }
        runtime.block_on(poll_fn(|cx: &mut Context<'_>| {
            let now = clock::now();
            let _ = end.poll_read(cx, core, LaneIndex::new(0), buffers, now).unwrap();
            built +=
                settle(core, now, |core, lane| core.write_records(LaneIndex::new(lane), &mut end.outgoing));
            assert!(end.poll_flush(&mut Context::from_waker(Waker::noop())).is_ready());
            if built == *count { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}
