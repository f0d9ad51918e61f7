//! Past fixes of defects. A test can undo one fix at a time, to check that the simulator finds the
//! defect again.
//!
//! Undoing a fix needs the feature `undo`. The feature is off by default and compiles only with
//! debug assertions, so no release contains it. Without the feature, [`is_undone`] returns a
//! constant `false`, and the compiler removes the code that depends on it.

#[cfg(all(feature = "undo", not(debug_assertions)))]
compile_error!("the feature `undo` brings old defects back: it is for `cargo xtask seeds --undo` alone");

/// A fix, named by its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fix {
    /// Several fixes in one commit: an event that waits for an awaited source still has a deadline
    /// for its other sources, and lost announcements are repeated as soon as earlier ones are
    /// acknowledged.
    Cccd56c,
    /// A source remembers an assignment until the fragment arrives, however many triggers are
    /// inhibited in the meantime.
    C2101a00,
    /// A drain continues while events are being settled, the last living builder cannot be removed,
    /// and a peer that was asked for its report is asked again after it reconnects.
    C33dca9c,
    /// A stop during recovery waits until peers that do not return have been replaced.
    F1e823b,
    /// A builder that was asked to leave cannot be added again before it has left.
    C8b484b,
    /// A lane whose datagrams get no answer is closed, and a builder grants nothing before the
    /// source has sent a datagram.
    A0635af,
    /// A source ignores requests for bytes that it sent less than a round trip ago.
    A1617af,
    /// An answer in several datagrams is not declared lost because of its own first datagram.
    Cd126fa,
    /// Fragments announced on a lane that stays broken are given up, so that they hold no slots.
    Ac5e2f5,
    /// A builder keeps fragments of an unassigned event for as long as the assignment can be
    /// delayed.
    Cb1826e,
    /// The round trip time is unknown until it is measured, instead of being assumed.
    B023ab1,
    /// An event without the fragment of a source that is down is incomplete.
    A7a5e98,
}

/// All fixes, with the names that select them on a command line.
pub const FIXES: [(&str, Fix); 12] = [
    ("cccd56c", Fix::Cccd56c),
    ("2101a00", Fix::C2101a00),
    ("33dca9c", Fix::C33dca9c),
    ("f1e823b", Fix::F1e823b),
    ("c8b484b", Fix::C8b484b),
    ("a0635af", Fix::A0635af),
    ("a1617af", Fix::A1617af),
    ("cd126fa", Fix::Cd126fa),
    ("ac5e2f5", Fix::Ac5e2f5),
    ("cb1826e", Fix::Cb1826e),
    ("b023ab1", Fix::B023ab1),
    ("a7a5e98", Fix::A7a5e98),
];

#[cfg(feature = "undo")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Fix;

    const NONE: u8 = u8::MAX;

    static UNDONE: AtomicU8 = AtomicU8::new(NONE);

    /// Undoes a fix for the whole process.
    pub fn undo(fix: Fix) {
        UNDONE.store(fix as u8, Ordering::Relaxed);
    }

    /// Returns true if that fix is undone.
    #[inline]
    pub fn is_undone(fix: Fix) -> bool {
        UNDONE.load(Ordering::Relaxed) == fix as u8
    }
}

#[cfg(not(feature = "undo"))]
mod switch {
    use super::Fix;

    /// Returns false, because no fix can be undone without the feature `undo`.
    #[inline]
    pub const fn is_undone(_fix: Fix) -> bool {
        false
    }
}

pub use switch::*;
