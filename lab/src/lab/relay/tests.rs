use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use super::*;

/// Starts a relay to a UDP and TCP port of this host, and returns its address and both sockets of
/// the port.
fn relayed(percent: f64) -> (SocketAddr, UdpSocket, TcpListener) {
    // The same port is free for both protocols, but perhaps not at the first attempt.
    let (builder, listener) = (0..100)
        .find_map(|_| {
            let builder = UdpSocket::bind("127.0.0.1:0").unwrap();
            let listener = TcpListener::bind(builder.local_addr().unwrap()).ok()?;
            Some((builder, listener))
        })
        .unwrap();
    let to = builder.local_addr().unwrap();
    let free = SocketAddr::from(([127, 0, 0, 1], evb_needs::free_ports(1)[0]));
    thread::spawn(move || relay(free, to, percent));
    builder.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (free, builder, listener)
}

fn connect(to: SocketAddr) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(to) {
            return stream;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn streams_and_undamaged_datagrams_pass_both_ways() {
    let (at, builder, listener) = relayed(0.0);
    let mut source = connect(at);
    source.write_all(b"hello").unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let mut said = [0; 5];
    accepted.read_exact(&mut said).unwrap();
    accepted.write_all(&said).unwrap();
    source.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.send(&[7; 1432]).unwrap();
    let mut datagram = [0; 2000];
    let (length, from) = builder.recv_from(&mut datagram).unwrap();
    assert_eq!(datagram[..length], [7; 1432]);
    builder.send_to(b"back", from).unwrap();
    assert_eq!(socket.recv(&mut datagram).unwrap(), 4);
    drop(accepted);
    assert_eq!(source.read(&mut said).unwrap(), 0, "the end of a stream passes too");
}

#[test]
fn a_damaged_datagram_differs_in_one_bit() {
    let (at, builder, _listener) = relayed(100.0);
    drop(connect(at));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        socket.send_to(&[0; 1000], at).unwrap();
        let mut datagram = [0; 2000];
        let length = builder.recv(&mut datagram).unwrap();
        assert_eq!(length, 1000);
        assert_eq!(datagram.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }
}

#[test]
fn dice_are_fair() {
    let mut dice = Dice(1);
    let below = (0..100_000).filter(|_| dice.uniform() < 0.01).count();
    assert!((900..1100).contains(&below), "{below}");
}
