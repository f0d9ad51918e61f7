//! Entry points of fuzz targets to the measurement's wire format, only with the feature `fuzzing`.

use super::{
    sender::is_moderate,
    wire::{HEADER, Message, Numbered, RECORD},
};

/// Decodes a record of the control connection and encodes it again; `None` if it is invalid.
/// Computes all times of an order that a sender would obey.
pub fn record(bytes: &[u8; RECORD]) -> Option<[u8; RECORD]> {
    let message = Message::decode(bytes)?;
    if let Message::Order(order) = &message
        && is_moderate(order)
    {
        (0..order.total()).for_each(|index| assert!(order.due(index) < u64::MAX / 2));
    }
    Some(message.encode())
}

/// Decodes the head of a datagram and encodes it again; `None` if it is too short or invalid.
pub fn datagram(bytes: &[u8]) -> Option<[u8; HEADER]> {
    Numbered::decode(bytes).map(|numbered| numbered.encode())
}
