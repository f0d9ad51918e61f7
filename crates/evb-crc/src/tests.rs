use core::ops::RangeInclusive;

use crc_fast::CrcAlgorithm::Crc64Nvme;
use evb_needs::{Missing, skip};

use super::*;

/// Size of the vectors and of the cache lines, to which the bytes of the tests are aligned.
const LINE: usize = 64;

/// Returns pseudo-random numbers (G. Marsaglia, *Xorshift RNGs*, 2003).
fn numbers() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |last| {
        let next = last ^ last << 13;
        let next = next ^ next >> 7;
        Some(next ^ next << 17)
    })
    .map(|number| (number >> 20) as usize)
}

/// Returns random bytes, and the position of the first aligned one.
fn aligned(length: usize) -> (Vec<u8>, usize) {
    let mut bytes: Vec<u8> = Vec::with_capacity(length + LINE);
    let start = bytes.as_ptr().align_offset(LINE);
    bytes.extend(numbers().map(|number| number as u8).take(start + length));
    (bytes, start)
}

fn expected(bytes: &[u8]) -> u64 {
    crc_fast::checksum(Crc64Nvme, bytes)
}

/// Returns the paths of this processor, and says which are missing.
fn paths() -> Vec<(&'static str, Path)> {
    let paths = supported();
    for name in ["avx512", "pclmulqdq"] {
        if !paths.iter().any(|(supported, _)| *supported == name) {
            skip(&Missing::new(format_args!("a processor with the path {name}")));
        }
    }
    paths
}

fn agree(lengths: RangeInclusive<usize>, offset: usize) {
    let (bytes, start) = aligned(offset + lengths.end());
    let paths = paths();
    for length in lengths {
        let input = &bytes[start + offset..][..length];
        let expected = expected(input);
        for (name, path) in &paths {
            assert_eq!(!path(INITIAL, input), expected, "{name}: {length} bytes at offset {offset}");
        }
    }
}

#[test]
fn published_values() {
    // The check value, and examples of the NVM Express NVM command set 1.0d, figure 122.
    let examples: [(&[u8], u64); 4] = [
        (b"", 0),
        (b"123456789", 0xae8b_1486_0a79_9888),
        (&[0; 4096], 0x6482_d367_eb22_b64e),
        (&[0xff; 4096], 0xc0dd_ba73_02ec_a3ac),
    ];
    for (bytes, value) in examples {
        assert_eq!(checksum(bytes), value);
        paths().iter().for_each(|(name, path)| assert_eq!(!path(INITIAL, bytes), value, "{name}"));
    }
}

#[test]
fn all_lengths_at_all_alignments() {
    (0..LINE).for_each(|offset| agree(0..=8192, offset));
}

#[test]
fn long_inputs() {
    [65_536, 1_000_003].into_iter().for_each(|length| agree(length..=length + 300, 5));
}

/// Each input ends where its allocation ends, and begins where it begins: under a sanitizer, a read
/// beyond either is found.
#[test]
fn no_byte_beside_the_input_is_read() {
    for length in 0..=1100 {
        let (bytes, _) = aligned(length);
        let input: Box<[u8]> = bytes[..length].into();
        paths().iter().for_each(|(name, path)| {
            assert_eq!(!path(INITIAL, &input), expected(&input), "{name}: {length} bytes");
        });
    }
}

#[test]
fn pieces_of_any_length() {
    let (bytes, start) = aligned(20_000);
    let mut numbers = numbers();
    let mut below = |bound: usize| numbers.next().unwrap() % bound;
    for round in 0..3000 {
        let longest = [4, 20, 100, 300, 2000][round % 5];
        let at = start + below(5000);
        let input = &bytes[at..at + below(10 * longest).min(15_000)];
        for (name, path) in &paths() {
            let (mut rest, mut state, mut digest) = (input, INITIAL, Digest::default());
            while !rest.is_empty() {
                let (piece, others) = rest.split_at(below(longest + 1).min(rest.len()));
                (state, rest) = (path(state, piece), others);
                digest.update(piece);
            }
            assert_eq!(!state, expected(input), "{name}: {} bytes", input.len());
            assert_eq!((digest.value(), digest.length()), (!state, input.len() as u64));
        }
    }
}

#[test]
fn any_state_is_continued() {
    let (bytes, start) = aligned(1200);
    for (length, state) in (0..=1200).zip(numbers()) {
        let (input, state) =
            (&bytes[start..start + length], (state as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let states = paths().into_iter().map(|(name, path)| (name, path(state, input)));
        let mut digest = crc_fast::Digest::new_with_init_state(Crc64Nvme, state);
        digest.update(input);
        states.for_each(|(name, after)| assert_eq!(after, digest.get_state(), "{name}: {length} bytes"));
    }
}
