//! Lanes whose datagrams carry tags, with an attacker on the path.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    index::LaneIndex,
    wire::{
        control::{DatagramReport, Hello, Welcome},
        preamble::ConnectionKind,
    },
};

use super::*;
use crate::{
    handshake::{Channel, welcomed},
    security::{DatagramTags, PresharedKey, Security},
};

/// Returns the source's end and the builder's end of a connection between peers that share a key.
async fn channels() -> (Channel, Channel) {
    let key = Security::Psk(PresharedKey::new([6; 32]));
    let (near, far) = streams("127.0.0.1".parse().unwrap()).await;
    let kind = ConnectionKind::Lane;
    let hello = Hello::new(Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(4)));
    let accepting = async {
        let (mut channel, _) = Channel::accept(far, kind, &key).await.unwrap();
        channel.reply(kind, &welcomed(Welcome::default())).await.unwrap();
        channel
    };
    let (source, builder) = tokio::join!(Channel::connect(near, kind, &hello, &key), accepting);
    (source.unwrap().0, builder)
}

/// Carries datagrams between the source and `builder`. `meddle` gets each datagram of the source,
/// and returns the datagrams that continue in its place.
fn relay(builder: SocketAddr, mut meddle: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = relay.local_addr().unwrap();
    // The relay's thread runs until the process of the test ends.
    std::thread::spawn(move || {
        let (mut bytes, mut source) = ([0; 2000], None);
        while let Ok((length, from)) = relay.recv_from(&mut bytes) {
            if from == builder {
                let _ = source.map(|to| relay.send_to(&bytes[..length], to));
                continue;
            }
            source = Some(from);
            for datagram in meddle(&bytes[..length]) {
                let _ = relay.send_to(&datagram, builder);
            }
        }
    });
    address
}

/// Returns a lane between peers that share a key, whose datagrams pass through `meddle`.
async fn protected(meddle: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Rig {
    let mut rig = Rig::new("127.0.0.1").await;
    let relay = relay(rig.address, meddle);
    let (near, far) = channels().await;
    rig.builder.open(LaneIndex::new(0), far);
    let mut socket = open("127.0.0.1:0".parse().unwrap(), Some(relay), &UdpOptions::default()).unwrap();
    let (stream, session) = near.into_parts();
    let mut tags = DatagramTags::of(session);
    let estimate = Duration::from_millis(20);
    let path = {
        let Rig { builder, core, .. } = &mut rig;
        let answers = std::future::poll_fn(|cx| {
            builder.poll_recv(cx, core, clock::now(), |_, end| panic!("{end}")).unwrap();
            Poll::<()>::Pending
        });
        tokio::select! {
            path = probe_tagged(&mut socket, relay, ASSOCIATION, 1500, estimate, &mut tags) => path.unwrap(),
            () = answers => unreachable!("it answers for ever"),
        }
    };
    assert_eq!(path.datagram, 1472, "tags are within the packet");
    rig.end = SourceDatagrams::new(stream, socket, path, tags);
    assert_eq!(rig.end.lane.datagram(), 1456);
    rig
}

async fn goes_over(rig: &mut Rig) -> DatagramReport {
    let lengths = [0, 84, 1, 100_000, 1376, 1377, 0, 400_000];
    rig.push(&lengths);
    rig.run(|rig| rig.events.len() == lengths.len()).await;
    assert!(rig.ended.is_empty(), "{:?}", rig.ended);
    for event in &rig.events {
        let fragment = event.fragments().next().unwrap();
        let length = lengths[event.id.number() as usize - 1];
        assert!(event.is_complete() && fragment.payload == content(event.id, length), "event {}", event.id);
    }
    rig.builder.report()
}

/// Returns a changed copy of a datagram that keeps the original tag.
fn changed(datagram: &[u8], change: impl FnOnce(&mut DatagramHeader, &mut [u8])) -> Vec<u8> {
    let (inner, tag) = datagram.split_at(datagram.len() - 16);
    let (mut header, body) = DatagramHeader::decode(inner).unwrap();
    let mut body = body.to_vec();
    change(&mut header, &mut body);
    [&header.encode()[..], &body, tag].concat()
}

#[tokio::test]
async fn datagrams_with_tags_go_over() {
    let summed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&summed);
    let mut rig = protected(move |datagram| {
        counted.fetch_add(u64::from(datagram[4..8] != [0; 4]), Ordering::Relaxed);
        vec![datagram.to_vec()]
    })
    .await;
    let report = goes_over(&mut rig).await;
    assert_eq!(summed.load(Ordering::Relaxed), 0, "have a checksum beside their tag");
    assert_eq!((report.forged, report.replayed, report.damaged, report.foreign), (0, 0, 0, 0));
}

#[tokio::test]
async fn forged_ones_are_dropped_and_counted_whatever_they_say() {
    let mut count = 0;
    let forged = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&forged);
    let mut rig = protected(move |datagram| {
        count += 1;
        let mut all = vec![datagram.to_vec()];
        let lie = match count % 9 {
            0 => changed(datagram, |header, _| header.offset = header.offset.wrapping_add(100)),
            1 => changed(datagram, |header, _| header.sequence = header.sequence.wrapping_add(1000)),
            2 => changed(datagram, |header, _| header.heard = header.heard.wrapping_add(5)),
            3 => changed(datagram, |header, _| header.request ^= 7),
            4 => changed(datagram, |_, body| body.iter_mut().for_each(|byte| *byte ^= 1)),
            5 => changed(datagram, |header, _| {
                let is_data = header.kind == DatagramKind::Data;
                header.kind = if is_data { DatagramKind::Records } else { DatagramKind::Data };
            }),
            6 => {
                // This case flips a bit of the tag itself.
                let mut lie = datagram.to_vec();
                let at = lie.len() - 1 - count % 16;
                lie[at] ^= 1;
                lie
            }
            7 => {
                // This case adds a correct checksum, although the tag was computed with a checksum
                // of zero.
                let sealed = |header: &DatagramHeader, body: &[u8]| [&header.seal([body])[..], body].concat();
                let (inner, tag) = datagram.split_at(datagram.len() - 16);
                let (header, body) = DatagramHeader::decode(inner).unwrap();
                [&sealed(&header, body)[..], tag].concat()
            }
            _ => return all,
        };
        // A datagram with an empty body is unchanged by the case that flips bits of the body, and
        // is then no forgery.
        if lie != datagram {
            counted.fetch_add(1, Ordering::Relaxed);
            all.insert(0, lie);
        }
        all
    })
    .await;
    let report = goes_over(&mut rig).await;
    let forged = forged.load(Ordering::Relaxed);
    assert!(forged > 50 && report.forged >= forged - 10, "{report:?}, {forged} were sent");
    assert!(report.forged <= forged && report.replayed == 0, "{report:?}, {forged} were sent");
}

#[tokio::test]
async fn replayed_ones_are_dropped_and_counted_soon_and_late() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut rig = protected(move |datagram| {
        kept.push(datagram.to_vec());
        let old = kept[kept.len() / 2].clone();
        vec![datagram.to_vec(), datagram.to_vec(), old]
    })
    .await;
    let report = goes_over(&mut rig).await;
    assert!(report.replayed > 300 && report.forged == 0, "{report:?}");
    assert_eq!(
        rig.core.datagram_counters(LaneIndex::new(0)).recovery.duplicates,
        0,
        "none came to the machine"
    );
}

#[tokio::test]
async fn a_replayed_probe_does_not_move_the_lane() {
    let probes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&probes);
    let mut rig = protected(move |datagram| {
        let is_probe = datagram[1] & 0x0f == 3;
        is_probe.then(|| kept.lock().unwrap().push(datagram.to_vec()));
        vec![datagram.to_vec()]
    })
    .await;
    let thief = UdpSocket::bind("127.0.0.1:0").unwrap();
    thief.set_nonblocking(true).unwrap();
    let probe = probes.lock().unwrap()[0].clone();
    thief.send_to(&probe, rig.address).unwrap();
    rig.take(|rig| rig.builder.report().replayed == 1).await;
    goes_over(&mut rig).await;
    assert!(thief.recv(&mut [0; 2000]).is_err(), "it hears nothing");
}

#[tokio::test]
async fn who_has_no_key_is_not_heard_on_a_lane_that_has_one() {
    let mut rig = protected(|datagram| vec![datagram.to_vec()]).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let header = DatagramHeader {
        kind: DatagramKind::Data,
        request: 0,
        association: ASSOCIATION,
        sequence: 1,
        heard: 0,
        offset: 0,
    };
    let bare = [&header.seal([&[7; 100][..]])[..], &[7; 100]].concat();
    stranger.send_to(&bare, rig.address).unwrap();
    rig.take(|rig| rig.builder.report().forged == 1).await;
    goes_over(&mut rig).await;
}
