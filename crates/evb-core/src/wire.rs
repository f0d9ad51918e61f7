//! Wire format of all messages, with the checks of their content. `docs/reference/protocol.md` is
//! the specification.
//!
//! * [`preamble`]: the first bytes of every connection, by which evb is recognised.
//! * [`encoding`]: encoding and decoding of messages as Protobuf.
//! * [`control`]: handshakes and control messages.
//! * [`journal`]: the entries of a supervisor's journal.
//! * [`record`]: lane records (fixed binary): announcements, grants, commits, data headers.
//! * [`datagram`]: datagrams that carry lane records and lane bytes over UDP.

pub mod preamble;
pub mod encoding;
pub mod control;
pub mod journal;
pub mod record;
pub mod datagram;
pub mod tag;

#[cfg(test)]
mod tests;
