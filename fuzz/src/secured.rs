//! Fuzz target for encrypted connections of peers that share a key: encrypted parcels, handshakes,
//! and datagrams with authentication tags. A tag cannot be guessed, so the receiver may only accept
//! data that the sender has sealed, and only in its original order.

use bytes::BytesMut;
use evb_core::{
    lane::{TagDatagrams as _, Unbelieved},
    wire::{
        datagram::{DATAGRAM_HEADER, DatagramHeader},
        preamble::{ConnectionKind, Spoken, protected_preamble},
    },
};
use evb_net::{
    handshake::{accept_secured, connect_secured},
    security::{DatagramTags, Keys, Opener, PresharedKey, Sealer, Security, Session},
};
use zeroize::Zeroizing;

use crate::{
    control,
    script::{Slowly, block_on, join, pieces},
};

const KEY: [u8; 32] = [7; 32];

/// Feeds the bytes to a receiver that has the key; the first byte selects parcels, datagrams or one
/// side of a handshake.
///
/// # Panics
/// Panics if the receiver accepts data that no holder of the key has sent.
pub fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 4 {
        0 => parcels(bytes),
        1 => datagrams(bytes),
        2 => handshake(bytes, true),
        _ => handshake(bytes, false),
    }
}

/// Opens the pieces as encrypted parcels; a piece of one byte stands for the genuine parcel with
/// this number.
fn parcels(data: &[u8]) {
    let mut sealer = Sealer::new(&KEY.into());
    let genuine: Vec<(Vec<u8>, BytesMut)> = (0..4u8)
        .map(|number| {
            let content = vec![number; 1 + usize::from(number) * 50];
            let mut parcel = BytesMut::new();
            sealer.seal(&mut BytesMut::from(&content[..]), &mut parcel);
            (content, parcel)
        })
        .collect();
    let mut opener = Opener::new(&KEY.into());
    let (mut content, mut expected) = (BytesMut::new(), 0);
    let (mut sent, mut right) = (Vec::new(), Vec::new());
    for (_, piece) in pieces(data) {
        match piece {
            [number] => {
                let (inside, parcel) = &genuine[usize::from(number % 4)];
                opener.sealed.extend_from_slice(parcel);
                sent.extend_from_slice(parcel);
                if usize::from(number % 4) == expected {
                    right.extend_from_slice(inside);
                    expected += 1;
                }
            }
            piece => {
                opener.sealed.extend_from_slice(piece);
                sent.extend_from_slice(piece);
            }
        }
        loop {
            match opener.open(&mut content) {
                Ok(true) => assert!(right.starts_with(&content), "bytes came out that were not sealed"),
                Ok(false) => break,
                Err(_) => return,
            }
        }
    }
    let whole: Vec<u8> = genuine.iter().flat_map(|(_, parcel)| parcel.to_vec()).collect();
    let in_order = whole.iter().zip(&sent).take_while(|(a, b)| a == b).count();
    let opened = genuine.iter().scan(0, |end, (inside, parcel)| {
        *end += parcel.len();
        Some((*end, inside.len()))
    });
    let allowed: usize = opened.filter(|(end, _)| *end <= in_order).map(|(_, length)| length).sum();
    assert!(content.len() <= allowed, "{} bytes came out, {allowed} may", content.len());
}

/// Checks that the tag of every piece, read as a datagram, is rejected as forged.
fn datagrams(data: &[u8]) {
    let key = |byte| Zeroizing::new([byte; 32]);
    let keys = Keys { stream_out: key(1), stream_in: key(2), datagrams_out: key(3), datagrams_in: key(4) };
    let mut tags = DatagramTags::new(&keys);
    for (_, piece) in pieces(data) {
        let Some((datagram, tag)) = piece.split_last_chunk::<16>() else { continue };
        let Ok((header, _)) = DatagramHeader::decode(datagram) else { continue };
        assert_eq!(tags.check(&header, datagram, tag), Err(Unbelieved::Forged));
        assert!(datagram.len() >= DATAGRAM_HEADER);
    }
}

/// Performs a handshake with a peer that does not have the key, as the accepting or the connecting
/// side.
fn handshake(bytes: &[u8], accepts: bool) {
    let security = Security::Psk(PresharedKey::new(KEY));
    let kind = ConnectionKind::Lane;
    let mut answer = Vec::new();
    let mut stream = tokio::io::join(Slowly::new(bytes, u8::MAX), &mut answer);
    let session: Option<Session> = if accepts {
        block_on(accept_secured(&mut stream, kind, &security)).ok().and_then(|(session, _)| session)
    } else {
        let hello = control::hello();
        block_on(connect_secured(&mut stream, kind, &hello, &security)).ok().and_then(|(session, _)| session)
    };
    assert!(session.is_none(), "a peer without the key was accepted");
    assert!(answer.len() < 5000);
    if accepts {
        // Before the peer has proved that it holds the key, the accepting side must not send
        // anything that is meant for holders of the key.
        assert!(answer.get(7).is_none_or(|spoken| *spoken == 0));
    }
}

/// Returns the seed corpus: genuine parcels in order and out of order, the beginnings of
/// handshakes, and a datagram.
pub fn seeds() -> Vec<Vec<u8>> {
    let order = |numbers: &[u8]| {
        let pieces: Vec<(u8, &[u8])> = numbers.chunks(1).map(|number| (0, number)).collect();
        [&[0][..], &join(&pieces)].concat()
    };
    let mut agreement = protected_preamble(ConnectionKind::Lane, Spoken::Noise).to_vec();
    agreement.extend_from_slice(&48u16.to_le_bytes());
    agreement.extend_from_slice(&[9; 48]);
    vec![
        order(&[0, 1, 2, 3]),
        order(&[0, 2]),
        order(&[1]),
        [&[2][..], &agreement].concat(),
        [&[3][..], &agreement].concat(),
        [&[1][..], &crate::datagrams::seeds().into_iter().next().unwrap_or_default()].concat(),
    ]
}
