//! A packet-level world that drives the evb machines **unchanged**: hosts, links, a switch whose ports have shallow
//! buffers, and chance from a seed.
//!
//! [`Scenario`] says what is simulated; [`Scenario::run`] gives a [`SimReport`], or a [`SimError`] with the seed that gives
//! the same run again. Sources, builders and supervisor are the machines of evb-core and evb-shaper behind the same wire
//! format as in production; only sockets, clock and switch are models. Every event is checked byte by byte on the way.
//!
//! Lanes go as streams of a small TCP, or as datagrams ([`Transport`]), which the network may also repeat, hold back and damage
//! ([`NetworkModel`]); what is said to the supervisor goes as streams. Socket buffers have no end, a handshake takes no
//! time, and the simulated TCP has no selective acknowledgements and no tail loss probes: real ones lose less to loss.
//!
//! ```text
//!   source host ── link ──►┌────────┐ port: drop-tail queue ── link ──► builder host
//!   source host ── link ──►│ switch │ port ── link ──► …
//!   supervisor ── link ───►└────────┘
//! ```
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
mod workload;
mod ledger;
mod stream;
mod scenario;
mod report;
mod host;
mod run;
pub mod system;

pub use hosts::{Delays, HostModel, ProcessorTime, Program};
pub use network::{DatagramFates, NetworkModel};
pub use report::{DatagramSummary, SimReport};
pub use run::SimError;
pub use scenario::{Scenario, Transport};
pub use workload::{FragmentSize, Readout};
