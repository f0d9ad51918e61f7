//! The location of this repository.

use std::path::{Path, PathBuf};

/// Returns the root folder of this workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
