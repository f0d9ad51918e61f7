//! SIGINT and SIGTERM as a flag: waiting code checks it and returns, so that guards remove what
//! they made.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, bail};
use signal_hook::{consts, flag};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes the signals set the flag and nothing else.
pub(crate) fn watch() -> Result<()> {
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
}

/// Returns true if a signal has asked this program to end.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Returns an error if a signal has arrived, for `?` between steps.
pub(crate) fn check() -> Result<()> {
    if asked() {
        bail!("interrupted");
    }
    Ok(())
}
