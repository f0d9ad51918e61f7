//! [`evb_source_options`] and [`evb_builder_options`]: the settings of a role. Zero means the
//! default.

#[cfg(test)]
mod tests;

use std::{ffi::c_char, net::IpAddr, path::Path, time::Duration};

use evb_rs::{
    builder::BuilderConfig,
    id::{BuilderId, SourceId},
    network::Transport,
    role::packet_cost,
    security::{PresharedKey, Security},
    shaping::{CELL, Shaping},
    source::{ClockWrap, DetectorClock, SourceConfig},
    units::{Bytes, Frequency, Rate},
};

use crate::{
    error::Failure,
    structs::{self, Sized0},
    text,
};

/// Transport of the lanes, which must be the same for all sources and builders of a run.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_transport {
    /// TCP.
    EVB_TCP = 0,
    /// UDP.
    EVB_UDP = 1,
}

/// Clock that boards read for the timestamps of fragments. All fields are zero if evb is not to
/// compare the timestamps. Otherwise set `rate_hz`, and `bits` or `wrap`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_clock {
    /// Nominal rate of the ticks in hertz; 0: no clock.
    pub rate_hz: f64,
    /// Instead of `bits`, the number of ticks after which the clock reads zero again; 0: none.
    pub wrap: u64,
    /// Largest deviation of a healthy timestamp from the time of its event, in ns; 0: 1000.
    pub tolerance_ns: u64,
    /// Largest deviation of the rate in parts per million; 0: 100 ppm; below zero: none, for boards
    /// on one common clock.
    pub accuracy_ppm: f64,
    /// Number of bits of the timestamps, 1 to 64; 0: see `wrap`.
    pub bits: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Settings of a source. Set all fields to zero, then `struct_size`, `supervisor` and `id`, then
/// what differs from the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_source_options {
    /// Size of the struct.
    pub struct_size: usize,
    /// Address of the supervisor, `host:port`.
    pub supervisor: *const c_char,
    /// Path of the file with the key that all peers share; NULL: no key.
    pub key_file: *const c_char,
    /// Address of this host to send from, such as "10.0.0.7"; NULL: the routing table decides.
    pub bind: *const c_char,
    /// Largest payload of a fragment in bytes, by which builders reserve memory; 0: 4 MiB.
    pub max_fragment: u64,
    /// Payload bytes that may wait for the decisions about their events; 0: 256 MiB.
    pub backlog: u64,
    /// Time to reach the supervisor, in milliseconds; 0: 30 s.
    pub start_timeout_ms: u64,
    /// Longest time that packets wait in full queues of the network, in nanoseconds; 0: unknown.
    pub queue_delay_ns: u64,
    /// Size of the largest IP packet in bytes; 0: 1500.
    pub mtu: u32,
    /// Transport of the lanes, an `evb_transport`.
    pub transport: u32,
    /// Id of the source, from 1 to 65535, which the supervisor must expect.
    pub id: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Clock of the timestamps, by which evb finds events whose fragments do not belong together.
    pub clock: evb_clock,
}

// SAFETY: null pointers and numbers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_source_options {}

/// Settings of a builder. Set all fields to zero, then `struct_size`, `supervisor` and `id`, then
/// what differs from the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_builder_options {
    /// Size of the struct.
    pub struct_size: usize,
    /// Address of the supervisor, `host:port`.
    pub supervisor: *const c_char,
    /// Path of the file with the key that all peers share; NULL: no key.
    pub key_file: *const c_char,
    /// Address at which sources reach the builder, `host:port`; NULL: any port of loopback.
    pub listen: *const c_char,
    /// Limit of the payload memory in bytes; 0: none.
    pub memory: u64,
    /// Time to reach the supervisor, in milliseconds; 0: 30 s.
    pub start_timeout_ms: u64,
    /// Time for which a failing sink is tried again at the end of a run, in milliseconds; 0: 30 s.
    pub give_up_ms: u64,
    /// Buffer of the switch port of this builder in bytes, which evb never fills beyond; 0: this is
    /// a single machine. Needs `sources`.
    pub port_buffer: u64,
    /// Rate of the switch port in bits per second; 0: unknown.
    pub port_rate: u64,
    /// Number of sources of the run; needed with `port_buffer`.
    pub sources: u32,
    /// Size of the largest IP packet in bytes; 0: 1500.
    pub mtu: u32,
    /// Transport of the lanes, an `evb_transport`.
    pub transport: u32,
    /// Id of the builder, from 1 to 65535, which the supervisor must expect.
    pub id: u32,
}

// SAFETY: null pointers and numbers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_builder_options {}

impl evb_source_options {
    /// Returns the configuration that these options describe.
    ///
    /// # Safety
    /// The texts must be valid.
    pub(crate) unsafe fn config(&self) -> Result<SourceConfig, Failure> {
        // SAFETY: the caller vouches for the texts.
        let (supervisor, key, bind) = unsafe {
            (
                text::required("options.supervisor", self.supervisor)?,
                text::optional("options.key_file", self.key_file)?,
                text::optional("options.bind", self.bind)?,
            )
        };
        let mut config = SourceConfig::new(SourceId::new(id(self.id)?), supervisor);
        if self.reserved != 0 {
            return Err(Failure::invalid("`options.reserved` is not 0", structs::CLEAR_FIRST));
        }
        config.bind = bind.map(address).transpose()?;
        config.security = security(key)?;
        set(&mut config.max_fragment, self.max_fragment, Bytes::new);
        set(&mut config.backlog, self.backlog, Bytes::new);
        set(&mut config.start_timeout, self.start_timeout_ms, Duration::from_millis);
        set(&mut config.queue_delay, self.queue_delay_ns, Duration::from_nanos);
        config.mtu = mtu(self.mtu)?.unwrap_or(config.mtu);
        config.transport = transport(self.transport)?;
        config.clock = self.clock.clock()?;
        Ok(config)
    }
}

impl evb_clock {
    /// Returns the clock; `None` if all fields are zero.
    fn clock(&self) -> Result<Option<DetectorClock>, Failure> {
        let Self { rate_hz, wrap, tolerance_ns, accuracy_ppm, bits, reserved } = *self;
        if rate_hz == 0.0 && accuracy_ppm == 0.0 && (wrap, tolerance_ns, bits, reserved) == (0, 0, 0, 0) {
            return Ok(None);
        }
        if reserved != 0 {
            return Err(Failure::invalid("`options.clock.reserved` is not 0", structs::CLEAR_FIRST));
        }
        let Some(rate) = Frequency::from_hertz(rate_hz) else {
            let reason = format!("`options.clock.rate_hz` is {rate_hz}, which is no rate of a clock");
            return Err(Failure::invalid(reason, "set it to the rate of the ticks in hertz, such as 125e6"));
        };
        let wrap = match (bits, wrap) {
            (0, 0) | (1.., 1..) => {
                let given = if bits == 0 { "neither `bits` nor `wrap`" } else { "both `bits` and `wrap`" };
                let remedy = "set one of the two and leave the other 0, to say when the timestamps start again at zero";
                return Err(Failure::invalid(format!("`options.clock` has {given}"), remedy));
            }
            (0, ticks) => ClockWrap::Ticks(ticks),
            (bits, 0) => ClockWrap::Bits(u8::try_from(bits).unwrap_or(u8::MAX)),
        };
        let mut clock = DetectorClock::new(rate, wrap);
        set(&mut clock.tolerance, tolerance_ns, Duration::from_nanos);
        if accuracy_ppm != 0.0 {
            clock.accuracy = accuracy_ppm.max(0.0);
        }
        let remedy = "set the field that is out of this range to a value in it";
        clock.check().map_err(|error| {
            let reason = format!(
                "{error}, and `options.clock` has rate_hz = {rate_hz}, bits = {bits}, wrap = {}, tolerance_ns = {tolerance_ns}, accuracy_ppm = {accuracy_ppm}",
                self.wrap
            );
            Failure::invalid(reason, remedy)
        })?;
        Ok(Some(clock))
    }
}

impl evb_builder_options {
    /// Returns the configuration that these options describe.
    ///
    /// # Safety
    /// The texts must be valid.
    pub(crate) unsafe fn config(&self) -> Result<BuilderConfig, Failure> {
        // SAFETY: the caller vouches for the texts.
        let (supervisor, key, listen) = unsafe {
            (
                text::required("options.supervisor", self.supervisor)?,
                text::optional("options.key_file", self.key_file)?,
                text::optional("options.listen", self.listen)?,
            )
        };
        let mut config = BuilderConfig::new(BuilderId::new(id(self.id)?), supervisor);
        if let Some(listen) = listen {
            config.listen = listen.to_owned();
        }
        config.security = security(key)?;
        config.memory = (self.memory != 0).then(|| Bytes::new(self.memory));
        set(&mut config.start_timeout, self.start_timeout_ms, Duration::from_millis);
        set(&mut config.give_up, self.give_up_ms, Duration::from_millis);
        config.mtu = mtu(self.mtu)?.unwrap_or(config.mtu);
        config.transport = transport(self.transport)?;
        if self.port_buffer != 0 {
            self.shape(&mut config)?;
        }
        Ok(config)
    }

    /// Sets the shaping for the builder's switch port.
    fn shape(&self, config: &mut BuilderConfig) -> Result<(), Failure> {
        if self.sources == 0 {
            let remedy = "set `options.sources` to the number of sources of the run, which share this buffer";
            return Err(Failure::invalid("`options.port_buffer` is set, but `options.sources` is 0", remedy));
        }
        let buffer = Bytes::new(self.port_buffer);
        let rate = (self.port_rate != 0).then(|| Rate::from_bits_per_second(self.port_rate));
        let cost = packet_cost(config.transport, config.mtu, CELL, config.security.is_protected());
        config.shaping = Shaping::credit_for(buffer, rate, self.sources.into(), &cost);
        if let Some(rate) = rate {
            config.queue_delay = buffer / rate;
        }
        Ok(())
    }
}

/// Sets a field unless the number is zero, which stands for the default.
fn set<T>(field: &mut T, number: u64, of: impl FnOnce(u64) -> T) {
    if number != 0 {
        *field = of(number);
    }
}

fn id(number: u32) -> Result<u16, Failure> {
    let fault = |_| Failure::invalid(format!("`options.id` is {number}"), "use an id from 1 to 65535");
    match u16::try_from(number) {
        Ok(0) => Err(Failure::invalid("`options.id` is not set", "use an id from 1 to 65535")),
        id => id.map_err(fault),
    }
}

/// Smallest size of an IP packet that every path carries (RFC 8200 §5).
const LEAST_MTU: u32 = 1280;
const LARGEST_MTU: u32 = 65535;

fn mtu(number: u32) -> Result<Option<u32>, Failure> {
    match number {
        0 => Ok(None),
        LEAST_MTU..=LARGEST_MTU => Ok(Some(number)),
        _ => {
            let remedy =
                "set it to the size of the largest IP packet in bytes, from 1280 to 65535, or to 0 for 1500";
            Err(Failure::invalid(format!("`options.mtu` is {number}, outside of the possible range"), remedy))
        }
    }
}

pub(crate) fn transport(number: u32) -> Result<Transport, Failure> {
    const TCP: u32 = evb_transport::EVB_TCP as u32;
    const UDP: u32 = evb_transport::EVB_UDP as u32;
    match number {
        TCP => Ok(Transport::Tcp),
        UDP => Ok(Transport::Udp),
        _ => {
            let reason = format!("`options.transport` is {number}, which is no transport");
            Err(Failure::invalid(reason, "set it to EVB_TCP or EVB_UDP"))
        }
    }
}

fn address(bind: &str) -> Result<IpAddr, Failure> {
    let fault = |_| Failure::invalid(format!("`options.bind` is `{bind}`"), "use an IP address of this host");
    bind.parse().map_err(fault)
}

fn security(key: Option<&str>) -> Result<Security, Failure> {
    match key {
        None => Ok(Security::None),
        Some(path) => Ok(Security::Psk(PresharedKey::read(Path::new(path))?)),
    }
}
