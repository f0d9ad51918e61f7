//! Warnings about listeners that accept peers without a key.

#[cfg(test)]
mod tests;

use evb_config::{Config, Endpoint, Input, SecurityMode, TriggerConfig, is_loopback};

/// Returns sentences for the log about each listener that accepts peers of other machines without a
/// key.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut said = Vec::new();
    let is_open = |listen: &Endpoint| !is_loopback(&listen.host);
    let listeners = std::iter::once(&config.supervisor.listen)
        .chain(config.builders.iter().map(|builder| &builder.listen));
    if config.security == SecurityMode::None
        && let Some(listen) = listeners.into_iter().find(|listen| is_open(listen))
    {
        said.push(format!(
            "security.mode = \"none\": the run goes on without a key, so any program that reaches a port of evb, such as {listen}, can take part; on a network that others use, write mode = \"psk\" (`evbd keygen` makes the key), else nothing needs to be done"
        ));
    }
    if let TriggerConfig::External { listen, .. } = &config.supervisor.trigger
        && is_open(listen)
    {
        said.push(format!("the supervisor takes triggers from any program that reaches {listen}, because no key protects that port: unless only evb uses that network, let a firewall admit only the trigger program"));
    }
    for source in &config.sources {
        if let Input::Tcp { listen, .. } = &source.input
            && is_open(listen)
        {
            let id = source.id;
            said.push(format!(
                "source {id} takes fragments from any program that reaches {listen}, because no key protects that port: unless only evb uses that network, let a firewall admit only its front ends"
            ));
        }
    }
    said
}
