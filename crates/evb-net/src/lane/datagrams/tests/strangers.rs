//! Datagrams that belong to no lane, or that were damaged.

use std::net::UdpSocket;

use evb_core::{
    id::{BuilderId, Epoch, SourceId},
    index::LaneIndex,
    wire::{control::DatagramReport, record::RecordHeader},
};

use super::*;

fn sealed(association: Association, kind: DatagramKind, body: &[u8]) -> Vec<u8> {
    let header = DatagramHeader { kind, request: 0, association, sequence: 1, heard: 0, offset: 0 };
    [&header.seal([body])[..], body].concat()
}

#[tokio::test]
async fn they_are_dropped_and_counted_by_kind_and_the_lane_goes_on() {
    let mut rig = Rig::new("127.0.0.1").await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |bytes: &[u8]| assert_eq!(stranger.send_to(bytes, rig.address).unwrap(), bytes.len());
    let data = sealed(ASSOCIATION, DatagramKind::Data, b"sixteen bytes of");
    let mut foreign = data.clone();
    foreign[0] = b'E';
    let mut version = data.clone();
    version[1] = 0x11;
    for bytes in [&b""[..], b"short", &data[..DATAGRAM_HEADER - 1], &foreign, &version] {
        send(bytes);
    }
    for at in [2, 5, 10, 25, 39, 40, 55] {
        let mut damaged = data.clone();
        damaged[at] ^= 4;
        send(&damaged);
    }
    send(&data[..data.len() - 1]);
    for association in [
        Association { epoch: Epoch::new(6), ..ASSOCIATION },
        Association { source: SourceId::new(2), ..ASSOCIATION },
        Association { builder: BuilderId::new(5), ..ASSOCIATION },
        Association { connection: 0xabce, ..ASSOCIATION },
    ] {
        send(&sealed(association, DatagramKind::Data, b"stale"));
    }
    rig.push(&[5000; 3]);
    rig.run(|rig| rig.events.len() == 3).await;
    assert!(rig.ended.is_empty(), "{:?}", rig.ended);
    assert_eq!(
        rig.builder.report(),
        DatagramReport { damaged: 8, foreign: 5, stale: 4, ..DatagramReport::default() }
    );
}

#[tokio::test]
async fn only_the_lanes_own_datagrams_say_where_its_source_is() {
    let mut rig = Rig::new("127.0.0.1").await;
    let sockets = ["stranger", "source"].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
    }
    let [stranger, source] = &sockets;
    let heard = |socket: &UdpSocket| socket.recv(&mut [0; 2000]).is_ok();
    let other = Association { connection: 0xabce, ..ASSOCIATION };
    let records = RecordHeader::Announce { count: 0, offset: 0 }.encode();
    // Records with another connection number get no answer, neither before nor after the lane's
    // source has sent a datagram.
    for (socket, association, comes) in [
        (stranger, other, [false, false]),
        (source, ASSOCIATION, [false, true]),
        (stranger, other, [false, true]),
    ] {
        socket.send_to(&sealed(association, DatagramKind::Records, &records), rig.address).unwrap();
        let before = rig.core.datagram_counters(LaneIndex::new(0)).segments + rig.builder.report().stale;
        rig.take(|rig| {
            rig.core.datagram_counters(LaneIndex::new(0)).segments + rig.builder.report().stale > before
        })
        .await;
        rig.builder.send(&mut rig.core, LaneIndex::new(0), clock::now());
        assert_eq!([stranger, source].map(heard), comes);
    }
    assert_eq!(rig.builder.report().stale, 2);
}

#[tokio::test]
async fn what_only_a_builder_may_send_ends_the_lane() {
    let mut rig = Rig::new("127.0.0.1").await;
    let liar = UdpSocket::bind("127.0.0.1:0").unwrap();
    liar.send_to(&sealed(ASSOCIATION, DatagramKind::ProbeReply, b""), rig.address).unwrap();
    rig.take(|rig| !rig.ended.is_empty()).await;
    assert!(matches!(rig.ended[0], (0, LaneEnd::Datagram(_))), "{:?}", rig.ended[0]);
}
