use std::time::Duration;

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    wire::{
        control::{Hello, MAX_HELLO, Reason, Refusal, Reply, Welcome},
        preamble::{ConnectionKind, PreambleError, preamble},
    },
};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

mod versions;

use super::{HandshakeError, accept_handshake, connect_handshake, opening, refused, reply, welcomed};

fn hello() -> Hello {
    Hello::new(Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(1)))
}

#[tokio::test]
async fn two_sides_come_together() {
    let (mut here, mut there) = duplex(4096);
    let accepting = async {
        let greeting = accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap();
        assert_eq!(greeting, hello());
        reply(&mut there, ConnectionKind::Lane, &welcomed(Welcome { epoch: 7, ..Welcome::default() })).await
    };
    let mine = hello();
    let connecting = connect_handshake(&mut here, ConnectionKind::Lane, &mine);
    let (welcome, replied) = tokio::join!(connecting, accepting);
    replied.unwrap();
    assert_eq!(welcome.unwrap().epoch, 7);
}

#[tokio::test]
async fn a_refusal_arrives_with_its_words() {
    let (mut here, mut there) = duplex(4096);
    let accepting = async {
        accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap();
        let no = refused(Refusal::because(Reason::UnknownPeer, "source 3 is not of this run"));
        reply(&mut there, ConnectionKind::Lane, &no).await.unwrap();
    };
    let mine = hello();
    let (answer, ()) = tokio::join!(connect_handshake(&mut here, ConnectionKind::Lane, &mine), accepting);
    let error = answer.unwrap_err();
    assert!(error.to_string().contains("source 3 is not of this run"), "{error}");
}

#[tokio::test]
async fn the_wrong_port_and_the_wrong_version_are_told_to_both() {
    let (mut here, mut there) = duplex(4096);
    let mine = hello();
    let (connecting, accepting) = tokio::join!(
        connect_handshake(&mut here, ConnectionKind::Control, &mine),
        accept_handshake(&mut there, ConnectionKind::Lane)
    );
    for error in [connecting.unwrap_err(), accepting.unwrap_err()] {
        assert!(matches!(error, HandshakeError::Preamble(PreambleError::Kind { .. })), "{error}");
    }

    let (mut here, mut there) = duplex(4096);
    let mut old = preamble(ConnectionKind::Lane);
    old[4] = 99;
    here.write_all(&old).await.unwrap();
    let error = accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Preamble(PreambleError::Version { theirs: 99 })), "{error}");
    let mut answer = [0; 8];
    here.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, preamble(ConnectionKind::Lane), "the answer shows our version");
}

#[tokio::test]
async fn a_foreign_protocol_is_known_by_its_first_byte_and_not_answered() {
    let (mut here, mut there) = duplex(4096);
    here.write_all(b"G").await.unwrap();
    let error = accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Preamble(PreambleError::Foreign(_))), "{error}");
    drop(there);
    let mut answer = Vec::new();
    here.read_to_end(&mut answer).await.unwrap();
    assert!(answer.is_empty());
}

#[tokio::test]
async fn a_long_length_is_refused_before_its_bytes() {
    let (mut here, mut there) = duplex(4096);
    here.write_all(&preamble(ConnectionKind::Lane)).await.unwrap();
    here.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
    let error = accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap_err();
    assert!(matches!(error, HandshakeError::TooLong { length: u32::MAX }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_in_time() {
    let (_here, mut there) = duplex(4096);
    let started = tokio::time::Instant::now();
    let error = accept_handshake(&mut there, ConnectionKind::Lane).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Timeout), "{error}");
    assert!(started.elapsed() < Duration::from_secs(6));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Checks that the accepting side ends with a `Hello` or an error, whatever bytes arrive.
    #[test]
    fn no_bytes_break_it(cut in 0usize..200, flips in prop::collection::vec((0usize..200, 0u8..8), 0..4), tail in any::<Vec<u8>>()) {
        let mut bytes = opening(ConnectionKind::Lane, &Hello { software: "x".repeat(60), ..hello() });
        for (at, bit) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        bytes.truncate(cut);
        bytes.extend_from_slice(&tail);
        bytes.truncate(MAX_HELLO);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _ = runtime.block_on(async {
            let (mut here, mut there) = duplex(1 << 16);
            here.write_all(&bytes).await.unwrap();
            drop(here);
            accept_handshake(&mut there, ConnectionKind::Lane).await
        });
    }
}
