//! The link that carries the announcements, and the rate at which it can.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use evb_core::{trigger::announcement::LENGTH, units::Rate};
use evb_host::ethtool;
use evb_net::host::link;
use evb_shaper::cost::{LINE_OVERHEAD, datagram_headers};

/// Refuses a mean rate of datagrams that the line of the sending device cannot carry. Devices whose
/// driver states no rate are not judged, such as the loopback device.
pub(super) fn check(hertz: f64, to: SocketAddr, interface: Option<&str>) -> Result<(), String> {
    let Some((device, line)) = device(to.ip(), interface) else { return Ok(()) };
    let needed = hertz * line_bits(to.ip());
    if needed <= line.bits_per_second() as f64 {
        return Ok(());
    }
    Err(format!(
        "{hertz} announcements per second of {} bytes each on the line need {:.0} Mbit/s, and {device} carries {line}: lower \
         --rate to at most {:.0} Hz",
        line_bits(to.ip()) / 8.0,
        needed / 1e6,
        (line.bits_per_second() as f64 / line_bits(to.ip())).floor(),
    ))
}

/// Returns the bits of an announcement on an Ethernet line.
fn line_bits(to: IpAddr) -> f64 {
    ((LENGTH as u64 + datagram_headers(to.is_ipv6()) + LINE_OVERHEAD) * 8) as f64
}

/// Returns the name and the line rate of the device through which packets to `to` leave; `None` if
/// the system does not report them.
fn device(to: IpAddr, interface: Option<&str>) -> Option<(String, Rate)> {
    let address = interface.and_then(|interface| interface.parse::<IpAddr>().ok());
    let name = match interface {
        Some(name) if address.is_none() => name.to_owned(),
        // For a group, the kernel looks for the device to which the local address belongs.
        _ => link::on_route(to, address)?.name,
    };
    let rate = ethtool::line(&name).ok()?.rate?;
    Some((name, rate))
}
