//! `--role`.

use std::str::FromStr;

use evb_core::id::{BuilderId, Peer, SourceId};

use super::RunError;
use crate::config::Config;

/// A role as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleArgument(Peer);

impl FromStr for RoleArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is no role; write `supervisor`, `source:3` or `builder:1`");
        let peer = match text.split_once(':') {
            None if text == "supervisor" => Peer::Supervisor,
            Some(("source", id)) => Peer::Source(id.parse::<SourceId>().map_err(|_| fault())?),
            Some(("builder", id)) => Peer::Builder(id.parse::<BuilderId>().map_err(|_| fault())?),
            _ => return Err(fault()),
        };
        Ok(Self(peer))
    }
}

/// The roles that this process hosts: those asked for, or all.
pub(super) fn hosted(asked: &[RoleArgument], config: &Config) -> Result<Vec<Peer>, RunError> {
    let all = std::iter::once(Peer::Supervisor)
        .chain(config.builders.iter().map(|builder| Peer::Builder(builder.id)))
        .chain(config.sources.iter().map(|source| Peer::Source(source.id)));
    if asked.is_empty() {
        return Ok(all.collect());
    }
    let all: Vec<_> = all.collect();
    let mut hosted = Vec::new();
    for RoleArgument(peer) in asked {
        if !all.contains(peer) {
            let names: Vec<_> = all.iter().map(ToString::to_string).collect();
            let names = names.join(", ");
            return Err(RunError::Operator(format!(
                "--role: the configuration has no {peer}; it has {names}"
            )));
        }
        if !hosted.contains(peer) {
            hosted.push(*peer);
        }
    }
    Ok(hosted)
}

#[cfg(test)]
mod tests;
