//! What `evbd check` prints: the system at a glance and the sums behind admission, for people and as JSON.

mod text;
mod json;
#[cfg(test)]
mod tests;

use std::path::Path;

use evb_core::units::Bytes;

pub use json::json;
pub use text::text;

use crate::{
    admission::{self, Sums},
    config::{self, Config, ConfigError, Problems},
};

/// Exit code of a configuration that cannot start.
pub const BAD_CONFIGURATION: u8 = 2;

/// A configuration that may start.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The configuration.
    pub config: Config,
    /// What it asks for.
    pub sums: Sums,
    /// What the user should know; none of it is an error.
    pub warnings: Problems,
}

/// Reads a configuration and applies admission control: what every command that takes one does first.
/// `machine_memory` is what this machine has ([`crate::memory::machine_memory`]).
pub fn admit(path: &Path, machine_memory: Option<Bytes>) -> Result<Admitted, ConfigError> {
    let loaded = config::load(path)?;
    let (sums, problems) = admission::admit(&loaded, machine_memory);
    if problems.are_fatal() {
        return Err(problems.into());
    }
    Ok(Admitted { config: loaded.config, sums, warnings: problems })
}
