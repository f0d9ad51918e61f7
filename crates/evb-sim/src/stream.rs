//! Records and messages in the byte streams between hosts, exactly as on a real network.

use bytes::{Buf as _, BytesMut};
use evb_core::wire::encoding::Encoding as _;
use evb_core::wire::{
    control::{Control, MAX_MESSAGE, Message},
    record::{RECORD_HEADER, RecordHeader},
};

/// Appends a control message behind its length.
pub(crate) fn write_control(message: &Control, into: &mut BytesMut) {
    message.encode_framed(into);
}

/// Returns the next control message, if all of it has arrived.
///
/// # Errors
/// The first thing that is wrong with the bytes.
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

/// Returns the next record's header once its fixed body has arrived too; the body stays in front of
/// `from`.
///
/// # Errors
/// The first thing that is wrong with the bytes.
pub(crate) fn read_record(from: &mut BytesMut) -> Result<Option<RecordHeader>, String> {
    let Some(bytes) = from.first_chunk::<RECORD_HEADER>() else { return Ok(None) };
    let header = RecordHeader::decode(*bytes).map_err(|error| error.to_string())?;
    if from.len() < RECORD_HEADER + header.body() {
        return Ok(None);
    }
    from.advance(RECORD_HEADER);
    Ok(Some(header))
}
