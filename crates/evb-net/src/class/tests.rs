use std::{net::UdpSocket, os::fd::AsFd as _};

use socket2::SockRef;

use super::TrafficClass;

#[test]
#[cfg(target_os = "linux")]
fn both_marks_are_set_whatever_the_order_of_the_system() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        if address.starts_with('[') && evb_needs::granted(evb_needs::ipv6()).is_none() {
            continue;
        }
        let socket = UdpSocket::bind(address).unwrap();
        let class = TrafficClass { dscp: Some(46), priority: Some(5) };
        class.apply(socket.as_fd()).unwrap();
        let options = SockRef::from(&socket);
        let marks = if address.starts_with('[') { options.tclass_v6() } else { options.tos_v4() };
        assert_eq!((marks.unwrap(), options.priority().unwrap()), (46 << 2, 5), "{address}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_asked_is_nothing_changed() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    TrafficClass::default().apply(socket.as_fd()).unwrap();
    let options = SockRef::from(&socket);
    assert_eq!((options.tos_v4().unwrap(), options.priority().unwrap()), (0, 0));
}
