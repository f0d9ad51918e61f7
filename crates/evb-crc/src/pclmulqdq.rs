//! The path for PCLMULQDQ, in vectors of 16 bytes. The instructions of AVX save copies, because
//! they do not overwrite what they read.

#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_extract_epi64, _mm_loadu_si128, _mm_set_epi64x,
    _mm_shuffle_epi8, _mm_slli_si128, _mm_xor_si128,
};

use super::{
    Path,
    powers::{Factors, OVER_128, OVER_BYTES, REDUCTION, TO_END},
};

/// Number of bytes of a vector.
const WIDTH: usize = 16;

/// Number of vectors that the loop for long inputs has under way.
const LANES: usize = 8;

/// Returns the path, if the processor supports it.
pub(crate) fn path() -> Option<Path> {
    // SAFETY: the path is returned only if the processor has the features.
    let path: Path = |state, bytes| unsafe { update(state, bytes) };
    (is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("avx")).then_some(path)
}

/// Returns the state after `bytes`.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
pub(crate) fn update(state: u64, bytes: &[u8]) -> u64 {
    let Some(first) = bytes.first_chunk() else { return update_short(state, bytes) };
    // The first vector has the bytes that are left over by whole vectors, behind zeros.
    let over = (bytes.len() - 1) % WIDTH + 1;
    let head = behind_zeros(_mm_xor_si128(load(first), low(state)), over);
    let (blocks, _) = bytes[over..].as_chunks();
    let Some((second, blocks)) = blocks.split_first() else { return sum_up(&[head], &[]) };
    let second = _mm_xor_si128(load(second), low(rest_of_state(state, over)));
    if blocks.len() < 2 * LANES - 2 {
        return sum_up(&[head, second], blocks);
    }
    let mut lanes = [head; LANES];
    lanes[1] = second;
    let (start, blocks) = blocks.split_at(LANES - 2);
    lanes[2..].iter_mut().zip(start).for_each(|(lane, block)| *lane = load(block));
    let (groups, blocks) = blocks.as_chunks::<LANES>();
    let factors = load_factors(&OVER_128);
    for group in groups {
        for (lane, block) in lanes.iter_mut().zip(group) {
            *lane = _mm_xor_si128(multiply(*lane, factors), load(block));
        }
    }
    sum_up(&lanes, blocks)
}

/// Returns the state after `vectors` and, behind them, `blocks`: together at most as many as there
/// are factors.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
fn sum_up(vectors: &[__m128i], blocks: &[[u8; WIDTH]]) -> u64 {
    let factors = TO_END.as_flattened();
    let factors = &factors[factors.len() - vectors.len() - blocks.len()..];
    let (of_vectors, of_blocks) = factors.split_at(vectors.len());
    let mut sum = _mm_set_epi64x(0, 0);
    for (vector, factors) in vectors.iter().zip(of_vectors) {
        sum = _mm_xor_si128(sum, multiply(*vector, load_factors(factors)));
    }
    for (block, factors) in blocks.iter().zip(of_blocks) {
        sum = _mm_xor_si128(sum, multiply(load(block), load_factors(factors)));
    }
    reduce(sum)
}

/// Returns the state after less than 16 bytes.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
fn update_short(state: u64, bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first) ^ state, u64::from_le_bytes(*last));
        let over = length - 8;
        let rest = last & !(u64::MAX >> (8 * over));
        let factor = low(OVER_BYTES[over]);
        return reduce(_mm_xor_si128(_mm_clmulepi64_si128(low(first), factor, 0x00), low(rest)));
    }
    let value = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u64::from(first) | u64::from(last) << (8 * (length - 4))
    } else if let [first, .., last] = *bytes {
        let middle = length / 2;
        u64::from(first) | u64::from(bytes[middle]) << (8 * middle) | u64::from(last) << (8 * (length - 1))
    } else if let [only] = *bytes {
        u64::from(only)
    } else {
        return state;
    };
    reduce(low((value ^ state) << (64 - 8 * length))) ^ rest_of_state(state, length)
}

/// Returns the part of the state that belongs to the bytes after the first `over` bytes.
#[inline]
pub(crate) fn rest_of_state(state: u64, over: usize) -> u64 {
    if over < 8 { state >> (8 * over) } else { 0 }
}

/// Returns the remainder of `sum`, whose first half has the higher powers.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
pub(crate) fn reduce(sum: __m128i) -> u64 {
    let factors = load_factors(&REDUCTION);
    let quotient = _mm_clmulepi64_si128(sum, factors, 0x00);
    let product = _mm_clmulepi64_si128(quotient, factors, 0x10);
    // The last bit of the polynomial times the quotient does not fit into the product's half.
    let remainder = _mm_xor_si128(_mm_xor_si128(sum, _mm_slli_si128(quotient, 8)), product);
    _mm_extract_epi64(remainder, 1).cast_unsigned()
}

/// Returns the sum of both halves, each times its factor.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
fn multiply(vector: __m128i, factors: __m128i) -> __m128i {
    let (first, second) =
        (_mm_clmulepi64_si128(vector, factors, 0x00), _mm_clmulepi64_si128(vector, factors, 0x11));
    _mm_xor_si128(first, second)
}

/// Returns the first `length` bytes of a vector (1 to 16) behind zeros.
#[inline]
#[target_feature(enable = "avx")]
fn behind_zeros(vector: __m128i, length: usize) -> __m128i {
    /// For each of the new bytes the place of the old one, or 0x80 for zero.
    static PLACES: [u8; 2 * WIDTH] = {
        let mut places = [0x80; 2 * WIDTH];
        let mut place = 0;
        while place < WIDTH {
            places[WIDTH + place] = place as u8;
            place += 1;
        }
        places
    };
    let places = PLACES[length..].first_chunk();
    places.map_or(vector, |places| _mm_shuffle_epi8(vector, load(places)))
}

/// Returns a vector with the given first half, and zeros.
#[inline]
#[target_feature(enable = "avx")]
pub(crate) fn low(half: u64) -> __m128i {
    _mm_cvtsi64_si128(half.cast_signed())
}

#[inline]
#[target_feature(enable = "avx")]
fn load(block: &[u8; WIDTH]) -> __m128i {
    // SAFETY: `block` has 16 bytes, and the instruction takes any alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx")]
pub(crate) fn load_factors(factors: &Factors) -> __m128i {
    _mm_set_epi64x(factors[1].cast_signed(), factors[0].cast_signed())
}
