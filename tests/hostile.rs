//! Wrong peers at a running system: each is refused with a reason, and all other peers go on.

mod support;
#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "hostile/log.rs"]
mod log;
#[path = "hostile/strangers.rs"]
mod strangers;
#[path = "hostile/lying_source.rs"]
mod lying_source;
#[path = "hostile/lying_builder.rs"]
mod lying_builder;
#[path = "hostile/lying_supervisor.rs"]
mod lying_supervisor;
#[path = "hostile/mutated_lane.rs"]
mod mutated_lane;
#[path = "hostile/mutated_control.rs"]
mod mutated_control;
