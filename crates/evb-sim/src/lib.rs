//! A packet-level world that drives the evb machines **unchanged**: hosts, links, a switch whose
//! ports have shallow buffers, and chance from a seed.
//!
//! [`Scenario`] describes a simulation; [`Scenario::run`] returns a [`SimReport`], or a
//! [`SimError`] with the seed that reproduces the run. Sources, builders and supervisor are the
//! machines of evb-core and evb-shaper behind the same wire format as in production; only sockets,
//! clock and switch are models. Every event is checked byte by byte on the way.
//!
//! Lanes use streams of a small TCP, or datagrams ([`Transport`]), which the network may also
//! repeat, hold back and damage ([`NetworkModel`]); messages to and from the supervisor use
//! streams. Socket buffers are unlimited, a handshake takes no time, and the simulated TCP has no
//! selective acknowledgements and no tail loss probes: real ones lose less to loss.
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
