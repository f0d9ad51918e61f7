use aes_gcm_siv::{
    Aes256GcmSiv, KeyInit as _,
    aead::{Aead as _, Payload},
};
use proptest::prelude::*;

use super::{AHEAD, Nonce, STRIDE, TAG_LENGTH, TagKey, is_equal};

/// Returns the tag that an independent implementation of the whole AES-256-GCM-SIV computes.
fn expected(key: &[u8; 32], nonce: Nonce, bytes: &[u8]) -> Vec<u8> {
    let cipher = Aes256GcmSiv::new(key.into());
    cipher.encrypt(&nonce.bytes().into(), Payload { msg: &[], aad: bytes }).unwrap()
}

fn numbered(number: u64) -> Nonce {
    Nonce { number, class: 0 }
}

#[test]
fn the_tag_of_rfc_8452() {
    // RFC 8452, appendix C.2: key 01 00…, nonce 03 00…, no plaintext, no additional data.
    let mut key = [0; 32];
    key[0] = 1;
    let tag = TagKey::new(&key.into()).tag(numbered(3), []);
    let wanted =
        [0x07, 0xf5, 0xf4, 0x16, 0x9b, 0xbf, 0x55, 0xa8, 0x40, 0x0c, 0xd4, 0x7e, 0xa6, 0xfd, 0x40, 0x0f];
    assert_eq!(tag, wanted);
}

#[test]
fn one_bit_makes_another_tag() {
    let tag = TagKey::new(&[1; 32].into()).tag(numbered(2), [&[3; 100][..]]);
    for bit in 0..8 * TAG_LENGTH {
        let mut other = tag;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_equal(&tag, &other), "bit {bit}");
    }
    assert!(is_equal(&tag, &tag.clone()));
    assert_ne!(tag, TagKey::new(&[1; 32].into()).tag(numbered(4), [&[3; 100][..]]), "of another number");
    assert_ne!(tag, TagKey::new(&[2; 32].into()).tag(numbered(2), [&[3; 100][..]]), "of another key");
    assert_ne!(tag, TagKey::new(&[1; 32].into()).tag(numbered(2), [&[3; 101][..]]), "one byte more");
}

#[test]
fn of_each_length_around_those_that_are_taken_at_once() {
    let bytes = [7; 3 * STRIDE];
    let mut key = TagKey::new(&[1; 32].into());
    for length in 0..bytes.len() {
        let bytes = &bytes[..length];
        assert_eq!(
            key.tag(numbered(9), [bytes]).to_vec(),
            expected(&[1; 32], numbered(9), bytes),
            "{length} bytes"
        );
    }
}

proptest! {
    #[test]
    fn pieces_make_the_tag_of_the_whole(
        key: [u8; 32],
        number: u64,
        class: u32,
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        mut cuts in prop::collection::vec(0usize..700, 0..8),
    ) {
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, later) = rest.split_at(cut.min(rest.len()) / 2);
            pieces.push(piece);
            rest = later;
        }
        pieces.push(rest);
        let nonce = Nonce { number, class };
        let tag = TagKey::new(&key.into()).tag(nonce, pieces);
        prop_assert_eq!(tag.to_vec(), expected(&key, nonce, &bytes));
    }

    #[test]
    fn keys_made_ahead_are_those_of_their_numbers(
        key: [u8; 32],
        start in prop_oneof![any::<u64>(), 0..10u64, u64::MAX - 10..],
        // Most tag numbers are in order or nearly so, some are far away, and they belong to two
        // classes.
        steps in prop::collection::vec((prop_oneof![8 => -2..4i64, 1 => -20..20i64, 1 => any::<i64>()], 0..8u32), 1..50),
    ) {
        let mut tags = TagKey::new(&key.into());
        let mut number = start;
        for (step, class) in steps {
            number = number.wrapping_add_signed(step);
            let nonce = Nonce { number, class: u32::from(class == 0) };
            prop_assert_eq!(tags.tag(nonce, [&b"bytes"[..]]).to_vec(), expected(&key, nonce, b"bytes"), "{:?}", nonce);
        }
    }
}

#[test]
fn keys_of_numbers_in_order_are_made_once() {
    let mut key = TagKey::new(&[1; 32].into());
    let made = (1..=10 * AHEAD as u64).filter(|number| {
        key.begin(numbered(*number));
        key.first == numbered(*number)
    });
    assert_eq!(made.count(), 10);
}
