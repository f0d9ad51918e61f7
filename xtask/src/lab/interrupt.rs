//! SIGINT and SIGTERM as a flag: whoever waits looks at it and returns, so that guards tear down what they made.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, bail};
use signal_hook::{consts, flag};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on the two signals only set the flag.
pub(crate) fn watch() -> Result<()> {
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
}

/// Whether somebody wants this program to end.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error if so: for `?` between steps.
pub(crate) fn check() -> Result<()> {
    if asked() {
        bail!("interrupted");
    }
    Ok(())
}
