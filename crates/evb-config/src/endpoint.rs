//! An address at which a role listens: a port and a host. The host stays text until a connection is
//! made.

use std::{fmt, net::IpAddr, str::FromStr};

#[cfg(test)]
mod tests;

/// A host (name, IPv4 or IPv6 address) and a TCP or UDP port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Name or address of the host, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// The reason why a text is not a valid endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text does not end with `:` and a port.
    #[error("it has no port")]
    NoPort,
    /// The port is not a number from 0 to 65535.
    #[error("the port is not a number from 0 to 65535")]
    BadPort,
    /// The host is empty, or contains characters that host names and addresses cannot contain.
    #[error("the host is neither a name nor an address")]
    BadHost,
    /// An IPv6 address has no brackets around it, so that the end of the address and the start of
    /// the port cannot be told apart.
    #[error("an IPv6 address needs brackets around it")]
    NoBrackets,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Err(EndpointError::NoBrackets);
        }
        let (host, port) = text.rsplit_once(':').ok_or(EndpointError::NoPort)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return Err(EndpointError::NoBrackets),
            None => host,
        };
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(EndpointError::BadPort);
        }
        let port = port.parse().map_err(|_| EndpointError::BadPort)?;
        if !is_host(host) {
            return Err(EndpointError::BadHost);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Returns true if the text can be the name or the address of a host.
pub fn is_host(host: &str) -> bool {
    let address = host.split_once('%').map_or(host, |(address, _zone)| address);
    if address.contains(':') {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Returns true if `host` is `localhost` or a loopback address, which only programs on this machine
/// can reach.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns true if `host` is an unspecified address (`0.0.0.0` or `::`), to which no peer can
/// connect.
pub fn is_unspecified(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}
