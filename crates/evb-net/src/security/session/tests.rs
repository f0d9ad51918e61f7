use bytes::{BufMut as _, BytesMut};
use evb_core::wire::preamble::ConnectionKind;
use tokio::io::duplex;

use super::{Forged, Session};
use crate::{handshake::greeting, security::PresharedKey};

/// Returns the sessions of two peers that have agreed on keys.
async fn pair() -> (Session, Session) {
    let key = PresharedKey::new([5; 32]);
    let (mut here, mut there) = duplex(4096);
    let accepting = async {
        crate::handshake::read_preamble(&mut there).await.unwrap();
        greeting::accept(&mut there, ConnectionKind::Lane, &key).await
    };
    let (ours, theirs) = tokio::join!(greeting::connect(&mut here, ConnectionKind::Lane, &key), accepting);
    (ours.unwrap(), theirs.unwrap())
}

fn sealed(session: &mut Session, content: &[u8]) -> BytesMut {
    let (mut content, mut parcel) = (BytesMut::from(content), BytesMut::new());
    while !content.is_empty() {
        session.seal(&mut content, &mut parcel).unwrap();
    }
    parcel
}

#[tokio::test]
async fn both_have_the_same_keys_and_no_two_of_them_are_equal() {
    let (ours, theirs) = pair().await;
    let (ours, theirs) = (ours.keys(), theirs.keys());
    assert_eq!(ours.stream_out, theirs.stream_in);
    assert_eq!(ours.stream_in, theirs.stream_out);
    assert_eq!(ours.datagrams_out, theirs.datagrams_in);
    assert_eq!(ours.datagrams_in, theirs.datagrams_out);
    let (again, _) = pair().await;
    let again = again.keys();
    let mut all: Vec<_> = [ours, again]
        .iter()
        .flat_map(|keys| [&keys.stream_out, &keys.stream_in, &keys.datagrams_out, &keys.datagrams_in])
        .map(|key| **key)
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8, "fresh for each connection");
}

#[tokio::test]
async fn messages_are_hidden_and_come_in_order() {
    let (mut ours, mut theirs) = pair().await;
    let long = vec![3; 100_000];
    let mut bytes = sealed(&mut ours, b"roster");
    bytes.put_slice(&sealed(&mut ours, &long));
    assert!(!bytes.windows(6).any(|window| window == b"roster"));
    let mut content = BytesMut::new();
    while theirs.open(&mut bytes, &mut content).unwrap() {}
    assert_eq!(content, [&b"roster"[..], &long].concat());
    assert!(bytes.is_empty());
    // The opposite direction works at the same time.
    let mut bytes = sealed(&mut theirs, b"ready");
    content.clear();
    assert_eq!(ours.open(&mut bytes, &mut content), Ok(true));
    assert_eq!(&content[..], b"ready");
}

#[tokio::test]
async fn flipped_swapped_and_repeated_parcels_bring_nothing() {
    let (mut ours, mut theirs) = pair().await;
    let first = sealed(&mut ours, b"first");
    let second = sealed(&mut ours, b"second");
    let mut content = BytesMut::new();
    for bit in 0..8 * first.len() {
        let mut bad = first.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        bad.put_bytes(0, 70_000);
        assert_eq!(theirs.open(&mut bad, &mut content), Err(Forged), "bit {bit}");
    }
    assert_eq!(theirs.open(&mut second.clone(), &mut content), Err(Forged), "too early");
    assert_eq!(theirs.open(&mut first.clone(), &mut content), Ok(true));
    assert_eq!(theirs.open(&mut first.clone(), &mut content), Err(Forged), "replayed");
    assert_eq!(theirs.open(&mut second.clone(), &mut content), Ok(true));
    let own = sealed(&mut theirs, b"own");
    assert_eq!(theirs.open(&mut own.clone(), &mut content), Err(Forged), "reflected");
    assert_eq!(&content[..], b"firstsecond");
}

#[tokio::test]
async fn arbitrary_bytes_bring_nothing() {
    let (_, mut theirs) = pair().await;
    let mut content = BytesMut::new();
    for length in 0..200u16 {
        let mut bytes = BytesMut::from(&length.to_le_bytes()[..]);
        bytes.put_bytes(length as u8, length.into());
        assert_eq!(theirs.open(&mut bytes, &mut content), Err(Forged), "{length}");
    }
    assert!(content.is_empty());
    assert_eq!(theirs.open(&mut BytesMut::from(&[200][..]), &mut content), Ok(false));
}
