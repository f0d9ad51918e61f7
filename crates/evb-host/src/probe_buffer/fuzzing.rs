//! Entry points for fuzz targets that decode the wire format of `evbd probe-buffer`; only with the
//! feature `fuzzing`.

use super::{
    sender::is_moderate,
    wire::{HEADER, Message, Numbered, RECORD},
};

/// Decodes a record of the control connection and encodes it again; `None` if the record is
/// invalid. Also computes all sending times of an order that a sender would accept.
pub fn record(bytes: &[u8; RECORD]) -> Option<[u8; RECORD]> {
    let message = Message::decode(bytes)?;
    if let Message::Order(order) = &message
        && is_moderate(order)
    {
        (0..order.total()).for_each(|index| assert!(order.due(index) < u64::MAX / 2));
    }
    Some(message.encode())
}

/// Decodes the header of a datagram and encodes it again; `None` if the datagram is too short or
/// invalid.
pub fn datagram(bytes: &[u8]) -> Option<[u8; HEADER]> {
    Numbered::decode(bytes).map(|numbered| numbered.encode())
}
