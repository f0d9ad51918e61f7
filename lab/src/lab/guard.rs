//! [`Guarded`]: a program that ends with the guard that owns it.

use std::process::Child;

/// Ends its program when it is dropped.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
