//! `--role` and `--here`: the roles that a process hosts.

use std::str::FromStr;

use evb_config::{Config, Origin, roles_in_words};
use evb_host::here::Locations;

use evb_core::id::{BuilderId, Peer, SourceId};

use super::RunError;

/// A role as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleArgument(Peer);

impl FromStr for RoleArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not a role; write `supervisor`, `source:3` or `builder:1`");
        let peer = match text.split_once(':') {
            None if text == "supervisor" => Peer::Supervisor,
            Some(("source", id)) => Peer::Source(id.parse::<SourceId>().map_err(|_| fault())?),
            Some(("builder", id)) => Peer::Builder(id.parse::<BuilderId>().map_err(|_| fault())?),
            _ => return Err(fault()),
        };
        Ok(Self(peer))
    }
}

/// The choice of the roles that a process hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hosting {
    /// All roles of the configuration.
    All,
    /// The roles named on the command line.
    Named(Vec<RoleArgument>),
    /// The roles whose addresses belong to this host.
    Here,
}

/// Returns the roles that this process is to host.
///
/// # Errors
/// [`RunError::Operator`]: a named role does not exist, or no role belongs to this host.
/// [`RunError::Refused`]: the configuration does not tell where roles are.
pub(super) fn hosted(hosting: &Hosting, config: &Config, origin: &Origin) -> Result<Vec<Peer>, RunError> {
    match hosting {
        Hosting::All => Ok(all(config)),
        Hosting::Named(asked) => named(asked, config),
        Hosting::Here => here(config, origin),
    }
}

/// Returns every role of the configuration.
pub(super) fn all(config: &Config) -> Vec<Peer> {
    std::iter::once(Peer::Supervisor)
        .chain(config.builders.iter().map(|builder| Peer::Builder(builder.id)))
        .chain(config.sources.iter().map(|source| Peer::Source(source.id)))
        .collect()
}

/// Returns the roles that the configuration's addresses give to this host, and logs them.
fn here(config: &Config, origin: &Origin) -> Result<Vec<Peer>, RunError> {
    let locations = Locations::of(config);
    for (host, (roles, reason)) in locations.unknown() {
        tracing::warn!(
            "{}: the host `{host}` is {reason}, and evbd takes it for another host unless this host has that name; if it is another, nothing needs to be done here, and if it is this one, correct the name in the configuration, DNS or /etc/hosts",
            roles_in_words(&roles)
        );
    }
    let problems = locations.problems(origin);
    if problems.are_fatal() {
        return Err(RunError::Refused(problems));
    }
    let here = locations.here();
    if here.is_empty() {
        return Err(RunError::Operator(locations.nobody_here(origin.file())));
    }
    tracing::info!(
        "by the addresses in the configuration, this host runs {}; if these are not the right ones, correct the addresses, else nothing needs to be done",
        roles_in_words(&here)
    );
    Ok(here)
}

/// Returns the roles that the arguments name, each once.
fn named(asked: &[RoleArgument], config: &Config) -> Result<Vec<Peer>, RunError> {
    let all = all(config);
    let mut hosted = Vec::new();
    for RoleArgument(peer) in asked {
        if !all.contains(peer) {
            return Err(RunError::Operator(format!(
                "--role: the configuration has no {peer}, so nothing was started; give one of its roles: {}",
                roles_in_words(&all)
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
