//! [`Losses`]: what the decoder of a board's frames could not use.

use core::fmt;

use crate::quantities::counted;

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
    /// Packets that never came, as the numbers of the others show.
    pub lost_packets: u64,
    /// Packets that came twice, or after their fragment was given up.
    pub unused_packets: u64,
    /// Packets that the kernel dropped, because the buffer of the socket was full.
    pub socket_drops: u64,
}

impl Losses {
    /// Returns what was lost since these losses.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Adds other losses.
    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, u64::saturating_add);
    }

    /// Joins each count with the same count of `other`.
    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            garbage_bytes: join(self.garbage_bytes, other.garbage_bytes),
            resyncs: join(self.resyncs, other.resyncs),
            cut_short: join(self.cut_short, other.cut_short),
            bad_lengths: join(self.bad_lengths, other.bad_lengths),
            bad_magics: join(self.bad_magics, other.bad_magics),
            lost_packets: join(self.lost_packets, other.lost_packets),
            unused_packets: join(self.unused_packets, other.unused_packets),
            socket_drops: join(self.socket_drops, other.socket_drops),
        }
    }

    /// Returns true if nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { garbage_bytes, resyncs, cut_short, bad_lengths, bad_magics, .. } = *self;
        write!(
            f,
            "{garbage_bytes} B in no frame, {} ({} cut short, {}, {})",
            counted(resyncs, "resynchronisation"),
            counted(cut_short, "frame"),
            counted(bad_lengths, "wrong length"),
            counted(bad_magics, "wrong `magic` value"),
        )?;
        let Self { lost_packets, unused_packets, socket_drops, .. } = *self;
        if lost_packets > 0 {
            write!(f, ", {} lost", counted(lost_packets, "packet"))?;
        }
        if socket_drops > 0 {
            write!(f, ", up to {} that the kernel dropped", counted(socket_drops, "packet"))?;
        }
        if unused_packets > 0 {
            write!(f, ", {} that came twice or too late", counted(unused_packets, "packet"))?;
        }
        Ok(())
    }
}
