//! SIGINT, SIGTERM and SIGHUP set a flag instead of ending the program. Waiting code checks the
//! flag and returns, so that drop guards remove networks, processes and mounts.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, bail};
use signal_hook::{consts, flag};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Installs handlers for SIGINT, SIGTERM and SIGHUP that only set the flag.
pub fn watch() -> Result<()> {
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
}

/// Returns true if a signal has asked this program to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Returns an error if a signal has asked this program to end; long tasks call this with `?`
/// between steps.
pub fn check() -> Result<()> {
    if asked() {
        bail!("interrupted");
    }
    Ok(())
}
