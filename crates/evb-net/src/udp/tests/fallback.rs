//! Trains that the kernel refuses to cut into datagrams.

use evb_core::time::Instant;

use super::*;
use crate::{
    clock::now,
    pacing::{GsoState, MAX_AHEAD, Txtime},
    sys_udp,
};

/// Makes the kernel refuse to cut trains, by disabling checksums without the knowledge of the
/// `DatagramSocket`.
fn spoil(socket: &DatagramSocket) {
    use std::os::fd::AsFd as _;
    sys_udp::set_no_checksum(socket.as_fd(), true).unwrap();
}

async fn arrives(builder: &mut DatagramSocket, train: &[u8], segment: usize) {
    let came = receive(builder, train.len().div_ceil(segment)).await;
    assert!(came.iter().map(|(_, bytes)| &bytes[..]).eq(train.chunks(segment)), "{} came", came.len());
}

#[tokio::test]
async fn a_train_that_the_kernel_refuses_goes_datagram_by_datagram_and_is_tried_again() {
    let (mut builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    spoil(&source);
    let train = pattern(20_500);
    let slices: Vec<_> = train.chunks(700).map(IoSlice::new).collect();
    let before = now();
    assert_eq!(source.send_train(&slices, 1000, None).unwrap(), train.len());
    arrives(&mut builder, &train, 1000).await;
    let GsoState::Paused { until } = source.gso() else { panic!("{:?}", source.gso()) };
    assert!(until >= before + Duration::from_secs(1) && until <= now() + Duration::from_secs(1));
    assert_eq!(source.send_train(&slices, 1000, None).unwrap(), train.len());
    arrives(&mut builder, &train, 1000).await;
    let counts = source.counts().unwrap().trains;
    assert_eq!((counts.gso_refused, counts.uncut, counts.sent), (1, 42, 42));
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(1100)).await;
    source.send_train(&slices, 1000, None).unwrap();
    arrives(&mut builder, &train, 1000).await;
    assert_eq!(source.counts().unwrap().trains.gso_refused, 2, "it was tried again");
    let GsoState::Paused { until } = source.gso() else { panic!("{:?}", source.gso()) };
    assert!(until > now() + Duration::from_millis(1500), "the pause doubles");
}

#[tokio::test]
async fn without_checksums_nothing_is_tried() {
    for local in [LOOPBACK, "[::1]:0"] {
        if local != LOOPBACK && evb_needs::granted(evb_needs::ipv6()).is_none() {
            continue;
        }
        let bare = UdpOptions { checksum: false, ..UdpOptions::default() };
        let (mut builder, mut source) = pair(local, &bare);
        let train = pattern(5000);
        assert_eq!(source.send_train(&[IoSlice::new(&train)], 1400, None).unwrap(), 5000);
        arrives(&mut builder, &train, 1400).await;
        assert_eq!(source.gso(), GsoState::Off);
        let counts = source.counts().unwrap().trains;
        assert_eq!((counts.gso_refused, counts.uncut), (0, 4));
    }
}

#[tokio::test]
async fn datagrams_one_by_one_count_each_for_the_kernels_queue() {
    let (_builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    source.prepare(&Txtime, None).unwrap();
    spoil(&source);
    let train = pattern(50 * 1000);
    let slices = [IoSlice::new(&train)];
    let departs = now() + Duration::from_secs(2);
    assert_eq!(source.send_train(&slices, 1000, Some(departs)).unwrap(), 50 * 1000);
    let part = source.send_train(&slices, 1000, Some(departs)).unwrap();
    assert_eq!(part, (MAX_AHEAD - 50) * 1000, "as many as the kernel still holds");
    match source.send_train(&slices, 1000, Some(departs)) {
        Err(SendError::TooFarAhead { until }) => assert_eq!(until, departs),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whole_trains_count_once_and_wait_for_their_time_to_be_accepted() {
    let (_builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    source.prepare(&Txtime, None).unwrap();
    let train = pattern(20 * 1000);
    let departs = now() + Duration::from_secs(2);
    for _ in 0..MAX_AHEAD {
        source.send_train(&[IoSlice::new(&train)], 1000, Some(departs)).unwrap();
    }
    let one_more = source.send_train(&[IoSlice::new(&train)], 1000, Some(departs));
    assert!(matches!(one_more, Err(SendError::TooFarAhead { until }) if until == departs), "{one_more:?}");
    let far = source.send_train(&[IoSlice::new(&train)], 1000, Some(Instant::FAR_FUTURE));
    assert!(matches!(far, Err(SendError::TooFarAhead { .. })), "{far:?}");
}
