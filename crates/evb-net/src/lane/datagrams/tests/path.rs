//! Tests of probing the path to a builder.

use std::net::SocketAddr;

use evb_core::{index::LaneIndex, units::Bytes};

use super::{rig::builder_core, *};
use crate::{
    lane::{PathError, Progress},
    udp::tests::sys_namespace::leave_network,
};

/// Probes the path to a builder that listens, with packets of at most `mtu` bytes.
async fn probed(local: &str, mtu: u32) -> Result<Path, PathError> {
    let local: IpAddr = local.parse().unwrap();
    let options = UdpOptions { receive_buffer: Some(Bytes::mib(1)), ..UdpOptions::default() };
    let socket = open((local, 0).into(), None, &options).unwrap();
    let peer = socket.local_addr().unwrap();
    let (_stream, other) = streams(local).await;
    let mut builder = BuilderDatagrams::new(socket, vec![ASSOCIATION.source]);
    builder.open(LaneIndex::new(0), other);
    let mut core = builder_core();
    let answers = std::future::poll_fn(|cx| {
        while builder.poll_recv(cx, &mut core, clock::now(), |_, end| panic!("{end}")).unwrap()
            == Progress::More
        {}
        Poll::<()>::Pending
    });
    let mut socket = open((local, 0).into(), Some(peer), &UdpOptions::default()).unwrap();
    tokio::select! {
        path = probe(&mut socket, peer, ASSOCIATION, mtu, Duration::from_micros(100)) => path,
        () = answers => unreachable!("it answers for ever"),
    }
}

#[tokio::test]
async fn the_largest_packets_that_are_answered_are_the_path() {
    for (mtu, datagram) in [(1500, 1472), (9000, 8972), (1280, 1252)] {
        let path = probed("127.0.0.1", mtu).await.unwrap();
        assert_eq!((path.mtu, path.datagram), (mtu, datagram));
        assert!(path.round_trip > Duration::ZERO && path.round_trip < Duration::from_secs(1), "{path:?}");
    }
}

#[tokio::test]
async fn ipv6_leaves_less_of_a_packet() {
    let Some(()) = evb_needs::granted(evb_needs::ipv6()) else { return };
    let path = probed("::1", 1500).await.unwrap();
    assert_eq!((path.mtu, path.datagram), (1500, 1452));
}

/// Probes an address at which no builder answers.
async fn silence(peer: SocketAddr) {
    let mut socket = open("127.0.0.1:0".parse().unwrap(), Some(peer), &UdpOptions::default()).unwrap();
    let found = probe(&mut socket, peer, ASSOCIATION, 1280, Duration::ZERO).await;
    match found {
        Err(PathError::Silence { peer: silent }) => assert_eq!(silent, peer),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_builder_that_does_not_answer_is_silent() {
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let began = clock::now();
    silence(mute.local_addr().unwrap()).await;
    // The four attempts wait 20, 40, 80 and 160 ms, since each attempt waits twice as long as the
    // previous attempt.
    let took = clock::now().since(began);
    assert!(took >= Duration::from_millis(300), "{took:?}");
    mute.set_nonblocking(true).unwrap();
    let mut bytes = [0; 2000];
    let lengths: Vec<_> = std::iter::from_fn(|| mute.recv(&mut bytes).ok()).collect();
    assert_eq!(lengths, [1252; 4]);
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_silent_too() {
    silence(SocketAddr::from(([127, 0, 0, 1], evb_needs::free_ports(1)[0]))).await;
}

#[tokio::test]
async fn answers_to_others_or_of_other_sizes_are_none() {
    let liar = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = liar.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        for _ in 0..4 {
            let (length, from) = liar.recv_from(&mut bytes).unwrap();
            let (header, _) = DatagramHeader::open(&bytes[..length]).unwrap();
            let reply = DatagramHeader { kind: DatagramKind::ProbeReply, offset: length as u64, ..header };
            let other = Association { connection: 1, ..header.association };
            for lie in [
                DatagramHeader { offset: length as u64 - 1, ..reply },
                DatagramHeader { association: other, ..reply },
                DatagramHeader { kind: DatagramKind::Probe, ..reply },
            ] {
                liar.send_to(&lie.seal([]), from).unwrap();
            }
        }
    });
    silence(address).await;
    answering.join().unwrap();
}

#[tokio::test]
async fn a_path_that_shrinks_ends_the_lane_so_that_it_is_probed_anew() {
    let alone = || {
        evb_needs::programs(&["ip"])?;
        let namespace = evb_needs::Missing::new("a network namespace of its own, as root");
        leave_network().map_err(|error| namespace.because(error))?;
        evb_needs::run("ip link set lo up")
    };
    let Some(_) = evb_needs::granted(alone()) else { return };
    let mut rig = Rig::new("127.0.0.1").await;
    rig.push(&[20_000]);
    rig.run(|rig| rig.events.len() == 1).await;
    evb_needs::run("ip link set lo mtu 1300").unwrap();
    rig.push_from(2, &[20_000]);
    rig.run(|rig| !rig.ended.is_empty()).await;
    assert!(matches!(rig.ended[0].1, LaneEnd::PathShrank(1500)), "{:?}", rig.ended[0]);
}
