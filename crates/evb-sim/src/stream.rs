//! The byte streams between hosts, with the format of production.

use bytes::{Buf as _, BytesMut};
use evb_core::{
    index::LaneIndex,
    source::{SourceCore, StreamReader, StreamWriter},
    wire::{
        control::{Control, MAX_MESSAGE, Message},
        encoding::Encoding as _,
    },
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

/// Reader and writer of a source's end of a lane over a stream.
#[derive(Debug, Default)]
pub(crate) struct SourceStream {
    pub(crate) reader: StreamReader,
    pub(crate) writer: StreamWriter,
}

impl SourceStream {
    /// Appends everything that waits to be written to `into`.
    ///
    /// # Errors
    /// Returns a description of the fault if the lane lacks bytes that it is to send.
    pub(crate) fn write(
        &mut self,
        core: &SourceCore,
        lane: LaneIndex,
        into: &mut BytesMut,
    ) -> Result<(), String> {
        while let Some(slices) = self.writer.gather(core, lane) {
            let before = into.len();
            slices.iter().for_each(|slice| into.extend_from_slice(slice));
            drop(slices);
            if into.len() == before {
                return Err(format!("lane {lane} has no bytes where bytes are to be sent"));
            }
            self.writer.sent(into.len() - before);
        }
        Ok(())
    }
}
