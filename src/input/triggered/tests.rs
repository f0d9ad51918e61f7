use std::time::Duration;

use evb_core::{fragment::Fragment, id::SourceId, trigger::announcement::Announcement, units::Bytes};
use tokio::{net::UdpSocket, sync::mpsc, task::JoinHandle, time::timeout};

use super::*;
use crate::input::{FragmentSize, Generator, taker::tests::Channel};

/// Starts a source that follows announced triggers from `first` on. Returns a socket for
/// announcements, the fragments of the source, and its task.
async fn following(first: EventId) -> (UdpSocket, mpsc::Receiver<Fragment>, JoinHandle<()>) {
    let mut triggers = TriggerListener::bind(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(triggers.address().unwrap()).await.unwrap();
    let size = FragmentSize::Fixed(Bytes::new(100));
    let mut generator = Generator::new(SourceId::new(1), size, Bytes::new(100), 1);
    let (sender, fragments) = mpsc::channel(100);
    let task =
        tokio::spawn(async move { follow(&mut triggers, &mut generator, Channel(sender), first).await });
    (socket, fragments, task)
}

#[tokio::test]
async fn each_announced_event_gets_one_fragment_whatever_the_network_does() {
    let (socket, mut fragments, following) = following(EventId::FIRST).await;
    // Announcements in order, doubled, overtaken, after a loss, without a number, malformed, far
    // ahead, and the next in order.
    for number in [1, 2, 2, 1, 5] {
        socket.send(&Announcement { number, sent_ns: 0 }.encode()).await.unwrap();
    }
    socket.send(b"3").await.unwrap();
    socket.send(b"evbt and then nothing of use").await.unwrap();
    socket.send(&Announcement { number: u64::MAX, sent_ns: 0 }.encode()).await.unwrap();
    socket.send(&Announcement { number: 6, sent_ns: 0 }.encode()).await.unwrap();
    for number in 1..=6 {
        let fragment = timeout(Duration::from_secs(5), fragments.recv()).await.unwrap().unwrap();
        assert_eq!(fragment.event, EventId::new(number));
    }
    assert!(timeout(Duration::from_millis(50), fragments.recv()).await.is_err());
    drop(fragments);
    socket.send(&Announcement { number: 7, sent_ns: 0 }.encode()).await.unwrap();
    timeout(Duration::from_secs(5), following).await.unwrap().unwrap();
}

/// A source that is restarted within a run follows triggers from its first event on.
#[tokio::test]
async fn who_comes_late_follows_from_there() {
    let (socket, mut fragments, following) = following(EventId::new(5_000_001)).await;
    for number in [4_999_999, 5_000_002] {
        socket.send(&Announcement { number, sent_ns: 0 }.encode()).await.unwrap();
    }
    for number in [5_000_001, 5_000_002] {
        let fragment = timeout(Duration::from_secs(5), fragments.recv()).await.unwrap().unwrap();
        assert_eq!(fragment.event, EventId::new(number));
    }
    following.abort();
}
