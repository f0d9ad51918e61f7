use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant as Clock},
};

use evb_core::{
    id::{BuilderId, Peer},
    wire::control::{Control, Heartbeat, Hello, Message, Welcome},
};
use evb_net::{
    clock,
    control::{ControlLink, Incoming, connect},
};
use tokio::net::TcpListener;

use super::{BURST, Links, MESSAGES_PER_SECOND};

const PEERS: [Peer; 2] = [Peer::Builder(BuilderId::new(1)), Peer::Builder(BuilderId::new(2))];

fn heartbeat() -> Control {
    Control { message: Some(Message::Heartbeat(Heartbeat::default())) }
}

/// Returns both ends of a control connection: the peer's, and the supervisor's.
async fn connection(peer: Peer) -> (ControlLink, ControlLink) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let joined =
        tokio::spawn(async move { connect(&address, None, &Hello::new(peer, Peer::Supervisor)).await });
    let (stream, from) = listener.accept().await.unwrap();
    let mut link = Incoming::accept(stream, from).await.unwrap().welcome(Welcome::default());
    link.flush().await.unwrap();
    (joined.await.unwrap().unwrap().0, link)
}

#[tokio::test]
async fn who_says_too_much_waits_and_the_others_do_not() {
    const SAID: u32 = 20_000;
    let mut links = Links::new(&PEERS);
    let mut ends = Vec::new();
    for peer in PEERS {
        let (theirs, ours) = connection(peer).await;
        links.connect(peer, ours, peer.to_string());
        ends.push(theirs);
    }
    let began = Clock::now();
    let mut chatty = ends.remove(0);
    let talk = tokio::spawn(async move {
        for _ in 0..SAID {
            chatty.send(&heartbeat()).unwrap();
            chatty.flush().await.unwrap();
        }
        chatty
    });
    let (mut heard, mut waited) = ([0, 0], false);
    let mut quiet = ends.remove(0);
    while heard[0] < SAID {
        quiet.send(&heartbeat()).unwrap();
        quiet.flush().await.unwrap();
        let read = poll_fn(|cx| {
            let more =
                links.poll_received(cx, clock::now(), |peer, _| heard[usize::from(peer != PEERS[0])] += 1);
            Poll::Ready(more)
        });
        let more = read.await;
        assert!(links.pop_lost().is_none());
        if let Some(until) = links.next_timeout() {
            waited = true;
            assert!(until.since(clock::now()) <= Duration::from_secs(1));
        }
        if !more {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
    let fastest = f64::from(SAID - BURST.get()) / f64::from(MESSAGES_PER_SECOND.get());
    assert!(waited && began.elapsed().as_secs_f64() > fastest * 0.9, "{:?}", began.elapsed());
    assert!(heard[1] > 50, "{heard:?}");
    drop(talk.await.unwrap());
}
