use std::net::SocketAddr;

use evb_core::trigger::announcement::Announcement;

use super::*;

#[test]
fn announcements_are_noted_and_other_datagrams_are_not() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let to: SocketAddr = socket.local_addr().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let listener = thread::spawn(move || hear(&socket, &over));
    for number in [1, 3] {
        let announcement = Announcement { number, sent_ns: clock::now().as_nanos() };
        sender.send_to(&announcement.encode(), to).unwrap();
        sender.send_to(b"twelve", to).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    is_over.store(true, Ordering::Relaxed);
    let heard = listener.join().unwrap();
    assert_eq!(heard.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), [1, 3]);
    assert!(heard.iter().all(|arrival| arrival.after_sending_us < 1e6), "{heard:?}");
}

#[test]
fn a_file_is_read_as_it_was_written() {
    assert_eq!(arrival("7 12.500"), Some(Arrival { number: 7, after_sending_us: 12.5 }));
    assert_eq!(arrival("7"), None);
    assert_eq!(arrival("seven 1"), None);
}
