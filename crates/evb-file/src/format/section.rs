//! Sections: typed, length-prefixed parts at the end of a header or head.

use super::{ALIGNMENT, Fields, aligned, pad};

/// The flag of a section that a reader may not skip.
const REQUIRED: u16 = 1;
/// The size of a section before its body, in bytes.
const HEAD: u64 = 8;

/// A section, as it stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub(super) kind: u16,
    pub(super) is_required: bool,
    pub(super) body: &'a [u8],
}

/// The sections do not fill their space, or their types do not ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// An iterator over the sections that fill a slice.
#[derive(Clone, Debug)]
pub(super) struct Sections<'a> {
    fields: Fields<'a>,
    /// The least type that the next section may have.
    least: u32,
}

impl<'a> Sections<'a> {
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { fields: Fields(bytes), least: 0 }
    }

    /// Reads the next section. Sections come in the order of their kinds, each at most once.
    fn section(&mut self) -> Option<Section<'a>> {
        let (kind, flags, length) = (self.fields.u16()?, self.fields.u16()?, self.fields.u32()?);
        let body = self.fields.bytes(length as usize)?;
        self.fields.bytes((aligned(u64::from(length)) - u64::from(length)) as usize)?;
        if u32::from(kind) < self.least {
            return None;
        }
        self.least = u32::from(kind) + 1;
        Some(Section { kind, is_required: flags & REQUIRED != 0, body })
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.fields.0.is_empty() {
            return None;
        }
        let section = self.section().ok_or(Malformed);
        if section.is_err() {
            self.fields.0 = &[];
        }
        Some(section)
    }
}

/// Returns the size of a section with a body of this length, or 0 if the body is empty.
pub(super) const fn size(body: u64) -> u64 {
    if body == 0 { 0 } else { HEAD + aligned(body) }
}

/// Appends a section, unless its body is empty. `out` has a length that is a multiple of
/// [`ALIGNMENT`], counted from `start`.
pub(super) fn push(out: &mut Vec<u8>, start: usize, kind: u16, is_required: bool, body: &[u8]) {
    debug_assert!(((out.len() - start) as u64).is_multiple_of(ALIGNMENT));
    if body.is_empty() {
        return;
    }
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&u16::from(is_required).to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
    pad(out, start);
}
