//! What the fuzz targets reach of the measurement's wire, with the feature `fuzzing` alone.

use super::{
    sender::is_moderate,
    wire::{HEADER, Message, Numbered, RECORD},
};

/// A record of the control connection, written again as it was understood; `None`: it is none. Of an order that a sender
/// would obey, all times are looked at.
pub fn record(bytes: &[u8; RECORD]) -> Option<[u8; RECORD]> {
    let message = Message::decode(bytes)?;
    if let Message::Order(order) = &message
        && is_moderate(order)
    {
        (0..order.total()).for_each(|index| assert!(order.due(index) < u64::MAX / 2));
    }
    Some(message.encode())
}

/// The head of a datagram, written again as it was understood; `None`: it is too short, or none.
pub fn datagram(bytes: &[u8]) -> Option<[u8; HEADER]> {
    Numbered::decode(bytes).map(|numbered| numbered.encode())
}
