use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// Several programs of one host may follow one trigger, so their sockets share group and port.
#[tokio::test]
async fn two_sockets_of_a_host_receive_from_one_group() {
    let group = |port| SocketAddr::from((Ipv4Addr::new(239, 255, 43, 7), port));
    let loopback = Some("127.0.0.1");
    let first = join(group(0), loopback).expect("no other program has an unused port");
    let group = group(first.local_addr().unwrap().port());
    let second = join(group, loopback).expect("the port can be shared");

    let sender = sender(group, loopback).await.unwrap();
    sender.send_to(b"trigger 1", group).await.unwrap();
    for socket in [first, second] {
        let mut buffer = [0; 64];
        let received = timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await.expect("in time");
        assert_eq!(&buffer[..received.unwrap()], b"trigger 1");
    }
}
