//! [`ReadBuffers`]: memory for the bytes that arrive, shared by the lanes of a task.

#[cfg(test)]
mod tests;

use std::mem;

use bytes::BytesMut;

/// Largest number of bytes that are copied so that a lane without much to process has no buffer of
/// its own: the beginning of a record whose rest has not arrived.
const REST: usize = 2 << 10;
/// Read buffers that the lanes of a task share. A lane has a buffer while it is read, and keeps it
/// only if many bytes of an incomplete record remain. So thousands of lanes need little memory.
#[derive(Debug, Default)]
pub struct ReadBuffers {
    spare: Option<BytesMut>,
}

impl ReadBuffers {
    /// Gives a lane the spare buffer, with the few bytes that the lane still has. A lane with more
    /// bytes keeps its own buffer.
    pub(super) fn lend(&mut self, buffer: &mut BytesMut) {
        if buffer.len() <= REST
            && let Some(mut spare) = self.spare.take()
        {
            spare.extend_from_slice(buffer);
            *buffer = spare;
        }
    }

    /// Takes a lane's buffer back, unless many bytes remain in it.
    pub(super) fn take_back(&mut self, buffer: &mut BytesMut) {
        if buffer.len() > REST {
            return;
        }
        let rest = BytesMut::from(&buffer[..]);
        let mut taken = mem::replace(buffer, rest);
        taken.clear();
        self.spare.get_or_insert(taken);
    }
}
