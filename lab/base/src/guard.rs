//! [`Guarded`]: a child process that is killed when its guard is dropped.

use std::process::Child;

/// A child process that is killed when this value is dropped.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // Killing fails harmlessly if the process has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
