//! Types without values in the place of those that need the feature `security`: the code that
//! handles protected connections compiles without it, and can never run.

use std::convert::Infallible;

use bytes::BytesMut;
use evb_core::wire::encoding::Encoding;

use super::{Forged, Keys, LaneKey, Nonce, TAG_LENGTH};

/// Error of the encryption library.
pub type CipherError = Infallible;

/// A protected connection.
#[derive(Debug)]
pub enum Session {}

impl Session {
    /// Returns the keys of the connection's lane.
    pub fn keys(&self) -> &Keys {
        match *self {}
    }

    pub(crate) fn message(&mut self, _message: &impl Encoding) -> Result<Vec<u8>, CipherError> {
        match *self {}
    }

    /// Encrypts the front of `content` and appends the parcel to `into`.
    ///
    /// # Errors
    /// None, as there is no session.
    pub fn seal(&mut self, _content: &mut BytesMut, _into: &mut BytesMut) -> Result<(), CipherError> {
        match *self {}
    }

    /// Decrypts the parcel at the front of `sealed` and appends its content to `into`.
    ///
    /// # Errors
    /// None, as there is no session.
    pub fn open(&mut self, _sealed: &mut BytesMut, _into: &mut BytesMut) -> Result<bool, Forged> {
        match *self {}
    }
}

/// Key from which tags are made.
#[derive(Clone, Debug)]
pub enum TagKey {}

impl TagKey {
    /// Creates the tagger from the key of a direction.
    pub fn new(key: &LaneKey) -> Self {
        match *key {}
    }

    /// Begins the tag with that number.
    pub fn begin(&mut self, _nonce: Nonce) -> Tagging {
        match *self {}
    }

    /// Returns the tag of the pieces in their order.
    pub fn tag<'a>(&mut self, _: Nonce, _: impl IntoIterator<Item = &'a [u8]>) -> [u8; TAG_LENGTH] {
        match *self {}
    }
}

/// A tag under computation.
#[derive(Debug)]
pub enum Tagging {}

impl Tagging {
    /// Adds bytes.
    pub fn update(&mut self, _bytes: &[u8]) {
        match *self {}
    }

    /// Returns the tag of all bytes.
    pub fn finish(self) -> [u8; TAG_LENGTH] {
        match self {}
    }
}

/// Compares two tags.
pub fn is_equal(a: &[u8; TAG_LENGTH], b: &[u8; TAG_LENGTH]) -> bool {
    a == b
}
