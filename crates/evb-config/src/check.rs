//! The output of `evbd check` and `evbd plan`, for people and as JSON: an overview of the system,
//! and the sums that admission control computed.

mod tables;
mod frames;
mod hooks;
mod alignment;
mod planned;
mod head;
mod tree;
mod text;
mod json;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use frames::picture;
pub use head::head;
#[cfg(test)]
pub(crate) use hooks::hooks;
pub use json::json;
pub use text::text;

use crate::{
    Config, ConfigError, Origin, Problems,
    admission::{self, Machine, Sums},
};

/// Exit code of a configuration that cannot start.
pub const BAD_CONFIGURATION: u8 = 2;

/// A configuration that admission control permits to start.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The configuration.
    pub config: Config,
    /// Sums that admission control compared with the limits.
    pub sums: Sums,
    /// Warnings for the user; none of these problems is an error.
    pub warnings: Problems,
    /// Index that maps keys to lines of the file.
    pub origin: Origin,
}

/// Reads a configuration and applies admission control; every command with a configuration does
/// this first.
pub fn admit(path: &Path, machine: impl Into<Machine>) -> Result<Admitted, ConfigError> {
    let loaded = crate::load(path)?;
    let (sums, problems) = admission::admit(&loaded, machine);
    if problems.are_fatal() {
        return Err(problems.into());
    }
    Ok(Admitted { config: loaded.config, sums, warnings: problems, origin: loaded.origin })
}
