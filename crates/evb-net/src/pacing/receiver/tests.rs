use std::{net::UdpSocket, time::Duration};

use super::GapReceiver;
use crate::clock::now;

#[test]
fn the_time_is_that_of_arrival_not_of_reading() {
    let mut receiver = GapReceiver::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The kernel begins to stamp a moment after the first socket asks for it.
    std::thread::sleep(Duration::from_millis(20));
    sender.send_to(b"evb", receiver.local_addr().unwrap()).unwrap();
    let sent = now();
    std::thread::sleep(Duration::from_millis(20));
    let receipt = receiver.receive(Duration::from_secs(1)).unwrap().unwrap();
    assert!(receipt.stamped);
    assert!(receipt.at <= sent + Duration::from_millis(5), "{} after {sent}", receipt.at);
    assert_eq!(receiver.payload(&receipt), b"evb");
}

#[test]
fn patience_ends() {
    let mut receiver = GapReceiver::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    assert_eq!(receiver.receive(Duration::from_millis(5)).unwrap(), None);
    assert_eq!(receiver.receive(Duration::ZERO).unwrap(), None);
}
