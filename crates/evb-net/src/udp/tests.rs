use std::{
    io::IoSlice,
    net::SocketAddr,
    task::{Context, Waker},
    time::Duration,
};

use evb_core::units::Bytes;

use super::{DatagramSocket, Progress, UdpOptions, open};
use crate::pacing::{MAX_DATAGRAMS, SendError};

#[path = "../../tests/kernel/sys_namespace.rs"]
pub(crate) mod sys_namespace;

mod device;
mod fallback;
mod limits;

const LOOPBACK: &str = "127.0.0.1:0";

fn at(local: &str, options: &UdpOptions) -> (DatagramSocket, SocketAddr) {
    let socket = open(local.parse().unwrap(), None, options).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Returns the socket of a builder, and the socket of a source that is connected to it.
fn pair(local: &str, options: &UdpOptions) -> (DatagramSocket, DatagramSocket) {
    let (builder, address) = at(local, options);
    let source = open(local.parse().unwrap(), Some(address), options).unwrap();
    (builder, source)
}

/// Waits until `count` datagrams have arrived; returns their senders and their bytes.
async fn receive(socket: &mut DatagramSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut found = Vec::new();
    let all = std::future::poll_fn(|cx| {
        loop {
            let progress = socket
                .poll_recv(cx, 32, |from, run| {
                    found.extend(run.datagrams().map(|bytes| (from, bytes.to_vec())));
                })
                .unwrap();
            if found.len() >= count {
                return std::task::Poll::Ready(());
            }
            if progress == Progress::Drained {
                return std::task::Poll::Pending;
            }
        }
    });
    let in_time = tokio::time::timeout(Duration::from_secs(5), all).await;
    assert!(in_time.is_ok(), "{} of {count} came", found.len());
    found
}

/// Returns bytes that differ from datagram to datagram and within each datagram.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

async fn a_train_goes_over(local: &str) {
    let (mut builder, mut source) = pair(local, &UdpOptions::default());
    let train = pattern(44 * 1472);
    let slices: Vec<_> = train.chunks(1000).map(IoSlice::new).collect();
    assert_eq!(source.send_train(&slices, 1472, None).unwrap(), train.len());
    let came = receive(&mut builder, 44).await;
    assert_eq!(came.len(), 44);
    assert!(came.iter().all(|(from, _)| *from == source.local_addr().unwrap()));
    assert!(came.iter().map(|(_, bytes)| &bytes[..]).eq(train.chunks(1472)));
    let counts = builder.counts().unwrap();
    assert_eq!((counts.received, counts.unusable), (44, 0));
    assert!(counts.runs < 44, "{} runs: the kernel merged none", counts.runs);
    assert_eq!(source.counts().unwrap().trains.sent, 1);
    assert!(source.gso().is_on());
}

#[tokio::test]
async fn a_train_arrives_as_datagrams_in_order() {
    a_train_goes_over(LOOPBACK).await;
}

#[tokio::test]
async fn so_it_does_over_ipv6() {
    let Some(()) = evb_needs::granted(evb_needs::ipv6()) else { return };
    a_train_goes_over("[::1]:0").await;
}

#[tokio::test]
async fn the_last_datagram_may_be_shorter_and_sizes_may_change() {
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    let bytes = pattern(20_000);
    let trains: [(usize, u16); 7] =
        [(2500, 1000), (1, 1000), (1000, 1000), (1001, 1000), (20_000, 313), (64, 1), (9000, 8972)];
    let mut expected = Vec::new();
    for (length, segment) in trains {
        let train = &bytes[..length];
        assert_eq!(source.send_train(&[IoSlice::new(train)], segment, None).unwrap(), length);
        expected.extend(train.chunks(segment.into()).map(<[u8]>::to_vec));
    }
    let came: Vec<_> =
        receive(&mut builder, expected.len()).await.into_iter().map(|(_, bytes)| bytes).collect();
    assert!(came == expected, "{} datagrams for {}", came.len(), expected.len());
}

#[tokio::test]
async fn both_directions_go_over_one_socket() {
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    source.send_train(&[IoSlice::new(b"announce")], 1472, None).unwrap();
    let (from, bytes) = receive(&mut builder, 1).await.remove(0);
    assert_eq!(bytes, b"announce");
    for answer in [&b"grant"[..], b"", b"commit"] {
        assert!(builder.send_to(from, answer).unwrap());
    }
    let answers = receive(&mut source, 3).await;
    let builder_address = builder.local_addr().unwrap();
    let expected = [&b"grant"[..], b"", b"commit"].map(|bytes| (builder_address, bytes.to_vec()));
    assert_eq!(answers, expected);
    assert_eq!(builder.counts().unwrap().sent_to, 3);
}

#[tokio::test]
async fn a_connected_socket_hears_its_peer_alone() {
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    let (mut stranger, _) = at(LOOPBACK, &UdpOptions::default());
    let address = source.local_addr().unwrap();
    assert!(stranger.send_to(address, b"grant me all").unwrap());
    assert!(builder.send_to(address, b"grant").unwrap());
    let came = receive(&mut source, 1).await;
    assert_eq!(came, [(builder.local_addr().unwrap(), b"grant".to_vec())]);
}

#[tokio::test]
async fn a_turn_ends_at_its_budget_and_the_next_goes_on() {
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    for number in 0..100u8 {
        // The datagrams have different sizes, so that the kernel does not merge them.
        source.send_train(&[IoSlice::new(&vec![number; 100 + usize::from(number)])], 1472, None).unwrap();
    }
    receive_ready(&mut builder).await;
    let mut cx = Context::from_waker(Waker::noop());
    let mut numbers = Vec::new();
    let progress = builder
        .poll_recv(&mut cx, 10, |_, run| numbers.extend(run.datagrams().map(|bytes| bytes[0])))
        .unwrap();
    assert_eq!(progress, Progress::More);
    assert!((10..100).contains(&numbers.len()), "{}", numbers.len());
    let progress = builder
        .poll_recv(&mut cx, 1000, |_, run| numbers.extend(run.datagrams().map(|bytes| bytes[0])))
        .unwrap();
    assert_eq!(progress, Progress::Drained);
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

/// Waits until the runtime knows that a datagram has arrived, without receiving it.
async fn receive_ready(socket: &mut DatagramSocket) {
    std::future::poll_fn(|cx| match socket.poll_recv(cx, 0, |_, _| unreachable!("takes nothing")).unwrap() {
        Progress::More => std::task::Poll::Ready(()),
        Progress::Idle | Progress::Drained => unreachable!("no budget"),
    })
    .await;
    // The sleep lets the runtime's I/O driver run at least once.
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(20)).await;
}

#[tokio::test]
async fn buffers_are_told_as_they_are() {
    let asked = UdpOptions {
        receive_buffer: Some(Bytes::mib(1)),
        send_buffer: Some(Bytes::kib(100)),
        ..UdpOptions::default()
    };
    let (socket, _) = at(LOOPBACK, &asked);
    assert_eq!((socket.buffers().receive, socket.buffers().send), (Bytes::mib(1), Bytes::kib(100)));
    let (socket, _) = at(LOOPBACK, &UdpOptions::default());
    assert!(socket.buffers().receive < Bytes::mib(1));
}

#[tokio::test]
async fn an_address_is_nobody_elses() {
    let (_first, address) = at(LOOPBACK, &UdpOptions::default());
    let second = open(address, None, &UdpOptions::default());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}

/// Passes bursts about as long as a batch back and forth between two threads; a lost wake-up would
/// stop this exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost() {
    const ROUNDS: usize = 3000;
    let burst = |round: usize| round % 20 + 1;
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    let peer = source.local_addr().unwrap();
    let echo = tokio::spawn(async move {
        for round in 0..ROUNDS {
            for (from, bytes) in receive(&mut builder, burst(round)).await {
                assert_eq!(from, peer);
                assert!(builder.send_to(from, &bytes).unwrap());
            }
        }
        builder.counts().unwrap()
    });
    for round in 0..ROUNDS {
        for number in 0..burst(round) {
            // The datagrams have different sizes, so that the kernel does not merge them.
            source.send_train(&[IoSlice::new(&[0; 64][..=number])], 1472, None).unwrap();
        }
        let came = receive(&mut source, burst(round)).await;
        assert!(came.iter().map(|(_, bytes)| bytes.len()).eq(1..=burst(round)), "round {round}");
    }
    let counts = echo.await.unwrap();
    assert_eq!(counts.received, (0..ROUNDS).map(burst).sum::<usize>() as u64);
}
