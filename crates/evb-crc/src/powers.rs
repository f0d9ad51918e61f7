//! The constants of both paths: powers of x modulo the polynomial, bit-reflected as the bytes are.
//!
//! A carry-less product of two reflected numbers is reflected in 127 bits, not 128, which
//! multiplies it by x. So the exponent of each factor is less by one than the power that is meant.

/// The polynomial without x⁶⁴, its highest coefficient first.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_3659;

/// Largest number of vectors of 64 bytes that are multiplied at once.
pub(crate) const VECTORS: usize = 7;

/// Factors of the two halves of 16 bytes.
pub(crate) type Factors = [u64; 2];

/// Factors that take 16 bytes to the end of the input, and x⁶⁴ further, where the checksum is their
/// remainder: a row for each vector of 64 bytes, the last one for the last 64 bytes.
pub(crate) static TO_END: [[Factors; 4]; VECTORS] = {
    let mut rows = [[[0; 2]; 4]; VECTORS];
    let mut place = 0;
    while place < 4 * VECTORS {
        let distance = 128 * (4 * VECTORS - 1 - place);
        rows[place / 4][place % 4] = over(distance + 64);
        place += 1;
    }
    rows
};

/// Factors that take 16 bytes over 128 and over 256 bytes.
pub(crate) const OVER_128: Factors = over(8 * 128);
pub(crate) const OVER_256: Factors = over(8 * 256);

/// Factors that take 8 bytes over 0 to 7 bytes, and x⁶⁴ further.
pub(crate) static OVER_BYTES: [u64; 8] = {
    let mut factors = [0; 8];
    let mut bytes = 0;
    while bytes < 8 {
        factors[bytes] = power(64 + 8 * bytes - 1);
        bytes += 1;
    }
    factors
};

/// The quotient of x¹²⁷ and the polynomial, and the polynomial divided by x, for the reduction
/// (P. Barrett, CRYPTO '86).
pub(crate) const REDUCTION: Factors = [quotient(), ((1 << 63) | (POLYNOMIAL >> 1)).reverse_bits()];

/// Returns the factors that take 16 bytes over a number of bits. The first 8 bytes are 64 bits
/// further away.
const fn over(bits: usize) -> Factors {
    [power(bits + 64 - 1), power(bits - 1)]
}

/// Returns x to the power of `exponent`.
const fn power(exponent: usize) -> u64 {
    let mut value: u64 = 1;
    let mut done = 0;
    while done < exponent {
        let carry = value >> 63 == 1;
        value = (value << 1) ^ if carry { POLYNOMIAL } else { 0 };
        done += 1;
    }
    value.reverse_bits()
}

/// Returns the quotient of x¹²⁷ and the polynomial, by long division.
const fn quotient() -> u64 {
    // The first 64 digits of x¹²⁷ are a one and zeros, and the quotient of these is 0. The next
    // digit makes the remainder x⁶⁴, whose quotient is 1.
    let (mut quotient, mut remainder): (u64, u64) = (0, 1 << 63);
    let mut digit = 0;
    while digit < 64 {
        let carry = remainder >> 63 == 1;
        quotient = (quotient << 1) | carry as u64;
        remainder = (remainder << 1) ^ if carry { POLYNOMIAL } else { 0 };
        digit += 1;
    }
    quotient.reverse_bits()
}
