//! The output of `evbd check` and `evbd plan`, for people and as JSON: the system at a glance, and
//! the sums behind admission.

mod letters;
mod planned;
mod text;
mod json;
#[cfg(test)]
mod tests;

use std::path::Path;

use evb_core::units::Bytes;

pub use json::json;
pub use text::text;

use crate::{
    Config, ConfigError, Origin, Problems,
    admission::{self, Sums},
};

/// Exit code of a configuration that cannot start.
pub const BAD_CONFIGURATION: u8 = 2;

/// A configuration that may start.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The configuration.
    pub config: Config,
    /// Sums that admission compared.
    pub sums: Sums,
    /// Problems that the user should see; none is an error.
    pub warnings: Problems,
    /// Index that finds a key's line.
    pub origin: Origin,
}

/// Reads a configuration and applies admission control, as every command with a configuration does
/// first. `machine_memory` is the memory of this machine.
pub fn admit(path: &Path, machine_memory: Option<Bytes>) -> Result<Admitted, ConfigError> {
    let loaded = crate::load(path)?;
    let (sums, problems) = admission::admit(&loaded, machine_memory);
    if problems.are_fatal() {
        return Err(problems.into());
    }
    Ok(Admitted { config: loaded.config, sums, warnings: problems, origin: loaded.origin })
}
