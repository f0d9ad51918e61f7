use std::{
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd as _,
    time::Duration,
};

use evb_core::units::{Bytes, Rate};

use super::{Etf, Executor, SocketRate, Software, TokenBucketFilter, Txtime};
use crate::{clock::now, pacing::Offload};

#[test]
fn each_says_which_offload_it_is() {
    let all: [Box<dyn Executor>; 5] = [
        Box::new(Software::timer()),
        Box::new(SocketRate::new(Bytes::kib(16))),
        Box::new(Txtime),
        Box::new(Etf),
        Box::new(TokenBucketFilter),
    ];
    assert_eq!(all.each_ref().map(|executor| executor.offload()), Offload::ALL);
    for executor in all {
        assert_eq!(executor.lead().is_zero(), executor.offload() == Offload::Software, "{executor:?}");
        assert!(!executor.precision().is_zero());
    }
}

#[test]
fn only_timers_space_trains_further_than_they_are_precise() {
    let (coarse, fine) = (Duration::from_micros(250), Duration::from_micros(5));
    assert_eq!(Software::timer().with_precision(coarse).spacing(), Duration::from_millis(1));
    assert_eq!(Software::timer().with_precision(coarse * 10).spacing(), coarse * 10);
    assert_eq!(Software::spinning().with_precision(fine).spacing(), fine);
    assert_eq!(Txtime.spacing(), Txtime.precision());
}

#[test]
#[cfg(target_os = "linux")]
fn a_pacing_rate_is_set_beyond_four_bytes_and_read_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let rate = Rate::from_bits_per_second(400_000_000_000);
    SocketRate::new(Bytes::kib(16)).prepare(stream.as_fd(), Some(rate)).unwrap();
    assert_eq!(crate::sys_txtime::max_pacing_rate(stream.as_fd()).unwrap(), 50_000_000_000);
    assert_eq!(socket2::SockRef::from(&stream).tcp_notsent_lowat().unwrap(), 16 << 10);
    assert!(SocketRate::new(Bytes::kib(16)).prepare(stream.as_fd(), None).is_err());
}

#[test]
fn a_fast_socket_gets_its_bytes_later() {
    let lead = |mbit: u64| {
        SocketRate::new(Bytes::kib(16)).up_to(Rate::from_bits_per_second(mbit * 1_000_000)).lead().as_micros()
    };
    assert_eq!((lead(10), lead(1_000), lead(10_000), lead(0)), (1_000, 131, 13, 1_000));
}

#[test]
#[cfg(target_os = "linux")]
fn departure_times_are_accepted_on_datagram_sockets() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    Txtime.prepare(socket.as_fd(), None).unwrap();
}

#[tokio::test]
async fn a_spinning_timer_is_not_early_and_seldom_late() {
    let mut timer = Software::spinning().timer().unwrap();
    let mut late = Vec::new();
    for _ in 0..20 {
        let at = now() + Duration::from_millis(1);
        timer.arm(Some(at));
        timer.expired().await;
        assert!(now() >= at);
        late.push(now().since(at));
    }
    late.sort();
    assert!(late[0] < Duration::from_micros(20), "{late:?}");
}
