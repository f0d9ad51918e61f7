//! Peers of protocol version 1, by their golden bytes.

use evb_core::wire::{control::HelloReply, encoding::Encoding as _, preamble::PROTOCOL_VERSION};

use super::*;

/// Returns a golden message of version 1.
fn golden(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../evb-core/tests/golden/protocol-1.hex");
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| *line != format!("[{name}]")).skip(1).peekable();
    assert!(lines.peek().is_some(), "{name}");
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn names_both(words: &str) {
    for version in [1, PROTOCOL_VERSION] {
        assert!(words.contains(&format!("version {version}")), "{words}");
    }
    assert!(words.contains("install the same release on both"), "{words}");
}

const PREAMBLES: [(&str, ConnectionKind); 4] = [
    ("preamble-control", ConnectionKind::Control),
    ("preamble-lane", ConnectionKind::Lane),
    ("preamble-control-key", ConnectionKind::Control),
    ("preamble-lane-key", ConnectionKind::Lane),
];

#[tokio::test]
async fn a_peer_of_version_1_that_connects_is_refused_and_both_versions_are_named() {
    for (name, kind) in PREAMBLES {
        let (mut old, mut ours) = duplex(4096);
        old.write_all(&[golden(name), golden("hello")].concat()).await.unwrap();
        let error = accept_handshake(&mut ours, kind).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Preamble(PreambleError::Version { theirs: 1 })), "{error}");
        names_both(&error.to_string());
        drop(ours);
        let mut answer = Vec::new();
        old.read_to_end(&mut answer).await.unwrap();
        // The peer of version 1 sees the version in the preamble, and does not read further.
        let body = answer.strip_prefix(&preamble(kind)[..]).unwrap();
        let Some(Reply::Refusal(refusal)) = HelloReply::decode(&body[4..]).unwrap().reply else {
            panic!("{body:?}");
        };
        assert_eq!(refusal.reason, Reason::ProtocolVersion);
        names_both(&refusal.detail);
    }
}

#[tokio::test]
async fn a_peer_of_version_1_to_which_we_connect_is_refused_whatever_it_answers() {
    for (name, kind) in PREAMBLES {
        for reply in ["refusal", "welcome"] {
            let (mut ours, mut old) = duplex(4096);
            old.write_all(&[golden(name), golden(reply)].concat()).await.unwrap();
            let error = connect_handshake(&mut ours, kind, &hello()).await.unwrap_err();
            assert!(
                matches!(error, HandshakeError::Preamble(PreambleError::Version { theirs: 1 })),
                "{error}"
            );
            names_both(&error.to_string());
            assert!(error.is_lasting(), "another attempt would fail, too");
        }
    }
}
