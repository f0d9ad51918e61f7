//! [`Setting`]: what all parts of the tests with programs of others share.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

/// Settings of cargo that shorten a release build, at the cost of the program's speed.
pub const QUICK: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Settings that all parts of the test share.
pub struct Setting {
    pub evbd: PathBuf,
    pub out: PathBuf,
}

impl Setting {
    /// Returns the arguments with which this program runs a part of the test again, inside its own
    /// namespaces.
    pub fn again(&self, part: &str) -> Vec<String> {
        let (evbd, out) = (self.evbd.to_string_lossy(), self.out.to_string_lossy());
        ["eco", part, "--evbd", &evbd, "--out", &out, "--inside"].map(ToOwned::to_owned).into()
    }

    /// Creates an empty folder for the logs of a part.
    pub fn folder(&self, part: &str) -> Result<PathBuf> {
        let folder = self.out.join(part);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}
