//! Settings of lanes and connections: transport, sockets, marks on packets, and the mechanism that
//! paces departures.
//!
//! ```
//! use evb::{
//!     network::{TrafficClass, Transport},
//!     prelude::*,
//! };
//!
//! let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
//! config.transport = Transport::Udp;
//! config.control = TrafficClass { dscp: Some(10), priority: None };
//! ```

pub use evb_core::{lane::LaneError, session::RoleFault, wire::control::MalformedMessage};
pub use evb_net::{
    class::TrafficClass,
    control::{ConnectError, LinkError},
    handshake::HandshakeError,
    lane::{LaneOptions, PathError},
    pacing::{
        Choice, DepartureClock, Etf, Executor, NotProved, Offload, Proof, Software, Transport, Trial, Txtime,
        choose,
    },
    resolve::ResolveError,
};
