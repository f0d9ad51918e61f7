//! The name and the addresses of this host.

use std::{collections::BTreeMap, net::IpAddr};

use evb_net::host::{Fact, address, link};

/// The name and the addresses of this host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnHost {
    pub(super) name: String,
    /// Addresses of this host with the names of their devices; the addresses that other hosts can
    /// reach come first.
    pub(super) addresses: Fact<Vec<(IpAddr, String)>>,
}

impl OwnHost {
    /// Reads the name and the addresses of this host from the kernel.
    pub(super) fn read() -> Self {
        Self { name: host_name(), addresses: addresses() }
    }

    /// Returns true if the name is this host's name. Names are compared in full, or up to the first
    /// dot if one of the two has no domain.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let (own, name) = (self.name.trim_end_matches('.'), name.trim_end_matches('.'));
        let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let is_short = |name: &str| !name.contains('.');
        own.eq_ignore_ascii_case(name)
            || ((is_short(own) || is_short(name)) && !own.is_empty() && first(own) == first(name))
    }

    /// Formats the addresses as a line of text: `10.0.0.7 (eth0), 127.0.0.1 (lo)`.
    pub(super) fn addresses_in_words(&self) -> String {
        match &self.addresses {
            Ok(addresses) => {
                let words: Vec<_> =
                    addresses.iter().map(|(address, device)| format!("{address} ({device})")).collect();
                words.join(", ")
            }
            Err(reason) => format!("addresses that cannot be read: {reason}"),
        }
    }
}

/// Returns this host's name according to the kernel.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the addresses of this host with the names of their devices, the loopback and IPv6 last.
fn addresses() -> Fact<Vec<(IpAddr, String)>> {
    let names: BTreeMap<u32, String> =
        link::links()?.into_iter().map(|link| (link.index, link.name)).collect();
    let mut addresses: Vec<_> = address::addresses()?
        .into_iter()
        .map(|found| (found.address, names.get(&found.device).cloned().unwrap_or_else(|| "?".to_owned())))
        .collect();
    addresses.sort_by_key(|(address, _)| (address.is_loopback(), address.is_ipv6()));
    Ok(addresses)
}
