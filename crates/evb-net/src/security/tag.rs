//! Tags of the bytes on a lane: AES-256-GCM-SIV (RFC 8452) of no plaintext, with the bytes as
//! additional data.
//!
//! The bytes are not encrypted, so that they leave from the memory in which readout left them.
//! Measured beside Poly1305, keyed BLAKE3 and AES-GMAC (GHASH), POLYVAL takes the fewest
//! instructions per byte; its time does not depend on the data, and a number that is used twice
//! does not reveal a key.

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

/// Bytes that POLYVAL takes at once: four blocks cost little more than one.
const STRIDE: usize = 4 * BLOCK;

/// Numbers for which keys are made at once: numbers are consecutive, and AES takes many blocks side
/// by side.
const AHEAD: usize = 8;

/// Blocks that make the two keys of one number (RFC 8452 §4).
const DERIVED: usize = 6;

impl Nonce {
    /// Returns the bytes that AES-GCM-SIV takes.
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.class.to_le_bytes());
        bytes
    }
}

/// One direction's key: makes the keys of each tag from its number.
#[derive(Clone)]
pub struct TagKey {
    cipher: Aes256Enc,
    /// The first of those whose keys are made.
    first: Nonce,
    /// Their keys, as they come out of the cipher; none before the first tag.
    made: Option<[[Block; DERIVED]; AHEAD]>,
}

impl TagKey {
    /// Creates the tagger from 32 secret bytes.
    pub fn new(key: &LaneKey) -> Self {
        let key: &[u8; 32] = key;
        Self { cipher: Aes256Enc::new(key.into()), first: Nonce { number: 0, class: 0 }, made: None }
    }

    /// Begins the tag of that number.
    #[inline]
    pub fn begin(&mut self, nonce: Nonce) -> Tagging {
        let index = nonce.number.wrapping_sub(self.first.number);
        let index =
            if nonce.class == self.first.class && index < AHEAD as u64 { index as usize } else { AHEAD };
        let known = self.made.as_ref().and_then(|made| made.get(index));
        let keys = match known {
            Some(keys) => *keys,
            None => self.make(nonce),
        };
        Tagging::new(&keys, nonce)
    }

    /// The keys of that number, and of those behind it.
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

    /// The tag of those pieces, one behind the other.
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

/// A tag on its way.
pub struct Tagging {
    hash: Polyval,
    /// Key with which the hash is encrypted.
    key: [u8; 32],
    nonce: Nonce,
    /// Bytes that do not fill a stride yet.
    rest: [u8; STRIDE],
    held: usize,
    length: u64,
}

impl Tagging {
    /// Combines the first halves of the blocks that were made from its number.
    #[inline]
    fn new(keys: &[Block; DERIVED], nonce: Nonce) -> Self {
        let [hash @ .., _, _, _, _] = keys;
        let mut hash_key = polyval::Key::default();
        let mut key = [0; 32];
        let [_, _, cipher @ ..] = keys;
        join(hash, &mut hash_key);
        join(cipher, &mut key);
        Self { hash: Polyval::new(&hash_key), key, nonce, rest: [0; STRIDE], held: 0, length: 0 }
    }

    /// The next bytes.
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

    /// The tag of all of them.
    #[inline]
    pub fn finish(mut self) -> [u8; TAG_LENGTH] {
        // What is left, zeros up to a block's end, and a block of the length, in bits.
        let mut last = [0; STRIDE + BLOCK];
        let end = self.held.next_multiple_of(BLOCK);
        last[..self.held].copy_from_slice(&self.rest[..self.held]);
        last[end..end + 8].copy_from_slice(&(self.length * 8).to_le_bytes());
        self.hash.update(blocks(&last[..end + BLOCK]));
        let mut block = Block::default();
        block.copy_from_slice(&self.hash.finalize());
        block.iter_mut().zip(self.nonce.bytes()).for_each(|(byte, nonce)| *byte ^= nonce);
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

/// The first halves of those blocks.
fn join(blocks: &[Block], into: &mut [u8]) {
    for (part, block) in into.chunks_exact_mut(BLOCK / 2).zip(blocks) {
        part.copy_from_slice(&block[..BLOCK / 2]);
    }
}

fn blocks(bytes: &[u8]) -> &[polyval::Block] {
    polyval::Block::slice_as_chunks(bytes).0
}

/// Returns true if two tags are equal, in a time that does not depend on them.
pub fn is_equal(a: &[u8; TAG_LENGTH], b: &[u8; TAG_LENGTH]) -> bool {
    a.ct_eq(b).into()
}
