use std::time::Duration;

use bytes::BytesMut;
use evb_core::{
    id::{Peer, SourceId},
    wire::control::{Control, Decisions, Heartbeat, Hello, Message, Reason, Refusal, Stop, Welcome},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use super::{ConnectError, ControlLink, Incoming, LinkError, OUTGOING_LIMIT, connect, encode_into, open};

fn hello() -> Hello {
    Hello::new(Peer::Source(SourceId::new(3)), Peer::Supervisor)
}

fn heartbeat(sent_ns: u64) -> Control {
    Control { message: Some(Message::Heartbeat(Heartbeat { sent_ns, ..Heartbeat::default() })) }
}

async fn pair() -> (ControlLink, ControlLink) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accepting = async {
        let (stream, peer) = listener.accept().await.unwrap();
        let incoming = Incoming::accept(stream, peer).await.unwrap();
        assert_eq!(incoming.hello, hello());
        let mut link = incoming.welcome(Welcome { epoch: 5, ..Welcome::default() });
        link.flush().await.unwrap();
        link
    };
    let mine = hello();
    let (connected, accepted) = tokio::join!(connect(&address, None, &mine), accepting);
    let (link, welcome) = connected.unwrap();
    assert_eq!(welcome.epoch, 5);
    (link, accepted)
}

/// Returns a control link, and the raw TCP stream at its other end.
async fn against_raw() -> (ControlLink, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let raw = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    (ControlLink::new(stream.into(), peer), raw)
}

#[tokio::test]
async fn messages_arrive_in_order_large_and_small_alone_and_together() {
    let (mut here, mut there) = pair().await;
    let large = Control { message: Some(Message::Decisions(Decisions { first: 1, runs: vec![7; 1 << 20] })) };
    let mut encoded = BytesMut::new();
    for number in 1..=3 {
        encode_into(&heartbeat(number), &mut encoded);
    }
    there.send(&large).unwrap();
    there.send_encoded(&encoded).unwrap();
    let reading = async {
        assert_eq!(here.recv().await.unwrap(), large);
        for number in 1..=3 {
            assert_eq!(here.recv().await.unwrap(), heartbeat(number));
        }
    };
    let (flushed, ()) = tokio::join!(there.flush(), reading);
    flushed.unwrap();
    assert_eq!(there.queued(), 0);
    drop(there);
    assert!(matches!(here.recv().await, Err(LinkError::Closed | LinkError::Io(_))));
}

#[tokio::test]
async fn cancelling_loses_nothing() {
    let (mut here, mut raw) = against_raw().await;
    let stop = Control { message: Some(Message::Stop(Stop { cause: "the shift is over".to_owned() })) };
    let mut encoded = BytesMut::new();
    encode_into(&stop, &mut encoded);
    for byte in &encoded[..encoded.len() - 1] {
        raw.write_all(&[*byte]).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(1), here.recv()).await.is_err());
    }
    raw.write_all(&encoded[encoded.len() - 1..]).await.unwrap();
    assert_eq!(here.recv().await.unwrap(), stop);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_an_overflow_not_memory() {
    let (mut here, _raw) = against_raw().await;
    let big = Control { message: Some(Message::Stop(Stop { cause: "x".repeat(1 << 20) })) };
    let error = loop {
        if let Err(error) = here.send(&big) {
            break error;
        }
        let _ = tokio::time::timeout(Duration::from_millis(5), here.flush()).await;
        assert!(here.queued() <= OUTGOING_LIMIT + (1 << 20));
    };
    assert!(matches!(error, LinkError::Overflow), "{error}");
}

#[tokio::test]
async fn lies_about_lengths_and_garbage_end_the_link() {
    let (mut here, mut raw) = against_raw().await;
    raw.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
    assert!(matches!(here.recv().await, Err(LinkError::TooLong { .. })));
    let (mut here, mut raw) = against_raw().await;
    raw.write_all(&[3, 0, 0, 0, 0xFF, 0xFF, 0xFF]).await.unwrap();
    assert!(matches!(here.recv().await, Err(LinkError::Malformed(_))));
}

#[tokio::test]
async fn errors_tell_unreachable_from_refused_from_foreign() {
    let mine = hello();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let refusing = async {
        let (stream, peer) = listener.accept().await.unwrap();
        let incoming = Incoming::accept(stream, peer).await.unwrap();
        incoming.refuse(Refusal::because(Reason::UnknownPeer, "source 3 is not of this run"));
    };
    let (answer, ()) = tokio::join!(connect(&address, None, &mine), refusing);
    let error = answer.unwrap_err();
    assert!(matches!(&error, ConnectError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("not of this run"));

    let foreign = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.org ESMTP\r\n").await.unwrap();
    };
    let (answer, ()) = tokio::join!(connect(&address, None, &mine), foreign);
    assert!(matches!(answer.unwrap_err(), ConnectError::Handshake { .. }));

    drop(listener);
    assert!(matches!(connect(&address, None, &mine).await.unwrap_err(), ConnectError::Unreachable { .. }));
    let bind = Some("192.0.2.1".parse().unwrap());
    assert!(matches!(connect(&address, bind, &mine).await.unwrap_err(), ConnectError::Bind { .. }));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_bound_connection_leaves_its_port_to_connect() {
    use std::os::fd::AsFd as _;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bind = "127.0.0.1".parse().unwrap();
    let stream = open(&address.to_string(), Some(bind), None).await.unwrap();
    assert_eq!(stream.local_addr().unwrap().ip(), bind);
    let option = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    assert_eq!(crate::sys_option::get::<i32>(stream.as_fd(), option.0, option.1).unwrap(), 1);
}
