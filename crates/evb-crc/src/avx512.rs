//! The path for VPCLMULQDQ and AVX-512, in vectors of 64 bytes.

#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m512i, _mm_xor_si128, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256,
    _mm512_add_epi8, _mm512_broadcast_i32x4, _mm512_castsi512_si256, _mm512_clmulepi64_epi128,
    _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_maskz_permutexvar_epi8, _mm512_set1_epi8,
    _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use super::{
    Path,
    pclmulqdq::{self, load_factors, low, reduce, rest_of_state},
    powers::{Factors, OVER_256, TO_END, VECTORS},
};

/// Number of bytes of a vector.
const WIDTH: usize = 64;

/// Number of vectors that the loop for long inputs has under way.
const LANES: usize = 4;

/// Returns the path, if the processor supports it.
pub(crate) fn path() -> Option<Path> {
    // SAFETY: the path is returned only if the processor has the features.
    let path: Path = |state, bytes| unsafe { update(state, bytes) };
    let has_features = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq");
    has_features.then_some(path)
}

/// Returns the state after `bytes`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vpclmulqdq,pclmulqdq")]
fn update(state: u64, bytes: &[u8]) -> u64 {
    // The first vector has the bytes that are left over by whole vectors, behind zeros.
    let over = bytes.len().wrapping_sub(1) % WIDTH + 1;
    let (blocks, _) = bytes.get(over..).unwrap_or_default().as_chunks();
    let (Some(first), [second, blocks @ ..], true) = (bytes.first_chunk(), blocks, blocks.len() > 1) else {
        return pclmulqdq::update(state, bytes);
    };
    let head = behind_zeros(_mm512_xor_si512(load(first), first_half(state)), over);
    let second = _mm512_xor_si512(load(second), first_half(rest_of_state(state, over)));
    let ([third, fourth, blocks @ ..], true) = (blocks, blocks.len() > VECTORS - 2) else {
        return sum_up(&[head, second], blocks);
    };
    let mut lanes = [head, second, load(third), load(fourth)];
    let (groups, blocks) = blocks.as_chunks::<LANES>();
    let factors = _mm512_broadcast_i32x4(load_factors(&OVER_256));
    for group in groups {
        for (lane, block) in lanes.iter_mut().zip(group) {
            *lane = multiply_add(*lane, factors, load(block));
        }
    }
    sum_up(&lanes, blocks)
}

/// Returns the state after `vectors` and, behind them, `blocks`: together at most [`VECTORS`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vpclmulqdq,pclmulqdq")]
fn sum_up(vectors: &[__m512i], blocks: &[[u8; WIDTH]]) -> u64 {
    let factors = &TO_END[VECTORS - vectors.len() - blocks.len()..];
    let (of_vectors, of_blocks) = factors.split_at(vectors.len());
    let mut sum = _mm512_setzero_si512();
    for (vector, factors) in vectors.iter().zip(of_vectors) {
        sum = multiply_add(*vector, load_row(factors), sum);
    }
    for (block, factors) in blocks.iter().zip(of_blocks) {
        sum = multiply_add(load(block), load_row(factors), sum);
    }
    let sum = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    reduce(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)))
}

/// Returns the sum of `sum` and both halves of each 16 bytes, each times its factor.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn multiply_add(vector: __m512i, factors: __m512i, sum: __m512i) -> __m512i {
    /// The truth table of the sum of three bits.
    const SUM: i32 = 0x96;
    let first = _mm512_clmulepi64_epi128(vector, factors, 0x00);
    let second = _mm512_clmulepi64_epi128(vector, factors, 0x11);
    _mm512_ternarylogic_epi64(first, second, sum, SUM)
}

/// Returns the first `length` bytes of a vector (1 to 64) behind zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn behind_zeros(vector: __m512i, length: usize) -> __m512i {
    static PLACES: [u8; WIDTH] = {
        let mut places = [0; WIDTH];
        let mut place = 0;
        while place < WIDTH {
            places[place] = place as u8;
            place += 1;
        }
        places
    };
    // The instruction takes places modulo 64.
    let places = _mm512_add_epi8(load(&PLACES), _mm512_set1_epi8(length as i8));
    _mm512_maskz_permutexvar_epi8(u64::MAX << (WIDTH - length), places, vector)
}

/// Returns a vector with the given first eight bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_half(half: u64) -> __m512i {
    _mm512_zextsi128_si512(low(half))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; WIDTH]) -> __m512i {
    // SAFETY: `block` has 64 bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_row(factors: &[Factors; 4]) -> __m512i {
    // SAFETY: `factors` has 64 bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(factors.as_ptr().cast()) }
}
