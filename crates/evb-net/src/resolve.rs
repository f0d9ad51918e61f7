//! From `host:port` as people write it to socket addresses.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
};

/// Reason why a `host:port` has no address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The text does not have the form `host:port`.
    #[error(
        "`{}` is not an address: write host:port, for example `127.0.0.1:7000`, `[::1]:7000` or `daq1:7000`",
        text.escape_debug()
    )]
    Form {
        /// The text that was given.
        text: String,
    },
    /// The name cannot be resolved on this host.
    #[error(
        "the name `{host}` cannot be resolved on this host: {reason}; check its spelling, DNS, or /etc/hosts"
    )]
    Unknown {
        /// The name.
        host: String,
        /// The error that the resolver reported.
        reason: io::Error,
    },
    /// The name is known, but has no address.
    #[error(
        "the name `{host}` has no address; give it one in DNS or /etc/hosts, or write an IP address in its place"
    )]
    Empty {
        /// The name.
        host: String,
    },
}

/// Splits `host:port`, and removes the brackets around an IPv6 address.
///
/// # Errors
/// [`ResolveError::Form`], whose text describes the expected form.
pub fn split_host_port(text: &str) -> Result<(&str, u16), ResolveError> {
    let fault = || ResolveError::Form { text: text.to_owned() };
    let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
    let port = port.parse().map_err(|_| fault())?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(fault)?,
        None if host.contains(':') => return Err(fault()),
        None => host,
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Err(fault())
    } else {
        Ok((host, port))
    }
}

/// Returns all addresses of `host:port` (name, IPv4, or IPv6 in brackets), in the resolver's order;
/// at least one.
///
/// # Errors
/// [`ResolveError`], whose text says what to write or where to look.
pub async fn resolve(text: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    let (host, port) = split_host_port(text)?;
    let found = tokio::net::lookup_host((host, port))
        .await
        .map_err(|reason| ResolveError::Unknown { host: host.to_owned(), reason })?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() { Err(ResolveError::Empty { host: host.to_owned() }) } else { Ok(addresses) }
}

/// Returns all addresses of a host name, at least one, without duplicates and in the resolver's
/// order. If `host` is an address, returns this address. Blocks while the resolver works.
///
/// # Errors
/// [`ResolveError`] if the name cannot be resolved on this host, or has no address.
pub fn addresses(host: &str) -> Result<Vec<IpAddr>, ResolveError> {
    // The resolver requires a port number and copies it to its results, where it is ignored.
    let found = (host, 9)
        .to_socket_addrs()
        .map_err(|reason| ResolveError::Unknown { host: host.to_owned(), reason })?;
    let mut addresses = Vec::new();
    for address in found.map(|found| found.ip().to_canonical()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(ResolveError::Empty { host: host.to_owned() }) } else { Ok(addresses) }
}
