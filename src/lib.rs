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
//! Source and builder each live on a thread of their own, pinned to a core if asked, and so does
//! every sink; their handles can be used from any runtime. One process may host as many roles as it
//! likes.
//!
//! ```
//! use evb::{
//!     Builder, Source, Supervisor,
//!     builder::BuilderConfig,
//!     fragment::{Fragment, Timestamp},
//!     id::{BuilderId, EventId, RunNumber, SourceId},
//!     sink::FnSink,
//!     source::SourceConfig,
//!     supervisor::{RunPlan, SupervisorConfig},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (source, builder) = (SourceId::new(1), BuilderId::new(1));
//! let epoch = SupervisorConfig::fresh_epoch();
//! let mut plan = RunPlan::new(RunNumber::new(1), epoch, vec![source], vec![builder]);
//! plan.events = Some(3);
//! let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
//! let address = supervisor.address().to_string();
//! let run = tokio::spawn(supervisor.run());
//!
//! let sink = FnSink(|event: &evb::event::Event| {
//!     println!("event {} has {}", event.id, event.payload_size());
//!     Ok(())
//! });
//! let _builder = Builder::connect(BuilderConfig::new(builder, &address), sink).await?;
//! let source = Source::connect(SourceConfig::new(source, &address)).await?;
//! for number in 1..=3 {
//!     source.push(Fragment::new(EventId::new(number), Timestamp::new(0), "detector data")).await?;
//! }
//! let report = run.await??;
//! assert_eq!(report.events.complete, 3);
//! # Ok(())
//! # }
//! ```
//!
//! The pure machines are in [`evb_core`], the shaping in [`evb_shaper`]; `ARCHITECTURE.md` in the
//! repository describes the structure of the code, `docs/reference/protocol.md` every byte on the
//! wire.

pub mod role;
pub mod filter;
pub mod sink;
pub mod source;
pub mod builder;
pub mod trigger_feed;
pub mod input;
pub mod supervisor;
pub mod run_control;
pub mod local;
pub mod prelude;
mod watch;

pub use builder::Builder;
pub use evb_core::{event, fragment, id, ledger, units};
pub use evb_net::security::{PresharedKey, Security};
pub use local::LocalSystem;
pub use run_control::RunControl;
pub use sink::Sink;
pub use source::Source;
pub use supervisor::Supervisor;
pub use watch::Watch;
