//! Notifications to the service manager's socket.

use std::{
    env, io,
    os::unix::net::{SocketAddr, UnixDatagram},
    time::Duration,
};

/// A sender of notifications to the service manager.
#[derive(Debug)]
pub(crate) struct Notifier {
    socket: UnixDatagram,
    manager: SocketAddr,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Creates a notifier from `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`; `None` without
    /// a service manager.
    pub(crate) fn from_environment() -> Option<Self> {
        let address = env::var("NOTIFY_SOCKET").ok()?;
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        match Self::open(&address, watchdog.map(Duration::from_micros)) {
            Ok(notifier) => Some(notifier),
            Err(error) => {
                tracing::warn!(address, %error, "cannot reach the service manager (NOTIFY_SOCKET)");
                None
            }
        }
    }

    /// Opens the manager's socket; `@name` is an abstract socket of Linux.
    pub(super) fn open(address: &str, watchdog: Option<Duration>) -> io::Result<Self> {
        let manager = match address.strip_prefix('@') {
            #[cfg(target_os = "linux")]
            Some(name) => {
                use std::os::linux::net::SocketAddrExt as _;
                SocketAddr::from_abstract_name(name)?
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => return Err(io::ErrorKind::Unsupported.into()),
            None => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not block this process.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, manager, watchdog })
    }

    /// Returns the time without notifications after which the manager kills this process.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends a message. An error is not the sender's concern: the manager acts on missing messages.
    pub(crate) fn send(&self, message: &str) {
        if let Err(error) = self.socket.send_to_addr(message.as_bytes(), &self.manager) {
            tracing::debug!(%error, message, "could not notify the service manager");
        }
    }
}
