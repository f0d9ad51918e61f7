//! [`Losses`]: what the decoder of a board's frames could not use.

use core::fmt;

/// Counts of what a decoder could not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Bytes in no frame.
    pub garbage_bytes: u64,
    /// Times at which the next frame had to be looked for.
    pub resyncs: u64,
    /// Frames that ended before their stated length.
    pub cut_short: u64,
    /// Frames with a length that cannot be.
    pub bad_lengths: u64,
    /// Times at which a frame did not begin with the bytes by which frames are recognised.
    pub bad_magics: u64,
}

impl Losses {
    /// Returns what was lost since these losses.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            garbage_bytes: self.garbage_bytes - before.garbage_bytes,
            resyncs: self.resyncs - before.resyncs,
            cut_short: self.cut_short - before.cut_short,
            bad_lengths: self.bad_lengths - before.bad_lengths,
            bad_magics: self.bad_magics - before.bad_magics,
        }
    }

    /// Returns true if nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { garbage_bytes, resyncs, cut_short, bad_lengths, bad_magics } = self;
        write!(
            f,
            "{garbage_bytes} B in no frame, {resyncs} resynchronisations ({cut_short} frames cut short, {bad_lengths} wrong lengths, {bad_magics} wrong magics)"
        )
    }
}
