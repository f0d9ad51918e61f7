//! Fixes of the past that can be undone one at a time, to see whether the simulator finds what they mended.
//!
//! Only with the feature `undo`, which is off by default and does not build without debug assertions, and so in no release.
//! Everywhere else [`is_undone`] is a constant that the compiler takes out.

#[cfg(all(feature = "undo", not(debug_assertions)))]
compile_error!("the feature `undo` brings old defects back: it is for `cargo xtask seeds --undo` alone");

/// A fix, by its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fix {
    /// A silent source beside an awaited one has a deadline again; lost announcements go again as answers come.
    Cccd56c,
    /// An assignment waits for its fragment however many triggers are inhibited behind it.
    C2101a00,
    /// A drain lasts while something is settled; the last living builder stays; who was asked for its report is asked again.
    C33dca9c,
    /// A stop while peers come back waits for those that do not.
    F1e823b,
    /// A builder that leaves cannot be added before it has left.
    C8b484b,
    /// Lanes whose datagrams get nowhere end; grants wait until a source has spoken.
    A0635af,
    /// A request cannot miss what left less than a round trip ago.
    A1617af,
    /// An answer of several segments is not overtaken by itself.
    Cd126fa,
    /// A lane that stays broken holds no slots.
    Ac5e2f5,
    /// Early fragments are kept as long as an assignment may be held up.
    Cb1826e,
    /// A round trip that nobody measured is not known.
    B023ab1,
}

/// All of them, by what they are called on a command line.
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

    /// Whether a fix is undone.
    #[inline]
    pub fn is_undone(fix: Fix) -> bool {
        UNDONE.load(Ordering::Relaxed) == fix as u8
    }
}

#[cfg(not(feature = "undo"))]
mod switch {
    use super::Fix;

    /// No fix is.
    #[inline]
    pub const fn is_undone(_fix: Fix) -> bool {
        false
    }
}

pub use switch::*;
