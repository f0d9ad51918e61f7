//! Fuzz target for the accepting and the connecting side of a handshake, whose input arrives a few
//! bytes at a time.

use evb_core::wire::preamble::ConnectionKind;
use evb_net::handshake::{HandshakeError, accept_handshake, connect_handshake, opening, welcomed};

use crate::{
    control,
    script::{Slowly, block_on},
};

/// Performs a handshake. The first byte selects the kind of connection, the side that is tested,
/// and the number of bytes that arrive at once; the peer sends the other bytes.
///
/// # Panics
/// Panics if a decoded message differs from the message sent, or if a peer with a foreign protocol
/// gets an answer.
pub fn check(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let kind = if how & 1 == 0 { ConnectionKind::Control } else { ConnectionKind::Lane };
    let step = if how & 4 == 0 { u8::MAX } else { how >> 3 };
    let mut answer = Vec::new();
    let mut stream = tokio::io::join(Slowly::new(bytes, step), &mut answer);
    if how & 2 == 0 {
        match block_on(accept_handshake(&mut stream, kind)) {
            Ok(hello) => {
                assert!(answer.is_empty());
                let again = opening(kind, &hello);
                let mut stream = tokio::io::join(&again[..], tokio::io::sink());
                assert_eq!(block_on(accept_handshake(&mut stream, kind)).ok(), Some(hello));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty() && answer.len() < 5000);
                let silent = matches!(error, HandshakeError::Closed) || is_foreign(bytes);
                assert!(!silent || answer.is_empty(), "{error}");
            }
        }
    } else if let Ok(welcome) = block_on(connect_handshake(&mut stream, kind, &control::hello())) {
        let again = opening(kind, &welcomed(welcome.clone()));
        let mut stream = tokio::io::join(&again[..], tokio::io::sink());
        assert_eq!(block_on(connect_handshake(&mut stream, kind, &control::hello())).ok(), Some(welcome));
    }
}

fn is_foreign(bytes: &[u8]) -> bool {
    !bytes.starts_with(&evb_core::wire::preamble::MAGIC)
}

/// Returns the seed corpus: a hello, a welcome and a refusal on a control and on a lane connection,
/// arriving at once or in small pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, kind) in [(0, ConnectionKind::Control), (1, ConnectionKind::Lane)] {
        let answers = [welcomed(control::welcome()), control::refusal()];
        seeds.push([&[number][..], &opening(kind, &control::hello())].concat());
        seeds.push([&[number | 4 | 3 << 3][..], &opening(kind, &control::hello())].concat());
        seeds.extend(answers.map(|answer| [&[number | 2][..], &opening(kind, &answer)].concat()));
    }
    seeds
}
