//! The congestion control of a TCP connection. It is chosen before there is one: a connection that
//! BBR (the default of some systems) has begun stays paced by the kernel's own timer whatever is
//! chosen afterwards (`bbr_init` in `net/ipv4/tcp_bbr.c` sets `sk_pacing_status`, and nothing
//! resets it).

#[cfg(test)]
mod tests;

use socket2::SockRef;

/// The kernel's usual congestion control (RFC 9438).
#[cfg(target_os = "linux")]
const CUBIC: &str = "cubic";

/// Asks for the congestion control `name`, or for cubic, on a socket before it connects or listens;
/// a socket that is accepted inherits it. A refusal by the system is reported once per process, and
/// the socket keeps its own.
#[cfg(target_os = "linux")]
pub(crate) fn choose(socket: SockRef<'_>, name: Option<&str>) {
    let asked = name.unwrap_or(CUBIC);
    if let Err(error) = socket.set_tcp_congestion(asked.as_bytes()) {
        report_refusal(asked, &error, name.is_some());
    }
}

/// Asks again where a connection does not have the congestion control that was asked for by name: a
/// route can have its own (`congctl` of ip-route(8)), which overrides a socket's.
#[cfg(target_os = "linux")]
pub(crate) fn keep(socket: SockRef<'_>, name: Option<&str>) {
    let Some(asked) = name else { return };
    let is_another =
        |got: Vec<u8>| got.split(|byte| *byte == 0).next().is_some_and(|got| got != asked.as_bytes());
    if socket.tcp_congestion().is_ok_and(is_another) {
        choose(socket, name);
    }
}

/// Leaves the system's choice on other systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Leaves the system's choice on other systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn choose(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Reports once per process, since every connection of it is refused alike, and as a warning only
/// if the configuration asked for that name.
#[cfg(target_os = "linux")]
fn report_refusal(name: &str, error: &std::io::Error, was_asked: bool) {
    static ASKED: std::sync::Once = std::sync::Once::new();
    static OURS: std::sync::Once = std::sync::Once::new();
    let remedy = "cannot use this TCP congestion control, so the system's default stays; /proc/sys/net/ipv4/tcp_allowed_congestion_control lists the names that this process may use";
    match was_asked {
        true => ASKED.call_once(|| tracing::warn!(congestion_control = name, %error, "{remedy}")),
        false => OURS.call_once(|| tracing::info!(congestion_control = name, %error, "{remedy}")),
    }
}
