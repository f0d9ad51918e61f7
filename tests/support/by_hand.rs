//! A hand-written builder: its registration is real, and the test writes the bytes of its lanes.

use std::time::Duration;

use evb::id::BuilderId;
use evb_core::{
    id::Peer,
    wire::{
        control::{Begun, Control, Heartbeat, Hello, LaneState, Message, Welcome},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    control::connect,
    handshake::{accept_handshake, reply, welcomed},
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::interval,
};

/// Builder 1, which is registered and sends heartbeats.
pub(crate) struct ByHand {
    listener: TcpListener,
    /// The correct answer to a source that connects for the first time.
    pub(crate) truth: Welcome,
}

impl ByHand {
    /// Registers at the given supervisor, and sends heartbeats.
    pub(crate) async fn register(supervisor: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
        let listen = listener.local_addr().expect("a bound socket").to_string();
        let hello = Hello { listen, ..Hello::new(Peer::Builder(BuilderId::new(1)), Peer::Supervisor) };
        let (mut link, welcome) = connect(supervisor, None, &hello).await.expect("a planned peer");
        tokio::spawn(async move {
            let mut beat = interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    _ = beat.tick() => {
                        let heartbeat = Message::Heartbeat(Heartbeat { sent_ns: 1, ..Heartbeat::default() });
                        if link.send(&Control { message: Some(heartbeat) }).is_err() { return }
                    }
                    message = link.recv() => {
                        let Ok(Control { message: Some(message) }) = message else { return };
                        let begun = Control { message: Some(Message::Begun(Begun::default())) };
                        if matches!(message, Message::Begin(_)) && link.send(&begun).is_err() { return }
                    }
                }
            }
        });
        let truth = Welcome { lane: Some(LaneState::default()), parameters: None, ..welcome };
        Self { listener, truth }
    }

    /// Accepts the source's connection with the given welcome.
    pub(crate) async fn let_in(&self, welcome: &Welcome) -> TcpStream {
        let (mut stream, _) = self.listener.accept().await.expect("the source comes");
        accept_handshake(&mut stream, ConnectionKind::Lane).await.expect("the source says hello");
        reply(&mut stream, ConnectionKind::Lane, &welcomed(*welcome)).await.expect("the answer is sent");
        stream
    }
}
