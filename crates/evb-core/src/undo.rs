//! Past fixes that can be undone one at a time, to see if the simulator finds the defects again.
//!
//! This needs the feature `undo`, which is off by default and does not build without debug
//! assertions, and so is in no release. Without it, [`is_undone`] is a constant that the compiler
//! removes.

#[cfg(all(feature = "undo", not(debug_assertions)))]
compile_error!("the feature `undo` brings old defects back: it is for `cargo xtask seeds --undo` alone");

/// A fix, by its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fix {
    /// A silent source beside an awaited one has a deadline again, and lost announcements are
    /// repeated as answers come.
    Cccd56c,
    /// An assignment waits for its fragment however many triggers are inhibited behind it.
    C2101a00,
    /// A drain lasts while events are being settled, the last living builder stays, and a peer that
    /// was asked for its report is asked again.
    C33dca9c,
    /// A stop while peers come back waits for those that do not.
    F1e823b,
    /// A builder that leaves cannot be added before it has left.
    C8b484b,
    /// Lanes whose datagrams get no answer end, and grants wait until the source has sent a
    /// datagram.
    A0635af,
    /// A request cannot be right about bytes that left less than a round trip ago.
    A1617af,
    /// An answer of several segments is not overtaken by itself.
    Cd126fa,
    /// A lane that stays broken holds no slots.
    Ac5e2f5,
    /// Early fragments are kept for as long as an assignment can be delayed.
    Cb1826e,
    /// A round trip that was not measured is unknown.
    B023ab1,
}

/// All fixes with their names on a command line.
pub const FIXES: [(&str, Fix); 11] = [
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
];

#[cfg(feature = "undo")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Fix;

    const NONE: u8 = u8::MAX;

    static UNDONE: AtomicU8 = AtomicU8::new(NONE);

    /// Undoes a fix, in the whole process.
    pub fn undo(fix: Fix) {
        UNDONE.store(fix as u8, Ordering::Relaxed);
    }

    /// Returns true if a fix is undone.
    #[inline]
    pub fn is_undone(fix: Fix) -> bool {
        UNDONE.load(Ordering::Relaxed) == fix as u8
    }
}

#[cfg(not(feature = "undo"))]
mod switch {
    use super::Fix;

    /// Returns false, as no fix can be undone.
    #[inline]
    pub const fn is_undone(_fix: Fix) -> bool {
        false
    }
}

pub use switch::*;
