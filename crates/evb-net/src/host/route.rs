//! The routes and devices by which peers are reached (`RTM_GETROUTE`).

use std::net::IpAddr;

use super::Fact;

/// Route of packets to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the network device.
    pub device: u32,
    /// True if the destination is an address of this host.
    pub local: bool,
    /// Source address of packets on this route.
    pub from: Option<IpAddr>,
}

/// Returns the route to `to` that the kernel would choose for a socket bound to `from`.
///
/// # Errors
/// Fails if there is no route, or if `from` is not an address of this host.
#[cfg(target_os = "linux")]
pub fn route(to: IpAddr, from: Option<IpAddr>) -> Fact<Route> {
    use netlink_packet_route::{
        AddressFamily, RouteNetlinkMessage,
        route::{RouteAttribute, RouteMessage, RouteType},
    };

    let mut question = RouteMessage::default();
    let (family, bits) = if to.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    question.header.address_family = family;
    question.header.destination_prefix_length = bits;
    question.attributes.push(RouteAttribute::Destination(to.into()));
    if let Some(from) = from.filter(|from| !from.is_unspecified() && from.is_ipv4() == to.is_ipv4()) {
        question.header.source_prefix_length = bits;
        question.attributes.push(RouteAttribute::Source(from.into()));
    }
    let what = format!("the route to {to}");
    let answer = super::netlink::get(&what, RouteNetlinkMessage::GetRoute(question))?;
    let found = match &answer {
        RouteNetlinkMessage::NewRoute(message) => device_of(message).map(|device| Route {
            device,
            local: message.header.kind == RouteType::Local,
            from: source_of(message).or(from),
        }),
        _ => None,
    };
    found.ok_or_else(|| {
        super::Unavailable::new(format!(
            "{what} leads to no device; `ip route get {to}` shows where packets go"
        ))
    })
}

/// Returns the index of the device of the default route with the smallest metric; IPv4 takes
/// precedence over IPv6.
///
/// # Errors
/// Fails if there is no default route.
#[cfg(target_os = "linux")]
pub fn default_device() -> Fact<u32> {
    use netlink_packet_route::{
        AddressFamily, RouteNetlinkMessage,
        route::{RouteAttribute, RouteHeader, RouteMessage, RouteType},
    };

    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        let answers = super::netlink::dump("the routes", RouteNetlinkMessage::GetRoute(question))?;
        let metric = |route: &RouteMessage| {
            let priority = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Priority(metric) => Some(*metric),
                _ => None,
            });
            priority.unwrap_or(0)
        };
        let default = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route)
                if route.header.destination_prefix_length == 0
                    && route.header.kind == RouteType::Unicast
                    && route.header.table == RouteHeader::RT_TABLE_MAIN =>
            {
                Some((metric(route), device_of(route)?))
            }
            _ => None,
        });
        if let Some((_, device)) = default.min() {
            return Ok(device);
        }
    }
    Err(super::Unavailable::new(
        "this host has no default route: name the address of the other side, or add a route",
    ))
}

/// Returns the index of the device to which a route leads; of several, the first.
#[cfg(target_os = "linux")]
fn device_of(message: &netlink_packet_route::route::RouteMessage) -> Option<u32> {
    use netlink_packet_route::route::RouteAttribute;

    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(device) => Some(*device),
        RouteAttribute::MultiPath(hops) => hops.first().map(|hop| hop.interface_index),
        _ => None,
    })
}

/// Returns the address from which this host sends on a route.
#[cfg(target_os = "linux")]
fn source_of(message: &netlink_packet_route::route::RouteMessage) -> Option<IpAddr> {
    use netlink_packet_route::route::{RouteAddress, RouteAttribute};

    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::PrefSource(RouteAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

/// Always fails outside Linux: reading routes is implemented on Linux only.
///
/// # Errors
/// Routes can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn route(_to: IpAddr, _from: Option<IpAddr>) -> Fact<Route> {
    Err(super::Unavailable::new("routes can be read on Linux only"))
}

/// Always fails outside Linux: reading the default route is implemented on Linux only.
///
/// # Errors
/// Routes can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn default_device() -> Fact<u32> {
    Err(super::Unavailable::new("routes can be read on Linux only"))
}
