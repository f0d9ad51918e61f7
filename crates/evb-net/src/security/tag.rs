//! Tags of the bytes on a lane: AES-256-GCM-SIV (RFC 8452) of no plaintext, with the bytes as
//! additional data.
//!
//! The bytes are not encrypted, so that they can be sent directly from the memory into which
//! readout wrote them. In measurements against Poly1305, keyed BLAKE3 and AES-GMAC (GHASH), POLYVAL
//! takes the fewest instructions per byte. The time that POLYVAL takes does not depend on the data,
//! and a tag number that is used twice does not reveal a key.

#[cfg(test)]
mod tests;

use std::fmt;

use aes::{
    Aes256Enc, Block,
    cipher::{BlockCipherEncrypt as _, KeyInit as _},
};
use polyval::{Polyval, universal_hash::UniversalHash as _};
use subtle::ConstantTimeEq as _;

use super::{LaneKey, Nonce, TAG_LENGTH};

const BLOCK: usize = 16;

/// Number of bytes that POLYVAL processes at once: four blocks cost little more than one block.
const STRIDE: usize = 4 * BLOCK;

/// Number of tags whose keys are computed at once: tag numbers are consecutive, and AES processes
/// many blocks in parallel.
const AHEAD: usize = 8;

/// Number of AES blocks from which the two keys of one tag are derived (RFC 8452 §4).
const DERIVED: usize = 6;

impl Nonce {
    /// Returns the nonce as AES-GCM-SIV takes it.
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.class.to_le_bytes());
        bytes
    }
}

/// Key of one direction, from which the keys of each tag are derived by the tag's number.
#[derive(Clone)]
pub struct TagKey {
    cipher: Aes256Enc,
    /// First of the consecutive tag numbers whose keys are in `made`.
    first: Nonce,
    /// Key blocks of the next tags, as the cipher produced them; `None` before the first tag.
    made: Option<[[Block; DERIVED]; AHEAD]>,
}

impl TagKey {
    /// Creates the key from 32 secret bytes.
    pub fn new(key: &LaneKey) -> Self {
        let key: &[u8; 32] = key;
        Self { cipher: Aes256Enc::new(key.into()), first: Nonce { number: 0, class: 0 }, made: None }
    }

    /// Begins the computation of the tag with the given number.
    #[inline]
    pub fn begin(&mut self, nonce: Nonce) -> Tagging {
        // The keys of some tags are computed ahead: the cipher is faster with several blocks.
        let ahead = nonce.number.wrapping_sub(self.first.number);
        let is_made = nonce.class == self.first.class && ahead < AHEAD as u64;
        let known = self.made.as_ref().filter(|_| is_made).and_then(|made| made.get(ahead as usize));
        let keys = match known {
            Some(keys) => *keys,
            None => self.make(nonce),
        };
        Tagging::new(&keys, nonce)
    }

    /// Computes the key blocks of the tag with the given number and of the tags that follow.
    /// Returns the key blocks of the tag with the given number.
    fn make(&mut self, nonce: Nonce) -> [Block; DERIVED] {
        let mut made = [[Block::default(); DERIVED]; AHEAD];
        for (number, blocks) in (0..).map(|index| nonce.number.wrapping_add(index)).zip(&mut made) {
            let bytes = Nonce { number, ..nonce }.bytes();
            for (counter, block) in (0u32..).zip(blocks) {
                block[..4].copy_from_slice(&counter.to_le_bytes());
                block[4..].copy_from_slice(&bytes);
            }
        }
        self.cipher.encrypt_blocks(made.as_flattened_mut());
        self.first = nonce;
        self.made.insert(made)[0]
    }

    /// Returns the tag of the concatenated pieces.
    pub fn tag<'a>(&mut self, nonce: Nonce, pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; TAG_LENGTH] {
        let mut tagging = self.begin(nonce);
        pieces.into_iter().for_each(|piece| tagging.update(piece));
        tagging.finish()
    }
}

impl fmt::Debug for TagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagKey(…)")
    }
}

/// A tag whose computation is in progress.
pub struct Tagging {
    hash: Polyval,
    /// Key with which the hash is encrypted.
    key: [u8; 32],
    nonce: Nonce,
    /// Bytes that are not hashed yet, because they do not fill a stride.
    rest: [u8; STRIDE],
    held: usize,
    length: u64,
}

impl Tagging {
    /// Starts to compute a tag with its two keys, which consist of the first halves of the tag's
    /// key blocks.
    #[inline]
    fn new(keys: &[Block; DERIVED], nonce: Nonce) -> Self {
        // The first two of the six blocks give the key of the hash, and the other four that of the
        // cipher.
        let [hash @ .., _, _, _, _] = keys;
        let mut hash_key = polyval::Key::default();
        let mut key = [0; 32];
        let [_, _, cipher @ ..] = keys;
        join(hash, &mut hash_key);
        join(cipher, &mut key);
        Self { hash: Polyval::new(&hash_key), key, nonce, rest: [0; STRIDE], held: 0, length: 0 }
    }

    /// Adds the next bytes to the tag.
    #[inline]
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.held > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(STRIDE - self.held));
            self.rest[self.held..][..now.len()].copy_from_slice(now);
            self.held += now.len();
            bytes = later;
            if self.held < STRIDE {
                return;
            }
            self.hash.update(blocks(&self.rest));
            self.held = 0;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % STRIDE);
        self.hash.update(blocks(whole));
        self.rest[..rest.len()].copy_from_slice(rest);
        self.held = rest.len();
    }

    /// Returns the tag of all bytes that were added.
    #[inline]
    pub fn finish(mut self) -> [u8; TAG_LENGTH] {
        // The last blocks to hash are the remaining bytes, zeros up to the end of a block, and a
        // block with the length in bits.
        let mut last = [0; STRIDE + BLOCK];
        let end = self.held.next_multiple_of(BLOCK);
        last[..self.held].copy_from_slice(&self.rest[..self.held]);
        last[end..end + 8].copy_from_slice(&(self.length * 8).to_le_bytes());
        self.hash.update(blocks(&last[..end + BLOCK]));
        let mut block = Block::default();
        block.copy_from_slice(&self.hash.finalize());
        block.iter_mut().zip(self.nonce.bytes()).for_each(|(byte, nonce)| *byte ^= nonce);
        // As in AES-GCM-SIV (RFC 8452, 4), the highest bit is cleared before the encryption.
        block[15] &= 0x7f;
        Aes256Enc::new(&self.key.into()).encrypt_block(&mut block);
        block.into()
    }
}

impl fmt::Debug for Tagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tagging(…)")
    }
}

/// Joins the first halves of `blocks` in `into`.
fn join(blocks: &[Block], into: &mut [u8]) {
    for (part, block) in into.chunks_exact_mut(BLOCK / 2).zip(blocks) {
        part.copy_from_slice(&block[..BLOCK / 2]);
    }
}

fn blocks(bytes: &[u8]) -> &[polyval::Block] {
    polyval::Block::slice_as_chunks(bytes).0
}

/// Returns true if two tags are equal; the time of the comparison does not depend on the tags.
pub fn is_equal(a: &[u8; TAG_LENGTH], b: &[u8; TAG_LENGTH]) -> bool {
    // The comparison of one number takes far fewer instructions than that of its bytes.
    u128::from_le_bytes(*a).ct_eq(&u128::from_le_bytes(*b)).into()
}
