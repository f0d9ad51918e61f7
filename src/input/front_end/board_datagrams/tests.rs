use std::net::UdpSocket;

use evb_core::{
    fragment::Timestamp,
    framing::{Extent, FrameField, FrameLayout, OnLoss},
    id::EventId,
    units::Bytes,
};
use tokio::sync::mpsc;

use super::*;
use crate::input::taker::tests::Channel;

fn decoder() -> Datagrams {
    let mut layout = FrameLayout::new(2, Extent::Datagram);
    layout.counter = Some(FrameField::new(0, 2));
    Datagrams::new(layout, Bytes::new(100), OnLoss::Drop).unwrap()
}

fn listening(address: SocketAddr) -> Listening {
    Listening { address, group: None, interface: None, from: None, receive_buffer: Bytes::kib(64) }
}

/// Serves the boards, and returns what they deliver.
fn served(boards: BoardDatagrams) -> mpsc::Receiver<Fragment> {
    let (sender, receiver) = mpsc::channel(10);
    tokio::spawn(boards.serve_to(Channel(sender)));
    receiver
}

#[tokio::test]
async fn sources_share_a_port_if_each_names_its_sender() {
    let senders = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let place = SocketAddr::from(([127, 0, 0, 1], evb_needs::free_ports(1)[0]));
    let sources = senders.each_ref().map(|sender| {
        let from = Some(sender.local_addr().unwrap());
        served(BoardDatagrams::open(&Listening { from, ..listening(place) }, decoder()).unwrap())
    });
    for (number, sender) in (1..).zip(&senders) {
        sender.send_to(&[0, number, 7], place).unwrap();
    }
    for (number, mut source) in (1..).zip(sources) {
        let fragment = source.recv().await.unwrap();
        assert_eq!((fragment.event.number(), &fragment.payload[..]), (number, &[0, number as u8, 7][..]));
    }
}

#[tokio::test]
async fn a_group_and_ipv6_are_listened_to() {
    let port = evb_needs::free_ports(1)[0];
    let group = SocketAddr::from(([239, 255, 77, 4], port));
    let place = Listening {
        group: Some(group.ip()),
        interface: Some("127.0.0.1".to_owned()),
        ..listening(SocketAddr::from(([0, 0, 0, 0], port)))
    };
    // Several sources of a host may join one group.
    let mut sources = [(); 2].map(|()| served(BoardDatagrams::open(&place, decoder()).unwrap()));
    let sender = evb_net::multicast::sender(group, Some("127.0.0.1")).await.unwrap();
    sender.send(&[0, 5, 7]).await.unwrap();
    for source in &mut sources {
        assert_eq!(source.recv().await.unwrap().event.number(), 5);
    }
    let Ok(sender) = UdpSocket::bind("[::1]:0") else {
        eprintln!("SKIP: this host has no IPv6");
        return;
    };
    let boards = BoardDatagrams::open(&listening("[::1]:0".parse().unwrap()), decoder()).unwrap();
    sender.send_to(&[0, 6, 7], boards.address().unwrap()).unwrap();
    assert_eq!(served(boards).recv().await.unwrap().event.number(), 6);
}

#[tokio::test]
async fn datagrams_of_other_hosts_are_counted_and_not_used() {
    let boards = BoardDatagrams::open(&listening(SocketAddr::from(([127, 0, 0, 1], 0))), decoder()).unwrap();
    let (place, front_ends) = (boards.address().unwrap(), FrontEnds::new(BeforeStart::Keep, 0));
    let boards = boards.of_host([127, 0, 0, 2].into()).with_front_ends(front_ends.clone());
    let mut source = served(boards);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0, 1, 7], place).unwrap();
    UdpSocket::bind("127.0.0.2:0").unwrap().send_to(&[0, 2, 7], place).unwrap();
    assert_eq!(source.recv().await.unwrap().event.number(), 2);
    // Datagrams are counted when those of their batch are pushed.
    while front_ends.counts().losses.unused_packets == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_was_ready_before_the_start_is_discarded() {
    let boards = BoardDatagrams::open(&listening(SocketAddr::from(([127, 0, 0, 1], 0))), decoder()).unwrap();
    let front_ends = FrontEnds::new(BeforeStart::Discard, 0);
    let mut boards = boards.with_front_ends(front_ends.clone());
    let (sender, mut receiver) = mpsc::channel(10);
    let taker = Channel(sender);
    let mut log = BoardLog::new(taker.source(), front_ends.clone());
    let lossy = |lost_packets| Fragment {
        lost_packets,
        ..Fragment::new(EventId::new(1), Timestamp::new(0), Vec::new())
    };
    boards.fragments.push(lossy(2));
    boards.push(&taker, &mut log).await.unwrap();
    assert_eq!(boards.losses().lost_packets, 0);
    receiver.try_recv().unwrap();
    boards.decoder.take(&[0, 1, 7], clock::now(), &mut boards.fragments);
    boards.fragments.push(lossy(3));
    front_ends.start();
    boards.push(&taker, &mut log).await.unwrap();
    assert!(receiver.try_recv().is_err());
    assert_eq!((front_ends.counts().discarded, boards.losses().lost_packets), (2, 0));
    boards.fragments.push(lossy(4));
    boards.push(&taker, &mut log).await.unwrap();
    assert_eq!(boards.losses().lost_packets, 4);
}
