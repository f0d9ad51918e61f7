use std::{io::IoSlice, net::SocketAddr, time::Duration};

use evb_core::time::Instant;

use super::{DatagramSender, MAX_AHEAD, SendError};
use crate::{
    clock::now,
    pacing::{Executor, GapReceiver, Software, Txtime},
};

const LOCAL: &str = "127.0.0.1:0";

fn pair(executor: &dyn Executor) -> (DatagramSender, GapReceiver) {
    let local: SocketAddr = LOCAL.parse().unwrap();
    let receiver = GapReceiver::bind(local, None).unwrap();
    let sender =
        DatagramSender::connect(local, receiver.local_addr().unwrap(), executor, None, None).unwrap();
    (sender, receiver)
}

#[test]
fn a_train_arrives_as_datagrams_in_order() {
    let (mut sender, mut receiver) = pair(&Software::timer());
    let (head, body) = ([1u8; 700], [2u8; 1800]);
    let sent = sender.send(&[IoSlice::new(&head), IoSlice::new(&body)], Some(1000), None).unwrap();
    assert_eq!(sent, 2500);
    let mut bytes = Vec::new();
    let mut lengths = Vec::new();
    while let Some(receipt) = receiver.receive(Duration::from_millis(100)).unwrap() {
        assert!(receipt.stamped);
        assert!(now().since(receipt.at) < Duration::from_secs(1));
        lengths.push(receipt.length);
        bytes.extend_from_slice(receiver.payload(&receipt));
    }
    assert_eq!(lengths, [1000, 1000, 500]);
    assert_eq!(bytes, [&head[..], &body[..]].concat());
    assert_eq!(sender.collect().unwrap().sent, 1);
}

#[test]
fn the_longest_train_is_sent_and_a_longer_one_refused() {
    let (mut sender, _receiver) = pair(&Software::timer());
    let room = vec![0; 65_487];
    let sent = sender.send(&[IoSlice::new(&room)], Some(1448), None).unwrap();
    assert_eq!(sent, room.len());
    assert_eq!(sender.send(&[IoSlice::new(&room[..640])], Some(10), None).unwrap(), 640);
    for slices in [&[IoSlice::new(&room[..641])][..], &[IoSlice::new(&room), IoSlice::new(&[0])]] {
        match sender.send(slices, Some(10), None) {
            Err(SendError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_kernel_never_holds_more_trains_than_it_keeps() {
    let (mut sender, _receiver) = pair(&Txtime);
    let begin = now() + Duration::from_secs(1);
    for index in 0..MAX_AHEAD as u64 {
        sender.send(&[IoSlice::new(&[0; 10])], None, Some(begin + Duration::from_millis(index))).unwrap();
    }
    let late = begin + Duration::from_secs(1);
    match sender.send(&[IoSlice::new(&[0; 10])], None, Some(late)) {
        Err(SendError::TooFarAhead { until }) => assert_eq!(until, begin),
        other => panic!("{other:?}"),
    }
    assert!(sender.admit(late, begin).is_ok(), "the first has departed");
}

#[test]
fn a_departure_beyond_the_horizon_is_refused() {
    let (mut sender, _receiver) = pair(&Txtime);
    let now = now();
    match sender.admit(now + Duration::from_secs(6), now) {
        Err(SendError::TooFarAhead { until }) => assert_eq!(until, now + Duration::from_secs(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_departure_times_nothing_is_held() {
    let (mut sender, mut receiver) = pair(&Software::timer());
    let before = now();
    sender.send(&[IoSlice::new(&[0; 10])], None, Some(Instant::FAR_FUTURE)).unwrap();
    let receipt = receiver.receive(Duration::from_secs(1)).unwrap().expect("it was sent at once");
    assert!(receipt.at.since(before) < Duration::from_secs(1));
}

#[test]
fn departures_are_stamped_in_the_kernel() {
    let (mut sender, _receiver) = pair(&Software::timer());
    sender.stamp_departures().unwrap();
    let before = now();
    for _ in 0..3 {
        sender.send(&[IoSlice::new(&[0; 10])], None, None).unwrap();
    }
    let after = now();
    sender.collect().unwrap();
    let departed: Vec<_> = sender.departed().collect();
    assert_eq!(departed.iter().map(|entry| entry.train).collect::<Vec<_>>(), [0, 1, 2]);
    // The realtime and the monotonic clock are read one after the other, so the comparison needs a
    // tolerance.
    let slack = Duration::from_micros(100);
    for entry in departed {
        let at = entry.at;
        assert!(at + slack >= before && at <= after + slack, "{at} not in {before}..{after}");
    }
}

#[test]
fn nobody_listening_is_counted_and_does_not_stop_it() {
    let local: SocketAddr = LOCAL.parse().unwrap();
    let nobody = std::net::UdpSocket::bind(local).unwrap().local_addr().unwrap();
    let mut sender = DatagramSender::connect(local, nobody, &Software::timer(), None, None).unwrap();
    for _ in 0..5 {
        sender.send(&[IoSlice::new(&[0; 10])], None, None).unwrap();
    }
    let counts = sender.collect().unwrap();
    assert_eq!(counts.sent, 5);
    assert!(counts.other >= 1);
}
