//! Datagrams that belong to no lane, or that were damaged.

use std::net::UdpSocket;

use evb_core::{
    id::{BuilderId, Epoch, SourceId},
    wire::control::DatagramReport,
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
