use std::{net::UdpSocket, time::Duration};

use tokio::signal::unix::{SignalKind, signal};

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

#[tokio::test]
async fn a_signal_does_not_end_patience() {
    // With a handler, the signal interrupts the wait instead of ending the process.
    let mut handled = signal(SignalKind::user_defined1()).unwrap();
    let mut receiver = GapReceiver::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let (to, waiting) = (receiver.local_addr().unwrap(), rustix::thread::gettid());
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        // The kernel prefers the thread that the number names.
        rustix::process::kill_process(waiting, rustix::process::Signal::USR1).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"evb", to).unwrap();
    });
    let receipt = receiver.receive(Duration::from_secs(5)).unwrap();
    sender.join().unwrap();
    handled.recv().await;
    assert_eq!(receiver.payload(&receipt.unwrap()), b"evb");
}
