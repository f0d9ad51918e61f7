//! The sweep of a device's interrupt coalescing, whose settings are restored afterwards.

use std::{fmt, str::FromStr};

use evb_config::complain;
use evb_host::ethtool;
use evb_net::host::link::Link;

use crate::output::BenchError;

/// Longest delays of the interrupts after sent and received packets, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) send_micros: u32,
    pub(super) receive_micros: u32,
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.send_micros, self.receive_micros)
    }
}

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times = || {
            let (send, receive) = text.split_once('/')?;
            Some(Self {
                send_micros: send.trim().parse().ok()?,
                receive_micros: receive.trim().parse().ok()?,
            })
        };
        times().ok_or_else(|| format!("`{text}` is not TX/RX in microseconds, such as 996/1000"))
    }
}

/// A device whose coalescing is swept. Dropping this value restores the settings.
#[derive(Debug)]
pub(super) struct Coalescer {
    device: String,
    before: ethtool::Coalescing,
    is_changed: bool,
}

impl Coalescer {
    pub(super) fn of(device: Option<Link>) -> Result<Self, BenchError> {
        let unknown = || {
            BenchError::Operator(
                "the network device on the route to the other end is not known: leave out --coalescing"
                    .to_owned(),
            )
        };
        let device = device.ok_or_else(unknown)?.name;
        let before = ethtool::coalescing(&device).map_err(|reason| {
            BenchError::Operator(format!(
                "the device {device} has no interrupt coalescing: {reason}; leave out --coalescing"
            ))
        })?;
        Ok(Self { device, before, is_changed: false })
    }

    pub(super) fn set(&mut self, times: Times) -> Result<(), BenchError> {
        if !self.is_changed {
            let ethtool::Coalescing { receive_micros, send_micros, .. } = self.before;
            complain!(
                "the coalescing of {0} changes during this run; should the run be killed, restore it with: \
                 ethtool -C {0} rx-usecs {receive_micros} tx-usecs {send_micros}",
                self.device
            );
        }
        // Drivers that adapt the delays to the load would ignore them.
        let wanted = ethtool::Coalescing {
            receive_micros: times.receive_micros,
            send_micros: times.send_micros,
            adaptive_receive: false,
            adaptive_send: false,
            ..self.before
        };
        self.is_changed = true;
        ethtool::set_coalescing(&self.device, wanted).map_err(|reason| {
            BenchError::Operator(format!("cannot set the interrupt coalescing of {} to {times}: {reason}; run as root, or give other times", self.device))
        })
    }
}

impl Drop for Coalescer {
    fn drop(&mut self) {
        if self.is_changed
            && let Err(reason) = ethtool::set_coalescing(&self.device, self.before)
        {
            let ethtool::Coalescing { receive_micros, send_micros, .. } = self.before;
            complain!(
                "error: the coalescing of {0} could not be restored: {reason}; restore it with: \
                 ethtool -C {0} rx-usecs {receive_micros} tx-usecs {send_micros}",
                self.device
            );
        }
    }
}
