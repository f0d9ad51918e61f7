use bytes::{BufMut as _, BytesMut};
use proptest::prelude::*;

use super::{super::PARCEL_OVERHEAD, Forged, MAX_CONTENT, Opener, Sealer};

const KEY: [u8; 32] = [7; 32];

fn sealed(contents: &[&[u8]]) -> Vec<BytesMut> {
    let mut sealer = Sealer::new(&KEY.into());
    let seal = |content: &&[u8]| {
        let (mut content, mut parcel) = (BytesMut::from(*content), BytesMut::new());
        while !content.is_empty() {
            sealer.seal(&mut content, &mut parcel);
        }
        parcel
    };
    contents.iter().map(seal).collect()
}

/// Returns the content of the opened parcels, and the error if a parcel was forged.
fn opened(parcels: &[BytesMut]) -> (Vec<u8>, Result<(), Forged>) {
    let mut opener = Opener::new(&KEY.into());
    let (mut all, mut content) = (Vec::new(), BytesMut::new());
    for parcel in parcels {
        opener.sealed.put_slice(parcel);
        loop {
            match opener.open(&mut content) {
                Ok(true) => all.extend_from_slice(&content.split()),
                Ok(false) => break,
                Err(forged) => return (all, Err(forged)),
            }
        }
    }
    (all, Ok(()))
}

#[test]
fn what_goes_in_comes_out_also_byte_by_byte() {
    let long = vec![9; 2 * MAX_CONTENT + 5];
    let parcels = sealed(&[b"one", &long, b"two"]);
    assert_eq!(parcels[1].len(), long.len() + 3 * PARCEL_OVERHEAD);
    let wanted = [&b"one"[..], &long, b"two"].concat();
    assert_eq!(opened(&parcels), (wanted, Ok(())));

    let bytes: Vec<BytesMut> = parcels[0].iter().map(|byte| BytesMut::from(&[*byte][..])).collect();
    assert_eq!(opened(&bytes), (b"one".to_vec(), Ok(())));
}

#[test]
fn content_that_waits_is_continued() {
    let [one, two] = &sealed(&[b"one", b"two"])[..] else { panic!("two parcels") };
    let mut opener = Opener::new(&KEY.into());
    opener.sealed.put_slice(&[&one[..], &two[..]].concat());
    let mut content = BytesMut::new();
    assert_eq!(opener.open(&mut content), Ok(true));
    assert_eq!(opener.open(&mut content), Ok(true));
    assert_eq!(&content[..], b"onetwo");
}

#[test]
fn parcels_of_another_place_are_refused() {
    let parcels = sealed(&[b"one", b"two", b"three"]);
    let [one, two, three] = &parcels[..] else { panic!("three parcels") };
    let of = |parcels: &[&BytesMut]| opened(&parcels.iter().copied().cloned().collect::<Vec<_>>());
    assert_eq!(of(&[two, one]), (vec![], Err(Forged)), "swapped");
    assert_eq!(of(&[one, one]), (b"one".to_vec(), Err(Forged)), "replayed");
    assert_eq!(of(&[one, three]), (b"one".to_vec(), Err(Forged)), "one left out");
    assert_eq!(of(&[one, two, three]).1, Ok(()));
    let mut other = Opener::new(&[8; 32].into());
    other.sealed.put_slice(one);
    assert_eq!(other.open(&mut BytesMut::new()), Err(Forged), "another key");
}

#[test]
fn every_flipped_bit_is_seen_before_anything_comes_out() {
    let parcel = sealed(&[b"announcement"]).remove(0);
    for bit in 0..8 * parcel.len() {
        let mut bad = parcel.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // If the flipped bit makes the length longer, the opener waits for more bytes, which then
        // do not match the tag.
        let more = BytesMut::zeroed(MAX_CONTENT);
        assert_eq!(opened(&[bad, more]), (vec![], Err(Forged)), "bit {bit}");
    }
}

#[test]
fn a_parcel_of_nothing_is_none() {
    for length in [0u16, 1, 15, 16] {
        let mut bytes = BytesMut::from(&length.to_le_bytes()[..]);
        bytes.put_bytes(0, length.into());
        assert_eq!(opened(&[bytes]), (vec![], Err(Forged)), "{length}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_bring_nothing(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
        let pieces: Vec<BytesMut> = pieces.iter().map(|piece| BytesMut::from(&piece[..])).collect();
        prop_assert_eq!(opened(&pieces).0, Vec::<u8>::new());
    }
}
