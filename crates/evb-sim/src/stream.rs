//! Encoding and decoding of records and messages in the byte streams between hosts, with the format
//! of production.

use bytes::{Buf as _, BytesMut};
use evb_core::wire::encoding::Encoding as _;
use evb_core::wire::{
    control::{Control, MAX_MESSAGE, Message},
    record::{RECORD_HEADER, RecordHeader},
};

/// Appends the length of a control message, and then the message.
pub(crate) fn write_control(message: &Control, into: &mut BytesMut) {
    message.encode_framed(into);
}

/// Returns the next control message, if it has arrived completely.
///
/// # Errors
/// Returns a description of the first error in the bytes.
pub(crate) fn read_control(from: &mut BytesMut) -> Result<Option<Message>, String> {
    let Some(length) = from.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize) else {
        return Ok(None);
    };
    if length > MAX_MESSAGE {
        return Err(format!("a control message of {length} bytes"));
    }
    if from.len() < 4 + length {
        return Ok(None);
    }
    from.advance(4);
    let message = Control::read(&from.split_to(length)).map_err(|error| error.to_string())?;
    message.message.map(Some).ok_or_else(|| "a control message without content".to_owned())
}

/// Returns the header of the next record, once the record's fixed body has arrived too. The body
/// stays at the front of `from`.
///
/// # Errors
/// Returns a description of the first error in the bytes.
pub(crate) fn read_record(from: &mut BytesMut) -> Result<Option<RecordHeader>, String> {
    let Some(bytes) = from.first_chunk::<RECORD_HEADER>() else { return Ok(None) };
    let header = RecordHeader::decode(*bytes).map_err(|error| error.to_string())?;
    if from.len() < RECORD_HEADER + header.body() {
        return Ok(None);
    }
    from.advance(RECORD_HEADER);
    Ok(Some(header))
}
