//! [`Ancillary`]: the control messages beside the bytes of a datagram (cmsg(3)), written and read
//! as bytes, in safe code.

#[cfg(test)]
mod tests;

/// Size of `cmsghdr`: a `size_t` for the length, then an `int` each for level and type.
pub(crate) const HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();

/// Rounds a length up to the alignment of control messages (`CMSG_ALIGN`).
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

/// A buffer for a socket's ancillary data, with the alignment that `cmsghdr` requires.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Ancillary<const N: usize> {
    pub(crate) bytes: [u8; N],
    /// Number of bytes in use at the front of `bytes`.
    pub(crate) length: usize,
}

impl<const N: usize> Ancillary<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    /// Appends one control message; returns false if the buffer has no room for it.
    pub(crate) fn push(&mut self, level: i32, kind: i32, data: &[u8]) -> bool {
        let end = self.length + HEADER + aligned(data.len());
        let Some(room) = self.bytes.get_mut(self.length..end) else { return false };
        let (header, body) = room.split_at_mut(HEADER);
        let (length, rest) = header.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        let (first, second) = rest.split_at_mut(size_of::<i32>());
        first.copy_from_slice(&level.to_ne_bytes());
        second.copy_from_slice(&kind.to_ne_bytes());
        body[..data.len()].copy_from_slice(data);
        self.length = end;
        true
    }

    /// Calls `see` for each control message; stops at the first malformed message.
    pub(crate) fn each(&self, mut see: impl FnMut(i32, i32, &[u8])) {
        let mut rest = self.bytes.get(..self.length).unwrap_or_default();
        while let Some((length, after)) = rest.split_first_chunk::<{ size_of::<usize>() }>() {
            let length = usize::from_ne_bytes(*length);
            let Some((level, after)) = after.split_first_chunk::<4>() else { return };
            let Some((kind, after)) = after.split_first_chunk::<4>() else { return };
            let Some(data) = length.checked_sub(HEADER).and_then(|length| after.get(..length)) else {
                return;
            };
            see(i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data);
            rest = rest.get(aligned(length)..).unwrap_or_default();
        }
    }
}
