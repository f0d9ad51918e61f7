use std::{net::SocketAddr, time::Duration};

use evb_core::{
    trigger::{
        TriggerKind,
        announcement::{Announcement, Asked},
    },
    units::Frequency,
};
use evb_net::clock;
use tokio::net::UdpSocket;

use super::{TriggerFeed, TriggerListener};

fn number(asked: Asked) -> u64 {
    match asked {
        Asked::Announced(Announcement { number, .. }) => number,
        Asked::Count(count) => panic!("a count of {count}"),
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), what).await.unwrap()
}

#[tokio::test]
async fn announcements_arrive_numbered_and_garbage_is_passed_over() {
    let mut listener = TriggerListener::bind(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let address = listener.address().unwrap();
    let mut feed = TriggerFeed::datagrams(address, None).await.unwrap();
    feed.tell(2).await.unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for text in [&b"hello"[..], b"evbt", b"99999999999", &[0xFF; 60]] {
        stranger.send_to(text, address).await.unwrap();
    }
    stranger.send_to(b"12\n", address).await.unwrap();
    assert_eq!((number(within(listener.asked()).await), number(within(listener.asked()).await)), (1, 2));
    assert_eq!(within(listener.asked()).await, Asked::Count(12));
}

#[tokio::test]
async fn a_multicast_group_reaches_all_its_listeners() {
    let group: SocketAddr = "239.255.77.12:47112".parse().unwrap();
    let interface = Some("127.0.0.1");
    let mut one = TriggerListener::join(group, interface).unwrap();
    let mut two = TriggerListener::join(group, interface).unwrap();
    let mut feed = TriggerFeed::datagrams(group, interface).await.unwrap();
    feed.tell(3).await.unwrap();
    for listener in [&mut one, &mut two] {
        for expected in 1..=3 {
            assert_eq!(number(within(listener.asked()).await), expected);
        }
    }
    assert!(TriggerListener::join("127.0.0.1:47113".parse().unwrap(), None).is_err(), "not a group");
    assert!(TriggerListener::join(group, Some("no-such-interface")).is_err());
}

#[tokio::test]
async fn a_rate_is_kept() {
    let listener = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut feed = TriggerFeed::datagrams(listener.local_addr().unwrap(), None).await.unwrap();
    let started = clock::now();
    let rate = Frequency::from_hertz(5_000.0).unwrap();
    feed.run(TriggerKind::Periodic { rate }, 1, Some(500)).await.unwrap();
    assert_eq!(feed.sent(), 500);
    assert!(clock::now().since(started) >= Duration::from_millis(99));
}
