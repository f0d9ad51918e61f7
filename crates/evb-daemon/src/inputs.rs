//! From `source.input` to a running source.

use evb::{
    input::{self, Generator},
    role::RoleError,
    source::{Source, SourceConfig},
};
use evb_core::id::SourceId;

use crate::config::{ContentCheck, Input, SourceEntry};

/// Starts a source with the input that its entry names.
pub(crate) async fn start_source(
    entry: &SourceEntry,
    seed: u64,
    config: SourceConfig,
) -> Result<Source, RoleError> {
    match &entry.input {
        Input::Generator { size, .. } => {
            let size = match *size {
                crate::config::FragmentSize::Fixed(size) => input::FragmentSize::Fixed(size),
                crate::config::FragmentSize::Gaussian { mean, sigma } => input::FragmentSize::Gaussian { mean, sigma },
                crate::config::FragmentSize::LogNormal { mean, sigma } => input::FragmentSize::LogNormal { mean, sigma },
            };
            Source::on_demand(config, Generator::new(entry.id, size, entry.max_fragment, seed)).await
        }
        _ => todo!(),
    }
}

/// The sources whose content builders can check.
pub(crate) fn generated(sources: &[SourceEntry]) -> Vec<(SourceId, input::ContentCheck)> {
    let check = |entry: &SourceEntry| match &entry.input {
        Input::Generator { check: ContentCheck::Stamp, .. } => Some((entry.id, input::ContentCheck::Stamp)),
        Input::Generator { check: ContentCheck::Full, .. } => Some((entry.id, input::ContentCheck::Full)),
        Input::Replay { .. } | Input::Tcp { .. } | Input::Unix { .. } => None,
    };
    sources.iter().filter_map(check).collect()
}
