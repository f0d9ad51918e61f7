//! [`FlowFilter`]: the packets of a capture that a source uses, and [`ReplaySpeed`].

#[cfg(test)]
mod tests;

use core::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Sender and receiver of the packets that are used. Each may be left open.
///
/// ```
/// use evb_core::flow::FlowFilter;
///
/// let filter = FlowFilter { from: "192.168.10.16:24".parse()?, ..FlowFilter::default() };
/// let (board, client) = ("192.168.10.16:24".parse()?, "192.168.10.1:50000".parse()?);
/// assert!(filter.takes(board, client));
/// // The usual mistake: what the client sends to the board is no frame.
/// assert!(!filter.takes(client, board));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// The sender.
    pub from: FlowEnd,
    /// The receiver.
    pub to: FlowEnd,
}

impl FlowFilter {
    /// Returns true if packets between these addresses are used.
    pub fn takes(&self, from: SocketAddr, to: SocketAddr) -> bool {
        self.from.is_at(from) && self.to.is_at(to)
    }

    /// Returns true if packets between these hosts may be used.
    pub fn may_take(&self, from: IpAddr, to: IpAddr) -> bool {
        self.from.ip.is_none_or(|ip| ip == from) && self.to.ip.is_none_or(|ip| ip == to)
    }
}

/// One end of a flow: an address, a port, or both. Names are not resolved, because captures have
/// addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowEnd {
    /// The address; `None`: any.
    pub ip: Option<IpAddr>,
    /// The port; `None`: any.
    pub port: Option<u16>,
}

impl FlowEnd {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.ip.is_none_or(|ip| ip == address.ip()) && self.port.is_none_or(|port| port == address.port())
    }
}

/// A text is not the end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this text is neither an IP address, nor a port, nor both; write \"192.168.10.16\", \"24\" or \"192.168.10.16:24\""
)]
pub struct FlowEndError;

impl FromStr for FlowEnd {
    type Err = FlowEndError;

    fn from_str(text: &str) -> Result<Self, FlowEndError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { ip: Some(address.ip()), port: Some(address.port()) });
        }
        if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
            return Ok(Self { ip: None, port: Some(port) });
        }
        let bare = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
        bare.parse().map(|ip| Self { ip: Some(ip), port: None }).map_err(|_| FlowEndError)
    }
}

impl fmt::Display for FlowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip, self.port) {
            (Some(ip), Some(port)) => SocketAddr::new(ip, port).fmt(f),
            (Some(ip), None) => ip.fmt(f),
            (None, Some(port)) => write!(f, "port {port}"),
            (None, None) => f.write_str("any"),
        }
    }
}

/// Speed at which a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplaySpeed {
    /// A multiple of the speed at which the packets were captured.
    Times(f64),
    /// As fast as the source takes fragments.
    Max,
}
