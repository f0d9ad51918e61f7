//! A packet-level simulator that drives the state machines of evb **unchanged**. The simulator
//! models hosts, links, and a switch whose ports have shallow buffers; a seed determines all random
//! events.
//!
//! [`Scenario`] describes a simulation; [`Scenario::run`] returns a [`SimReport`], or a
//! [`SimError`] with the seed that reproduces the run. Sources, builders and supervisor are the
//! state machines of evb-core and evb-shaper, with the same wire format as in production; only
//! sockets, clock and switch are models. Every event that reaches a sink is checked byte by byte.
//!
//! Lanes use streams of a simple model of TCP, or datagrams ([`Transport`]), which the network may
//! also repeat, delay and damage ([`NetworkModel`]). Messages to and from the supervisor use
//! streams. Socket buffers are unlimited, a handshake takes no time, and the simulated TCP has no
//! selective acknowledgements and no tail loss probes, so that packet losses cost it more time than
//! a real TCP. Only [`LongPipe`] has selective acknowledgements and a receive window.
//!
//! ```text
//!   source host ── link ──►┌────────┐ port: drop-tail queue ── link ──► builder host
//!   source host ── link ──►│ switch │ port ── link ──► …
//!   supervisor ── link ───►└────────┘
//! ```
//!
//! A network may also have several switches, joined by trunks into a tree ([`Trunk`]), whose ports
//! serve frames in the order of arrival or the incoming trunks in turn ([`Service`]).
//!
//! ```
//! let report = evb_sim::Scenario { events: 20, ..Default::default() }.run()?;
//! assert_eq!((report.run.events.complete, report.builder_port_drops), (20, 0));
//! # Ok::<(), evb_sim::SimError>(())
//! ```

mod world;
mod hosts;
mod link;
mod switch;
mod transport;
mod network;
mod flows;
mod pipe;
mod boards;
mod workload;
mod ledger;
mod stream;
mod scenario;
mod report;
mod host;
mod run;
pub mod system;

pub use evb_core::transport::Transport;
pub use flows::{Flow, FlowsReport, RawFlows};
pub use hosts::{Delays, HostModel, ProcessorTime, Program};
pub use network::{DatagramFates, NetworkModel, NodeReport, Service, Trunk};
pub use pipe::{DRIVER_RING, Departures, KeptPace, LongPipe, PipeReport};
pub use report::{DatagramSummary, SimReport};
pub use run::SimError;
pub use scenario::Scenario;
pub use workload::{FragmentSize, Readout};
