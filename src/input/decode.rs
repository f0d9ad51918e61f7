//! [`Decode`]: turns the bytes of a board's stream into fragments.

use std::sync::Arc;

use bytes::BytesMut;
use evb_core::{fragment::Fragment, framing::Losses};

/// Turns the bytes of a board's stream into fragments, and counts what it cannot use. The layout
/// that a configuration declares is decoded by [`Framing`](super::Framing); a program may bring its
/// own decoder for other formats.
///
/// Bytes arrive in pieces of any size. A decoder takes what it can use from the front of `bytes`,
/// and the caller keeps the rest for the next call. Each connection has a decoder of its own.
///
/// ```
/// use bytes::{Buf as _, BytesMut};
/// use evb::{
///     input::{Decode, Decoded, Follows, Losses},
///     prelude::*,
/// };
///
/// /// A board that sends a counter of one byte before each sample of one byte.
/// struct Pairs;
///
/// impl Decode for Pairs {
///     fn decode(&mut self, bytes: &mut BytesMut, _follows: Follows) -> Decoded {
///         if bytes.len() < 2 {
///             return Decoded::Needs(2);
///         }
///         let pair = bytes.split_to(2);
///         let event = EventId::new(pair[0].into());
///         Decoded::Fragment(Fragment::new(event, Timestamp::new(0), vec![pair[1]]))
///     }
///
///     fn losses(&self) -> Losses {
///         Losses::default()
///     }
///
///     fn largest(&self) -> usize {
///         2
///     }
/// }
///
/// let mut bytes = BytesMut::from(&[1, 42, 2][..]);
/// assert!(matches!(Pairs.decode(&mut bytes, Follows::Bytes), Decoded::Fragment(_)));
/// // The usual mistake is to take a part of what has not arrived completely.
/// assert_eq!(Pairs.decode(&mut bytes, Follows::Bytes), Decoded::Needs(2));
/// assert_eq!(bytes.len(), 1);
/// ```
pub trait Decode: Send {
    /// Decodes what is at the front of `bytes`. The event id of a fragment is the board's trigger
    /// counter, if the source declares one.
    fn decode(&mut self, bytes: &mut BytesMut, follows: Follows) -> Decoded;

    /// Notes that bytes of unknown number are missing before those of the next call: these may be
    /// in the middle of a frame. Only in captures, bytes are missing.
    fn note_gap(&mut self) {}

    /// Returns what the decoder could not use so far.
    fn losses(&self) -> Losses;

    /// Returns the largest number that [`Decoded::Needs`] and [`Decoded::Holds`] have.
    fn largest(&self) -> usize;
}

/// Makes a decoder for each connection.
pub type Decoders = Arc<dyn Fn() -> Box<dyn Decode> + Send + Sync>;

/// The continuation of the bytes that a decoder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Further bytes, or nothing yet.
    Bytes,
    /// Nothing for a moment that is longer than the gaps in a frame.
    Pause,
    /// Nothing: the connection has ended.
    End,
}

/// The outcome of a call of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A fragment, whose bytes were taken.
    Fragment(Fragment),
    /// Some bytes were taken and are no fragment.
    Skipped,
    /// The number of bytes that must be there at the next call, unless that has [`Follows::End`].
    Needs(usize),
    /// The number of bytes that would show whether a whole frame, which has arrived, is followed by
    /// the next one. A pause confirms the frame, too.
    Holds(usize),
    /// The decoder finds no frame: the connection has to be closed.
    Lost,
}
