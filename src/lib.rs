//! evb builds events: in a physics experiment every trigger leaves a fragment of data in each of N
//! readout computers, and evb brings all fragments of one event together on one of M machines, over
//! TCP, without a dropped packet.
//!
//! ```text
//!             triggers
//!                │
//!         ┌──────▼─────┐  decisions: which builder gets which event
//!         │ Supervisor ├───────────────┐
//!         └─▲──────────┘               ▼
//!           │ completions        ┌──────────┐ push   ┌─────────┐
//!         ┌─┴─────────┐  credit  │  Source  │◄───────┤ readout │
//!  Sink ◄─┤  Builder  │◄────────►└──────────┘        └─────────┘
//!         └───────────┘   data        × N
//!              × M
//! ```
//!
//! * [`Source`] takes fragments from readout and holds each one until its event is safe. `push`
//!   waits while builders are behind: that is the back-pressure. [`source::BlockingSource`] serves
//!   threads that are not async, [`source::Readout`] makes fragments when they are asked for.
//! * [`Builder`] asks the sources for the fragments of its events, in pieces that fit the switch
//!   port in front of it, assembles and checks them, and hands each event to a
//!   [`Filter`](filter::Filter) and a [`Sink`].
//! * [`Supervisor`] takes triggers, gives each event to a builder with a free slot, and closes the
//!   ledger at the end: triggered = inhibited + complete + incomplete + lost + rejected.
//!
//! Source and builder each live on a thread of their own, pinned to a core if configured, and so
//! does every sink; their handles can be used from any runtime. One process may host as many roles
//! as it likes.
//!
//! A whole system in one process:
//!
//! ```
//! use evb::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = LocalSystem::new(1, 1).events(3).start(|_| NullSink).await?;
//! for event in (1..=3).map(EventId::new) {
//!     run.sources()[0].push(Fragment::new(event, Timestamp::new(0), "detector data")).await?;
//! }
//! assert_eq!(run.finished().await?.events.complete, 3);
//! # Ok(())
//! # }
//! ```
//!
//! The same role by role, as programs on several hosts have it:
//!
//! ```
//! use evb::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (source, builder) = (SourceId::new(1), BuilderId::new(1));
//! let epoch = SupervisorConfig::fresh_epoch();
//! let mut plan = RunPlan::new(RunNumber::new(1), epoch, vec![source], vec![builder]);
//! plan.events = Some(3);
//! let supervisor = Supervisor::start(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
//! let address = supervisor.address().to_string();
//!
//! let sink = FnSink(|event: &Event| {
//!     println!("event {} has {}", event.id, event.payload_size());
//!     Ok(())
//! });
//! let _builder = Builder::connect(BuilderConfig::new(builder, &address), sink).await?;
//! let source = Source::connect(SourceConfig::new(source, &address)).await?;
//! for event in (1..=3).map(EventId::new) {
//!     source.push(Fragment::new(event, Timestamp::new(0), "detector data")).await?;
//! }
//! assert_eq!(supervisor.finished().await?.events.complete, 3);
//! # Ok(())
//! # }
//! ```
//!
//! | module | has |
//! |---|---|
//! | [`prelude`] | what most programs need |
//! | [`local`] | a whole system in one process |
//! | [`source`], [`input`] | readout pushes fragments, or makes, replays or receives them |
//! | [`builder`], [`filter`], [`sink`] | where events are built, chosen and written |
//! | [`supervisor`], [`trigger_feed`] | the run's plan, its triggers, and its ledger |
//! | [`tap`] | events for onlookers while a run goes on |
//! | [`run_control`] | run after run in one process |
//! | [`event`], [`fragment`], [`id`], [`ledger`], [`units`] | the types that all of them share |
//! | [`network`], [`shaping`], [`security`] | transport, traffic shaping, and keys |
//! | [`file`](mod@file) | event files: write, read, verify, merge |
//! | [`role`] | how a role ends, and why |
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `security` | yes | keys ([`security`]); without it, connections to other hosts are refused |
//! | `udp` | yes | [`Transport::Udp`](network::Transport); without it, lanes use TCP |
//! | `km3net` | no | replay and reconstruction of KM3NeT's time slices |
//!
//! The state machines of the protocol are in [`evb_core`], the shaping in [`evb_shaper`];
//! `ARCHITECTURE.md` in the repository describes the structure of the code,
//! `docs/reference/protocol.md` every byte on the wire.

mod watch;
mod threads;
pub mod role;
pub mod filter;
pub mod tap;
pub mod sink;
pub mod source;
pub mod builder;
pub mod trigger_feed;
pub mod input;
pub mod supervisor;
pub mod run_control;
pub mod local;
pub mod network;
pub mod shaping;
pub mod security;
pub mod prelude;

pub use builder::Builder;
pub use evb_core::{event, fragment, id, ledger, time, units};
pub use evb_file as file;
pub use local::LocalSystem;
pub use run_control::RunControl;
#[cfg(feature = "security")]
pub use security::PresharedKey;
pub use security::Security;
pub use sink::Sink;
pub use source::Source;
pub use supervisor::Supervisor;
pub use tap::Tap;
pub use watch::Watch;

/// Runs a future to its end on the calling thread, with a tokio runtime of its own: for programs
/// that have none. Roles that have been started go on when `block_on` returns; a [`RunControl`]
/// makes progress only inside `block_on`.
///
/// ```
/// let answer = evb::block_on(async { 42 })?;
/// # assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The operating system refuses a runtime.
///
/// # Panics
/// Panics inside an async task.
pub fn block_on<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
