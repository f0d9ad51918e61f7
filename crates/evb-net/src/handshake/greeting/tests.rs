use evb_core::{
    id::{BuilderId, Peer, SourceId},
    wire::{
        control::{Hello, Reason, Refusal, Welcome},
        preamble::{ConnectionKind, PREAMBLE_LENGTH},
    },
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::AGREEMENT;
use crate::{
    handshake::{HandshakeError, accept_secured, connect_secured, refused, reply_secured, welcomed},
    security::{PresharedKey, Security},
};

const KIND: ConnectionKind = ConnectionKind::Control;

fn psk(byte: u8) -> Security {
    Security::Psk(PresharedKey::new([byte; 32]))
}

fn hello() -> Hello {
    Hello::new(Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(1)))
}

/// Runs both ends of one handshake; the accepting side welcomes every peer that authenticates
/// itself.
async fn shake(
    mut here: DuplexStream,
    ours: Security,
    mut there: DuplexStream,
    theirs: Security,
) -> (Result<u64, HandshakeError>, Result<Hello, HandshakeError>) {
    let accepting = async move {
        let (mut session, hello) = accept_secured(&mut there, KIND, &theirs).await?;
        let welcome = Welcome { epoch: 7, ..Welcome::default() };
        reply_secured(&mut there, KIND, &mut session, &welcomed(welcome)).await?;
        Ok(hello)
    };
    let connecting = async move {
        let (session, welcome) = connect_secured(&mut here, KIND, &hello(), &ours).await?;
        assert_eq!(session.is_some(), ours.is_protected());
        Ok(welcome.epoch)
    };
    tokio::join!(connecting, accepting)
}

async fn meet(
    ours: Security,
    theirs: Security,
) -> (Result<u64, HandshakeError>, Result<Hello, HandshakeError>) {
    let (here, there) = duplex(4096);
    shake(here, ours, there, theirs).await
}

#[tokio::test]
async fn two_with_the_same_key_come_together() {
    let (welcome, greeting) = meet(psk(1), psk(1)).await;
    assert_eq!((welcome.unwrap(), greeting.unwrap()), (7, hello()));
}

#[tokio::test]
async fn keys_that_do_not_fit_are_told_to_both_with_the_remedy() {
    for (ours, theirs, words) in [
        (psk(1), psk(2), "copy the same key_file to all hosts"),
        (Security::None, psk(1), "mode = \"psk\" and key_file"),
        (psk(1), Security::None, "or neither"),
    ] {
        let (connecting, accepting) = meet(ours, theirs).await;
        let (connecting, accepting) = (connecting.unwrap_err(), accepting.unwrap_err());
        assert!(accepting.is_about_keys(), "{accepting}");
        assert!(accepting.to_string().contains(words), "{accepting}");
        assert!(connecting.to_string().contains(words), "{connecting}");
        let is_told = match &connecting {
            HandshakeError::Refused(refusal) => refusal.reason == Reason::Configuration,
            error => error.is_about_keys(),
        };
        assert!(is_told, "{connecting:?}");
    }
}

#[tokio::test]
async fn a_refusal_within_the_session_is_believed() {
    let (mut here, mut there) = duplex(4096);
    let accepting = async move {
        let (mut session, _) = accept_secured(&mut there, KIND, &psk(1)).await.unwrap();
        let no = refused(Refusal::because(Reason::UnknownPeer, "not of this run"));
        reply_secured(&mut there, KIND, &mut session, &no).await.unwrap();
    };
    let (ours, greeting) = (psk(1), hello());
    let (answer, ()) = tokio::join!(connect_secured(&mut here, KIND, &greeting, &ours), accepting);
    assert!(matches!(answer, Err(HandshakeError::Refused(_))), "{answer:?}");
}

/// Relays bytes between two ends, with one bit of one direction flipped if `flip` is given. Returns
/// the bytes of both directions.
async fn between(near: DuplexStream, far: DuplexStream, flip: Option<(bool, usize)>) -> [Vec<u8>; 2] {
    async fn carry(
        mut from: impl tokio::io::AsyncRead + Unpin,
        mut to: impl tokio::io::AsyncWrite + Unpin,
        flip: Option<usize>,
    ) -> Vec<u8> {
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while let Ok(1) = from.read(&mut byte).await {
            seen.push(byte[0]);
            if let Some(bit) = flip.filter(|bit| bit / 8 == seen.len() - 1) {
                byte[0] ^= 1 << (bit % 8);
            }
            if to.write_all(&byte).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
        seen
    }
    let ((near_in, near_out), (far_in, far_out)) = (tokio::io::split(near), tokio::io::split(far));
    let there = flip.filter(|(is_there, _)| *is_there).map(|(_, bit)| bit);
    let back = flip.filter(|(is_there, _)| !*is_there).map(|(_, bit)| bit);
    let (out, answers) = tokio::join!(carry(near_in, far_out, there), carry(far_in, near_out, back));
    [out, answers]
}

async fn meet_through(flip: Option<(bool, usize)>) -> (bool, bool, [Vec<u8>; 2]) {
    let ((here, near), (far, there)) = (duplex(4096), duplex(4096));
    let shaking = async {
        tokio::time::timeout(std::time::Duration::from_secs(20), shake(here, psk(1), there, psk(1))).await
    };
    let (shaken, seen) = tokio::join!(shaking, between(near, far, flip));
    let (connecting, accepting) = shaken.expect("no hang");
    (connecting.is_ok(), accepting.is_ok(), seen)
}

#[tokio::test(start_paused = true)]
async fn every_flipped_bit_ends_the_handshake() {
    let (connected, accepted, [out, answers]) = meet_through(None).await;
    assert!(connected && accepted);
    assert!(out.len() > PREAMBLE_LENGTH + AGREEMENT && answers.len() > PREAMBLE_LENGTH + AGREEMENT);
    // This short `Hello` has no `software` and other texts, which does not matter, since all its
    // bytes are encrypted.
    for bit in 0..8 * out.len() {
        let (connected, accepted, _) = meet_through(Some((true, bit))).await;
        assert!(!connected && !accepted, "bit {bit} of what the connecting side says");
    }
    for bit in 0..8 * answers.len() {
        let (connected, _, _) = meet_through(Some((false, bit))).await;
        assert!(!connected, "bit {bit} of the answers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_handshake_is_of_no_use() {
    let (_, _, [out, answers]) = meet_through(None).await;
    // The accepting side contributes a new ephemeral key to the agreement, to which the recorded
    // `Hello` does not fit.
    let (mut replayer, mut there) = duplex(4096);
    replayer.write_all(&out).await.unwrap();
    let accepted = accept_secured(&mut there, KIND, &psk(1)).await;
    assert!(matches!(accepted, Err(HandshakeError::Forged(_))), "{accepted:?}");
    // Here the recorded answers are replayed to the connecting side.
    let (mut replayer, mut here) = duplex(4096);
    replayer.write_all(&answers).await.unwrap();
    let (greeting, ours) = (hello(), psk(1));
    let connected = connect_secured(&mut here, KIND, &greeting, &ours).await;
    assert!(matches!(connected, Err(HandshakeError::WrongKey)), "{connected:?}");
}

#[tokio::test]
async fn nobody_is_let_in_in_the_clear_by_a_peer_with_a_key() {
    // A man in the middle answers with a preamble that announces no protection.
    let (mut here, mut there) = duplex(4096);
    let welcome = crate::handshake::opening(KIND, &welcomed(Welcome::default()));
    there.write_all(&welcome).await.unwrap();
    let (greeting, ours) = (hello(), psk(1));
    let connected = connect_secured(&mut here, KIND, &greeting, &ours).await;
    assert!(matches!(connected, Err(HandshakeError::UnexpectedClear)), "{connected:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_hears_nothing_before_it_has_shown_the_key() {
    let (mut stranger, mut there) = duplex(4096);
    let mut bytes = crate::handshake::protected(KIND).to_vec();
    bytes.extend_from_slice(&(AGREEMENT as u16).to_le_bytes());
    bytes.extend_from_slice(&[9; AGREEMENT]);
    stranger.write_all(&bytes).await.unwrap();
    let theirs = psk(1);
    let accepted = accept_secured(&mut there, KIND, &theirs).await;
    assert!(matches!(accepted, Err(HandshakeError::WrongKey)), "{accepted:?}");
    drop(there);
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer[7], 0, "a refusal in the clear, and no agreement");
}
