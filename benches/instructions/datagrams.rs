//! Both directions of a lane over datagrams.

use std::{
    io::IoSlice,
    task::{Context, Waker},
    time::Duration,
};

use bytes::BytesMut;
use evb_core::{
    builder::BuilderCore,
    index::LaneIndex,
    lane::{Envelope, Taken},
    source::SourceCore,
    units::Bytes,
    wire::datagram::{DATAGRAM_HEADER, DatagramKind},
};
use evb_net::{
    clock,
    lane::datagrams::{BuilderDatagrams, Path, SourceDatagrams},
    security::{DatagramTags, TAG_LENGTH},
    udp::{DatagramSocket, UdpOptions, open},
};
use evb_shaper::Policy;
use tokio::runtime::Runtime;

use super::{
    machines::{ASSOCIATION, DATAGRAM, builder_core, header, lane_bytes, payload, settle, source_core},
    streams::{channels, runtime},
};

const SIZE: usize = DATAGRAM + DATAGRAM_HEADER;
/// Number of segments in a train of 64 kB.
const TRAIN: usize = 44;

/// The path of data from the grant to the system call.
pub(super) struct Sending {
    core: SourceCore,
    end: SourceDatagrams,
    /// Lane bytes of a full segment.
    segment: usize,
    /// The socket that the datagrams go to. No datagram is read from this socket: the kernel drops
    /// those that exceed its buffer.
    _builder: DatagramSocket,
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
        let (channel, _) = channels(&runtime, is_protected);
        let (stream, session) = channel.into_parts();
        let tags = DatagramTags::of(session);
        let _guard = runtime.enter();
        let builder = open("127.0.0.1:0".parse().unwrap(), None, &UdpOptions::default()).unwrap();
        let peer = Some(builder.local_addr().unwrap());
        let socket = open("127.0.0.1:0".parse().unwrap(), peer, &UdpOptions::default()).unwrap();
        let path = Path { mtu: 1500, datagram: SIZE, round_trip: Duration::from_micros(100) };
        let end = SourceDatagrams::new(stream, socket, path, tags);
        drop(_guard);
        let segment = end.lane.datagram() - DATAGRAM_HEADER;
        Self { core: source_core(length, true), end, segment, _builder: builder, runtime }
    }

    pub(super) fn run(&mut self) {
        let _guard = self.runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(Taken { range, request }) =
            self.core.take(LaneIndex::new(0), (TRAIN * self.segment) as u64)
        {
            self.end.lane.send(range, request, clock::now());
            assert!(self.end.poll_flush(&mut cx, &mut self.core, LaneIndex::new(0)).is_ready());
        }
    }
}

/// The path of data from the system call to built events, grants and commits included.
pub(super) struct Receiving {
    core: BuilderCore<Policy>,
    end: BuilderDatagrams,
    source: DatagramSocket,
    trains: Vec<Vec<u8>>,
    count: usize,
    _runtime: Runtime,
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
        let (near, channel) = channels(&runtime, is_protected);
        let (_, session) = near.into_parts();
        let mut tags = DatagramTags::of(session);
        let segment = DATAGRAM - if is_protected { TAG_LENGTH } else { 0 };
        let _guard = runtime.enter();
        let options = UdpOptions { receive_buffer: Some(Bytes::mib(1)), ..UdpOptions::default() };
        let socket = open("127.0.0.1:0".parse().unwrap(), None, &options).unwrap();
        let peer = Some(socket.local_addr().unwrap());
        let source = open("127.0.0.1:0".parse().unwrap(), peer, &UdpOptions::default()).unwrap();
        let mut end = BuilderDatagrams::new(socket, vec![ASSOCIATION.source]);
        end.open(LaneIndex::new(0), channel);
        drop(_guard);
        let lane = lane_bytes(length);
        let length_of_each = segment;
        let sealed = |(index, segment): (usize, &[u8])| {
            let header = header(DatagramKind::Data, index as u32 + 2, (index * length_of_each) as u64);
            let mut datagram = BytesMut::from(&[&header.seal([segment])[..], segment].concat()[..]);
            Envelope::close(&mut datagram, &mut tags);
            datagram.to_vec()
        };
        let datagrams: Vec<Vec<u8>> = lane.chunks(segment).enumerate().map(sealed).collect();
        let trains = datagrams.chunks(TRAIN).map(<[Vec<u8>]>::concat).collect();
        let (_, count) = payload(length);
        Self { core: builder_core(length, true), end, source, trains, count, _runtime: runtime }
    }

    pub(super) fn run(&mut self) {
        let mut built = 0;
        for train in &self.trains {
            self.source.send_train(&[IoSlice::new(train)], SIZE as u16, None).unwrap();
            let now = clock::now();
            self.end.recv(&mut self.core, now, |_, end| panic!("{end}")).unwrap();
            let end = &mut self.end;
            built += settle(&mut self.core, now, |core, lane| end.send(core, LaneIndex::new(lane), now));
        }
        assert_eq!(built, self.count);
    }
}
