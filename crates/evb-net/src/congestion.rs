//! The congestion control of a TCP connection. It is chosen before there is one: a connection that BBR (the default of some
//! systems) has begun stays paced by the kernel's own timer whatever is chosen afterwards (`bbr_init` in
//! `net/ipv4/tcp_bbr.c` sets `sk_pacing_status`, and nothing takes it back).

#[cfg(test)]
mod tests;

use socket2::SockRef;

/// The kernel's usual congestion control (RFC 9438).
#[cfg(target_os = "linux")]
const CUBIC: &str = "cubic";

/// Asks for the congestion control `name`, or for cubic, on a socket before it connects or listens; what a listening
/// socket accepts inherits it. What the system does not allow is reported, once per process, and left.
#[cfg(target_os = "linux")]
pub(crate) fn choose(socket: SockRef<'_>, name: Option<&str>) {
    let asked = name.unwrap_or(CUBIC);
    if let Err(error) = socket.set_tcp_congestion(asked.as_bytes()) {
        report_refusal(asked, &error, name.is_some());
    }
}

/// Asks for it once more where a connection has come about with another one than what was asked for by name: a route has its
/// own (`congctl` of ip-route(8)), which goes before a socket's.
#[cfg(target_os = "linux")]
pub(crate) fn keep(socket: SockRef<'_>, name: Option<&str>) {
    let Some(asked) = name else { return };
    let is_another =
        |got: Vec<u8>| got.split(|byte| *byte == 0).next().is_some_and(|got| got != asked.as_bytes());
    if socket.tcp_congestion().is_ok_and(is_another) {
        choose(socket, name);
    }
}

/// Elsewhere, the system's stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Elsewhere, the system's stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn choose(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Once per process, for every connection of it meets the same; and loudly only what somebody asked for.
#[cfg(target_os = "linux")]
fn report_refusal(name: &str, error: &std::io::Error, was_asked: bool) {
    static ASKED: std::sync::Once = std::sync::Once::new();
    static OURS: std::sync::Once = std::sync::Once::new();
    let remedy = "the system's default stays; /proc/sys/net/ipv4/tcp_allowed_congestion_control has the names this process may use";
    match was_asked {
        true => ASKED.call_once(|| tracing::warn!(congestion_control = name, %error, "{remedy}")),
        false => OURS.call_once(|| tracing::info!(congestion_control = name, %error, "{remedy}")),
    }
}
