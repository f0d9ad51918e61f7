//! Both paths of a lane over a stream.

use std::{
    future::poll_fn,
    io::{Read as _, Write as _},
    net::TcpListener,
    task::{Context, Poll, Waker},
};

use evb_core::{builder::BuilderCore, lane::Taken, source::SourceCore, wire::record::RecordHeader};
use evb_net::{
    clock,
    lane::{BuilderEnd, SourceEnd},
};
use evb_shaper::Policy;
use tokio::{net::TcpStream, runtime::Runtime};

use super::machines::{builder_core, lane_bytes, payload, settle, source_core};

/// What is written and read at once, lane bytes.
const STEP: usize = 63_000;

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Both ends of a connection, watched by the runtime.
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

/// From what is granted to the system call.
pub(super) struct Sending {
    core: SourceCore,
    end: SourceEnd,
    builder: std::net::TcpStream,
    drained: Vec<u8>,
    runtime: Runtime,
}

impl Sending {
    pub(super) fn of(length: usize) -> Self {
        let runtime = runtime();
        let (stream, builder) = pair(&runtime);
        let builder = builder.into_std().unwrap();
        let end = SourceEnd::new(stream);
        Self { core: source_core(length, false), end, builder, drained: vec![0; 2 * STEP], runtime }
    }

    pub(super) fn run(&mut self) {
        let Self { core, end, builder, drained, runtime } = self;
        runtime.block_on(poll_fn(|cx| {
            loop {
                match end.poll_flush(cx, core, 0) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(outcome) => outcome.unwrap(),
                }
                // So that there is always room.
                while builder.read(drained).is_ok_and(|read| read == drained.len()) {}
                let Some(Taken { range, .. }) = core.take(0, STEP as u64) else { return Poll::Ready(()) };
                end.send(range);
            }
        }));
    }
}

/// From the system call to events, grants and commits included.
pub(super) struct Receiving {
    core: BuilderCore<Policy>,
    end: BuilderEnd,
    source: std::net::TcpStream,
    /// Lane bytes as records.
    records: Vec<Vec<u8>>,
    count: usize,
    runtime: Runtime,
}

impl Receiving {
    pub(super) fn of(length: usize) -> Self {
        let runtime = runtime();
        let (source, stream) = pair(&runtime);
        let source = source.into_std().unwrap();
        let lane = lane_bytes(length);
        let record = |(index, bytes): (usize, &[u8])| {
            let (length, offset) = (bytes.len() as u32, (index * STEP) as u64);
            [&RecordHeader::Data { length, offset }.encode()[..], bytes].concat()
        };
        let records = lane.chunks(STEP).enumerate().map(record).collect();
        let (_, count) = payload(length);
        let end = BuilderEnd::new(stream);
        Self { core: builder_core(length, false), end, source, records, count, runtime }
    }

    pub(super) fn run(&mut self) {
        let Self { core, end, source, records, count, runtime } = self;
        let mut built = 0;
        for record in records {
            source.write_all(record).unwrap();
        }
        runtime.block_on(poll_fn(|cx: &mut Context<'_>| {
            let now = clock::now();
            let _ = end.poll_read(cx, core, 0, now).unwrap();
            built += settle(core, now, |core, lane| core.write_records(lane, &mut end.outgoing));
            assert!(end.poll_flush(&mut Context::from_waker(Waker::noop())).is_ready());
            if built == *count { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}
