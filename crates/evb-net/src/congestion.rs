//! The congestion control of a TCP connection. The congestion control must be chosen before the
//! connection opens: a connection that starts with BBR (the default of some systems) stays paced by
//! the kernel's own timer even if another congestion control is chosen later (`bbr_init` in
//! `net/ipv4/tcp_bbr.c` sets `sk_pacing_status`, and nothing resets it).

#[cfg(test)]
mod tests;

use socket2::SockRef;

/// Name of the kernel's usual congestion control, cubic (RFC 9438).
#[cfg(target_os = "linux")]
const CUBIC: &str = "cubic";

/// Sets the congestion control `name`, or cubic, on a socket before it connects or listens;
/// accepted sockets inherit the setting from their listener. If the kernel refuses the congestion
/// control, the log says so once per process, and the socket keeps the system's default.
#[cfg(target_os = "linux")]
pub(crate) fn choose(socket: SockRef<'_>, name: Option<&str>) {
    let asked = name.unwrap_or(CUBIC);
    if let Err(error) = socket.set_tcp_congestion(asked.as_bytes()) {
        report_refusal(asked, &error, name.is_some());
    }
}

/// Sets the congestion control `name` again on a connection that uses another: a route can
/// prescribe a congestion control (`congctl` of ip-route(8)), which overrides the socket's setting.
#[cfg(target_os = "linux")]
pub(crate) fn keep(socket: SockRef<'_>, name: Option<&str>) {
    let Some(asked) = name else { return };
    let is_another =
        |got: Vec<u8>| got.split(|byte| *byte == 0).next().is_some_and(|got| got != asked.as_bytes());
    if socket.tcp_congestion().is_ok_and(is_another) {
        choose(socket, name);
    }
}

/// Does nothing outside Linux: the system's default congestion control stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Does nothing outside Linux: the system's default congestion control stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn choose(_socket: SockRef<'_>, _name: Option<&str>) {}

/// Logs that the kernel refused a congestion control, once per process, since the kernel refuses it
/// for every connection alike. The message is a warning if the configuration named this congestion
/// control, else information.
#[cfg(target_os = "linux")]
fn report_refusal(name: &str, error: &std::io::Error, was_asked: bool) {
    static ASKED: std::sync::Once = std::sync::Once::new();
    static OURS: std::sync::Once = std::sync::Once::new();
    let words = format!(
        "this process cannot use the TCP congestion control {name}, so the system's default stays, and the run goes \
         on: {error}; set `congestion_control` of [network] to a name in \
         /proc/sys/net/ipv4/tcp_allowed_congestion_control, or add {name} to these as root"
    );
    match was_asked {
        true => ASKED.call_once(|| tracing::warn!(congestion_control = name, %error, "{words}")),
        false => OURS.call_once(|| tracing::info!(congestion_control = name, %error, "{words}")),
    }
}
